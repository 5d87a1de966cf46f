package packing

import (
	"encoding/csv"
	"errors"
	"io"
	"math/big"
	"strconv"
	"strings"

	"plimsoll.dev/services/fleet"
)

// ReadPods reads pods from CSV with a header: name, cpu_milli, mem_mib, gpu_count, gpu_milli, gpu_models (a|b, empty: any), spot_ok,
// and if there, arch (a|b, empty: amd64, *: any) and what RuleText says, lists as a|b. Errors name the line.
func ReadPods(r io.Reader) ([]Pod, error) {
	var out []Pod
	var rules ruleReader
	err := table(r, []string{"name", "cpu_milli", "mem_mib", "gpu_count", "gpu_milli", "gpu_models", "spot_ok"}, maxPods, func(f *fields) {
		p := Pod{Name: f.text("name"), CPUMilli: f.whole("cpu_milli"), MemMiB: f.whole("mem_mib"), GPUCount: f.whole("gpu_count"),
			GPUMilli: f.whole("gpu_milli"), SpotOK: f.yes("spot_ok"), Archs: f.list("arch")}
		for _, m := range f.list("gpu_models") {
			p.GPUModels = append(p.GPUModels, fleet.GPUModel(m))
		}
		p.Rules = rules.read(f)
		out = append(out, p)
	})
	return out, err
}

// ReadOfferings reads a catalogue from CSV with a header: instance_type, cloud, region, zone, capacity_type, price_per_hour, gpu_model,
// gpu_count, arch, alloc_cpu_milli, alloc_mem_mib, max_pods, and if there, reservation_id, reservation_count, stock, gpu_sharing, family,
// vcpu, pool, gpu_mem_mib, mig, domain_nodes, hazard_milli, taints (a|b) and labels
// (key=value|key=value). A line with an empty price stays in, unusable. Errors name the line.
func ReadOfferings(r io.Reader) ([]Offering, error) {
	var out []Offering
	need := []string{"instance_type", "cloud", "region", "zone", "capacity_type", "price_per_hour", "gpu_model", "gpu_count", "arch", "alloc_cpu_milli", "alloc_mem_mib", "max_pods"}
	err := table(r, need, maxOfferings, func(f *fields) {
		o := Offering{CPUMilli: f.whole("alloc_cpu_milli"), MemMiB: f.whole("alloc_mem_mib"), GPUModel: fleet.GPUModel(f.text("gpu_model")),
			GPUCount: f.whole("gpu_count"), Arch: f.text("arch"), MaxPods: f.whole("max_pods"), ReservationID: f.text("reservation_id"),
			SharesGPUs: f.yes("gpu_sharing"), Family: f.text("family"), VCPU: f.whole("vcpu"), Pool: f.text("pool"), GPUMemMiB: f.whole("gpu_mem_mib"),
			MIG: f.yes("mig"), DomainNodes: f.whole("domain_nodes"), HazardMilli: f.whole("hazard_milli"), Taints: f.list("taints"), Labels: f.list("labels")}
		o.Cloud, o.Region, o.Zone, o.InstanceType = fleet.Cloud(f.text("cloud")), f.text("region"), f.text("zone"), f.text("instance_type")
		purchase, err := fleet.ParsePurchase(f.text("capacity_type"))
		f.fail(err)
		o.Purchase = purchase
		if t := f.text("price_per_hour"); t != "" {
			price, err := parsePrice(t)
			f.fail(err)
			o.Price = &price
		}
		for _, name := range []string{"reservation_count", "stock"} {
			if f.text(name) != "" {
				n := f.whole(name)
				if o.Stock == nil || n < *o.Stock {
					o.Stock = &n
				}
			}
		}
		out = append(out, o)
	})
	return out, err
}

// parsePrice reads a decimal exactly, with or without an exponent. What is finer than a nano-unit is an error, not rounded away.
func parsePrice(s string) (fleet.Money, error) {
	if len(s) > 32 {
		return 0, fleet.Errorf(fleet.CodeInvalid, "price %q is too long", s)
	}
	mantissa, exp, has := strings.Cut(strings.ToLower(s), "e")
	if !has {
		return fleet.ParseMoney(s)
	}
	e, err := strconv.Atoi(exp)
	if err != nil || e < -30 || e > 30 {
		return 0, fleet.Errorf(fleet.CodeInvalid, "price %q is not a decimal", s)
	}
	r, ok := new(big.Rat).SetString(mantissa)
	if !ok || strings.ContainsAny(mantissa, "/_xp") {
		return 0, fleet.Errorf(fleet.CodeInvalid, "price %q is not a decimal", s)
	}
	ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(e+9+60)), nil)
	r.Mul(r, new(big.Rat).SetFrac(ten, new(big.Int).Exp(big.NewInt(10), big.NewInt(60), nil)))
	if !r.IsInt() || !r.Num().IsInt64() {
		return 0, fleet.Errorf(fleet.CodeInvalid, "price %q is finer than a nano-unit or out of range", s)
	}
	return fleet.Money(r.Num().Int64()), nil
}

// fields is one line of a table; the first error stays.
type fields struct {
	at  map[string]int
	row []string
	err error
}

func (f *fields) fail(err error) {
	if f.err == nil && err != nil {
		f.err = err
	}
}

func (f *fields) text(name string) string {
	i, ok := f.at[name]
	if !ok || i >= len(f.row) {
		return ""
	}
	return strings.TrimSpace(f.row[i])
}

func (f *fields) whole(name string) int64 {
	t := f.text(name)
	if t == "" {
		return 0
	}
	n, err := strconv.ParseInt(t, 10, 64)
	if err != nil {
		f.fail(fleet.Errorf(fleet.CodeInvalid, "%s is %q, not a whole number", name, t))
	}
	return n
}

func (f *fields) yes(name string) bool {
	switch t := strings.ToLower(f.text(name)); t {
	case "1", "true", "yes":
		return true
	case "", "0", "false", "no":
		return false
	default:
		f.fail(fleet.Errorf(fleet.CodeInvalid, "%s is %q: want 1 or 0", name, t))
		return false
	}
}

func (f *fields) list(name string) []string {
	var out []string
	for _, t := range strings.Split(f.text(name), "|") {
		if t = strings.TrimSpace(t); t != "" {
			out = append(out, t)
		}
	}
	return out
}

// table reads CSV with a header that has the needed columns, at most most lines, and calls each with every line.
func table(r io.Reader, need []string, most int, each func(f *fields)) error {
	c := csv.NewReader(r)
	c.ReuseRecord = true
	c.FieldsPerRecord = -1
	head, err := c.Read()
	if err != nil {
		return fleet.Errorf(fleet.CodeInvalid, "read the header: %v", err)
	}
	f := &fields{at: map[string]int{}}
	for i, h := range head {
		f.at[strings.TrimSpace(strings.TrimPrefix(h, "\ufeff"))] = i
	}
	for _, n := range need {
		if _, ok := f.at[n]; !ok {
			return fleet.Errorf(fleet.CodeInvalid, "there is no column %s", n)
		}
	}
	for line := 2; ; line++ {
		f.row, err = c.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fleet.Errorf(fleet.CodeInvalid, "line %d: %v", line, err)
		}
		if line-1 > most {
			return fleet.Errorf(fleet.CodeTooLarge, "more than %d lines", most)
		}
		if each(f); f.err != nil {
			return fleet.Errorf(fleet.CodeInvalid, "line %d: %v", line, f.err)
		}
	}
}
