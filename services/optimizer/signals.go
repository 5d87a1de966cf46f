package optimizer

import (
	"slices"

	"plimsoll.dev/services/fleet"
)

// Signals lists the signals that the rules of a policy look at, each once, by name.
func Signals(p *Policy) []fleet.SignalName {
	out := ruleSignals(p)
	slices.Sort(out)
	return slices.Compact(out)
}
