//go:build dcgm

package collect

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

// dcgmFields are read from every GPU and MIG instance. A GPU or driver may not have all of them: each value carries a status,
// and what is blank is left out.
var dcgmFields = []struct {
	id   dcgm.Short
	name string
}{
	{dcgm.DCGM_FI_DEV_GPU_UTIL, "dcgm_fi_dev_gpu_util"},
	{dcgm.DCGM_FI_DEV_FB_USED, "dcgm_fi_dev_fb_used"},
	{dcgm.DCGM_FI_DEV_FB_FREE, "dcgm_fi_dev_fb_free"},
	{dcgm.DCGM_FI_DEV_POWER_USAGE, "dcgm_fi_dev_power_usage"},
	{dcgm.DCGM_FI_DEV_GPU_TEMP, "dcgm_fi_dev_gpu_temp"},
	{dcgm.DCGM_FI_DEV_XID_ERRORS, "dcgm_fi_dev_xid_errors"},
	{dcgm.DCGM_FI_DEV_ECC_DBE_VOL_TOTAL, "dcgm_fi_dev_ecc_dbe_vol_total"},
	{dcgm.DCGM_FI_DEV_ROW_REMAP_FAILURE, "dcgm_fi_dev_row_remap_failure"},
	{dcgm.DCGM_FI_PROF_GR_ENGINE_ACTIVE, "dcgm_fi_prof_gr_engine_active"},
	{dcgm.DCGM_FI_PROF_SM_ACTIVE, "dcgm_fi_prof_sm_active"},
	{dcgm.DCGM_FI_PROF_SM_OCCUPANCY, "dcgm_fi_prof_sm_occupancy"},
	{dcgm.DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, "dcgm_fi_prof_pipe_tensor_active"},
	{dcgm.DCGM_FI_PROF_DRAM_ACTIVE, "dcgm_fi_prof_dram_active"},
	{dcgm.DCGM_FI_PROF_PCIE_TX_BYTES, "dcgm_fi_prof_pcie_tx_bytes"},
	{dcgm.DCGM_FI_PROF_PCIE_RX_BYTES, "dcgm_fi_prof_pcie_rx_bytes"},
	{dcgm.DCGM_FI_PROF_NVLINK_TX_BYTES, "dcgm_fi_prof_nvlink_tx_bytes"},
	{dcgm.DCGM_FI_PROF_NVLINK_RX_BYTES, "dcgm_fi_prof_nvlink_rx_bytes"},
}

const (
	dcgmUpdateUS  = 1_000_000 // DCGM samples once a second
	dcgmKeepS     = 60
	dcgmKeepCount = 60
)

// libraryDCGM reads GPUs through NVIDIA's library.
type libraryDCGM struct {
	ids     []dcgm.Short
	uuids   map[uint]string // by GPU id
	devices []dcgmDevice
}

type dcgmDevice struct {
	group dcgm.Field_Entity_Group
	id    uint
	name  string
}

// NewDCGM connects to DCGM and watches the fields. The returned function ends that; DCGM is one per process.
func NewDCGM(cfg DCGMConfig) (Source, func(), error) {
	var cleanup func()
	var err error
	if cfg.Address == "" {
		cleanup, err = dcgm.Init(dcgm.Embedded)
	} else {
		socket := "0"
		if strings.HasPrefix(cfg.Address, "/") {
			socket = "1"
		}
		cleanup, err = dcgm.Init(dcgm.Standalone, cfg.Address, socket)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("start DCGM: %w", err)
	}
	l := &libraryDCGM{}
	if err := l.start(); err != nil {
		cleanup()
		return nil, nil, err
	}
	return l, cleanup, nil
}

func (l *libraryDCGM) start() error {
	for _, f := range dcgmFields {
		l.ids = append(l.ids, f.id)
	}
	if err := l.discover(); err != nil {
		return err
	}
	fields, err := dcgm.FieldGroupCreate("plimsoll", l.ids)
	if err != nil {
		return fmt.Errorf("create DCGM field group: %w", err)
	}
	group, err := dcgm.CreateGroup("plimsoll")
	if err != nil {
		return fmt.Errorf("create DCGM group: %w", err)
	}
	for _, d := range l.devices {
		if err := dcgm.AddEntityToGroup(group, d.group, d.id); err != nil {
			return fmt.Errorf("add %s to DCGM group: %w", d.name, err)
		}
	}
	if err := dcgm.WatchFieldsWithGroupEx(fields, group, dcgmUpdateUS, dcgmKeepS, dcgmKeepCount); err != nil {
		return fmt.Errorf("watch DCGM fields: %w", err)
	}
	return nil
}

// discover lists GPUs and their MIG instances.
func (l *libraryDCGM) discover() error {
	ids, err := dcgm.GetSupportedDevices()
	if err != nil {
		return fmt.Errorf("list GPUs: %w", err)
	}
	l.uuids, l.devices = map[uint]string{}, nil
	for _, id := range ids {
		info, err := dcgm.GetDeviceInfo(id)
		if err != nil {
			return fmt.Errorf("describe GPU %d: %w", id, err)
		}
		l.uuids[id] = info.UUID
		l.devices = append(l.devices, dcgmDevice{dcgm.FE_GPU, id, info.UUID})
	}
	tree, err := dcgm.GetGpuInstanceHierarchy()
	if err != nil {
		return nil //nolint:nilerr // a driver without MIG has no hierarchy, which is no failure
	}
	for i := uint(0); i < tree.Count; i++ {
		e := tree.EntityList[i]
		if e.Entity.EntityGroupId != dcgm.FE_GPU_I || e.Parent.EntityGroupId != dcgm.FE_GPU {
			continue
		}
		name := l.uuids[e.Parent.EntityId] + "/gi/" + strconv.FormatUint(uint64(e.Info.NvmlInstanceId), 10)
		l.devices = append(l.devices, dcgmDevice{dcgm.FE_GPU_I, e.Entity.EntityId, name})
	}
	return nil
}

// Name implements Source.
func (l *libraryDCGM) Name() string { return "dcgm" }

// Collect implements Source.
func (l *libraryDCGM) Collect(_ context.Context, in Input) (Batch, error) {
	if err := dcgm.UpdateAllFields(); err != nil {
		return Batch{}, fmt.Errorf("update DCGM fields: %w", err)
	}
	var out []gpuReading
	for _, d := range l.devices {
		values, err := dcgm.EntityGetLatestValues(d.group, d.id, l.ids)
		if err != nil {
			return Batch{}, fmt.Errorf("read %s: %w", d.name, err)
		}
		r := gpuReading{Entity: d.name, Fields: map[string]float64{}}
		for i, v := range values {
			if x, ok := dcgmNumber(v); ok && i < len(dcgmFields) {
				r.Fields[dcgmFields[i].name] = x
			}
		}
		out = append(out, r)
	}
	return gpuBatch(out, in), nil
}

// dcgmNumber is the value, if the GPU has it: the status counts, and the placeholders do not.
func dcgmNumber(v dcgm.FieldValue_v1) (float64, bool) {
	if v.Status != 0 {
		return 0, false
	}
	switch v.FieldType {
	case dcgm.DCGM_FT_INT64:
		if dcgm.IsInt64Blank(v.Int64()) {
			return 0, false
		}
		return float64(v.Int64()), !isBlank(float64(v.Int64()), true)
	case dcgm.DCGM_FT_DOUBLE:
		return v.Float64(), !isBlank(v.Float64(), false)
	}
	return 0, false
}
