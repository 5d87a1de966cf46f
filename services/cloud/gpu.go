package cloud

import (
	"strings"

	"plimsoll.dev/services/fleet"
)

// GPU names a model in the catalogue's spelling, given what a cloud calls it and how much memory one has. Clouds sell some models with
// different memories under one name; then the memory decides. A name that is not known keeps the cloud's word, without the maker's.
func GPU(name string, memMiB int64) fleet.GPUModel {
	n := strings.ToUpper(strings.NewReplacer("NVIDIA", "", "TESLA", "", "AMD", "", "RADEON", "", "INSTINCT", "").Replace(strings.ToUpper(name)))
	n = strings.Join(strings.FieldsFunc(n, func(r rune) bool { return r == '-' || r == '_' || r == ' ' }), "-")
	for _, m := range gpuModels {
		if (n == m.name || strings.HasPrefix(n, m.name+"-")) && memMiB >= m.fromMiB {
			return m.model
		}
	}
	return fleet.GPUModel(n)
}

// gpuModels in the order in which they are tried: longer names and larger memories first.
var gpuModels = []struct {
	name    string
	fromMiB int64
	model   fleet.GPUModel
}{
	{"GB300", 0, "GB300"}, {"GB200", 0, "GB200"}, {"B300", 0, "B300"}, {"B200", 0, "B200"},
	{"H200", 0, "H200"}, {"H100-MEGA", 0, "H100"}, {"H100", 90_000, "H100-94GB"}, {"H100", 0, "H100"},
	{"A100-80GB", 0, "A100-80GB"}, {"A100", 50_000, "A100-80GB"}, {"A100", 0, "A100-40GB"},
	{"L40S", 0, "L40S"}, {"L4", 0, "L4"}, {"A10G", 0, "A10G"}, {"A10", 0, "A10"},
	{"V100", 20_000, "V100-32GB"}, {"V100", 0, "V100"}, {"T4G", 0, "T4g"}, {"T4", 0, "T4"}, {"P100", 0, "P100"}, {"P4", 0, "P4"}, {"K80", 0, "K80"},
	{"RTX-PRO-6000", 0, "RTX-PRO-6000"}, {"PRO-V520", 0, "Radeon-V520"}, {"V520", 0, "Radeon-V520"}, {"MI300X", 0, "MI300X"},
}
