package market

import "plimsoll.dev/services/fleet"

// computeCapability is what each GPU model can run, as NVIDIA lists it (developer.nvidia.com/cuda-gpus, seen 2026-11-30), in tenths: 89 is 8.9. It
// is a fact of the chip, whatever driver runs on it.
var computeCapability = map[fleet.GPUModel]int64{
	"K80": 37, "M60": 52, "P100": 60, "P4": 61, "P40": 61, "V100": 70, "V100-32GB": 70, "T4": 75, "T4G": 75, "T4g": 75,
	"A100-40GB": 80, "A100-80GB": 80, "A30": 80, "A10": 86, "A10G": 86, "A2": 86, "A16": 86, "A40": 86, "A6000": 86,
	"L4": 89, "L40": 89, "L40S": 89, "H100": 90, "H100-94GB": 90, "H200": 90, "GH200": 90, "B200": 100, "GB200": 100, "B300": 103, "GB300": 103, "RTX-PRO-6000": 120,
}

// ComputeCapability is a GPU model's CUDA compute capability in tenths, 90 for 9.0. ok is false for models of others than NVIDIA and for those that
// the table does not have: that is unknown, not none.
func ComputeCapability(m fleet.GPUModel) (tenths int64, ok bool) {
	tenths, ok = computeCapability[m]
	return tenths, ok
}
