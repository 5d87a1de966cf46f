package market_test

import (
	"testing"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
)

func TestComputeCapabilities(t *testing.T) {
	t.Parallel()
	for model, want := range map[fleet.GPUModel]int64{"T4": 75, "A10G": 86, "A100-80GB": 80, "L4": 89, "H100": 90, "B200": 100} {
		if got, ok := market.ComputeCapability(model); !ok || got != want {
			t.Errorf("%s: %d %v, want %d", model, got, ok, want)
		}
	}
	for _, model := range []fleet.GPUModel{"", "MI300X", "Radeon-V520", "a card of tomorrow"} {
		if got, ok := market.ComputeCapability(model); ok {
			t.Errorf("%q has the compute capability %d", model, got)
		}
	}
}
