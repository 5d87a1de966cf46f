package cloud

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

func TestPricesAreReadExactlyOrNotAtAll(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want fleet.Money // 0: unknown
		why  SkipReason
	}{
		{"0.3021", 302_100_000, ""},
		{"55.0400000000", 55_040_000_000, ""},
		{"0.00000000049", 0, SkipNotPositive},
		{"0.0000000005", 1, ""},
		{" 1 ", 1_000_000_000, ""},
		{"", 0, SkipMissing},
		{"0", 0, SkipNotPositive},
		{"-3", 0, SkipNotPositive},
		{"1e3", 0, SkipMalformed},
		{"NaN", 0, SkipMalformed},
		{"0x10", 0, SkipMalformed},
		{"1/3", 0, SkipMalformed},
		{"1.2.3", 0, SkipMalformed},
		{"1-2", 0, SkipMalformed},
		{".", 0, SkipMalformed},
		{"100000.000000001", 0, SkipMalformed},
		{"99999999999999999999999999999999999999999999", 0, SkipMalformed},
	} {
		got, why := ReadHour(c.text)
		if (got == nil) != (c.want == 0) || got != nil && *got != c.want || why != c.why {
			t.Errorf("%q: %v %q, want %v %q", c.text, got, why, c.want, c.why)
		}
	}
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -1, 1e300, 1e-12} {
		if got, why := HourFromFloat(&f); got != nil || why == "" {
			t.Errorf("%v: %v %q", f, got, why)
		}
	}
}

func TestAPriceIsNeverZeroAndNeverWithoutAReason(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`-?[0-9]{0,7}\.?[0-9]{0,12}`), rapid.String()).Draw(t, "text")
		got, why := ReadHour(text)
		if (got == nil) == (why == "") || got != nil && (*got <= 0 || *got > MaxHour) {
			t.Fatalf("%q: %v %q", text, got, why)
		}
	})
}

func TestEveryMoneySurvivesItsOwnText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := fleet.Money(rapid.Int64Range(1, int64(MaxHour)).Draw(t, "nano"))
		if got, _ := ReadHour(m.String()); got == nil || *got != m {
			t.Fatalf("%s became %v", m, got)
		}
	})
}

func TestGPUNamesOfThreeCloudsMeet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		mib  int64
		want fleet.GPUModel
	}{
		{"H100", 81920, "H100"}, {"nvidia-h100-80gb", 81920, "H100"}, {"nvidia-h100-mega-80gb", 81920, "H100"}, {"A100", 40960, "A100-40GB"}, {"A100", 81920, "A100-80GB"},
		{"nvidia-tesla-a100", 40960, "A100-40GB"}, {"nvidia-a100-80gb", 81920, "A100-80GB"}, {"L40S", 45776, "L40S"}, {"nvidia-l4", 24576, "L4"}, {"nvidia-tesla-t4", 15360, "T4"},
		{"T4g", 16384, "T4g"}, {"A10G", 24576, "A10G"}, {"V100", 16384, "V100"}, {"Radeon Pro V520", 8192, "Radeon-V520"}, {"nvidia-b200", 184320, "B200"}, {"NVIDIA L40", 49152, "L40"}, {"X9000", 1, "X9000"},
	} {
		if got := GPU(c.name, c.mib); got != c.want {
			t.Errorf("%s of %d MiB: %s, want %s", c.name, c.mib, got, c.want)
		}
	}
}
