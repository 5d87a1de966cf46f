package main

import (
	"io"
	"os"
	"strings"

	"sigs.k8s.io/yaml"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/packing"
)

// packConstraintsInput bounds a file of constraints.
const packConstraintsInput = 8 << 20

// packRules is the file of constraints.
type packRules struct {
	Budget     string             `json:"budget_per_hour"`
	SoftMilli  int64              `json:"soft_spread_milli"`
	Limits     []packLimit        `json:"limits"`
	Daemons    []packDaemon       `json:"daemons"`
	Equivalent []packEquivalent   `json:"equivalent"`
	Workloads  []packing.RuleText `json:"workloads"` // for the pods whose column workload names them; instead of what the pods' table says
}

type packLimit struct {
	Name     string   `json:"name"`
	Where    []string `json:"where"`
	Resource string   `json:"resource"`
	Max      int64    `json:"max"`
	PerHour  string   `json:"max_per_hour"` // of resource cost
}

type packDaemon struct {
	Name      string   `json:"name"`
	CPUMilli  int64    `json:"cpu_milli"`
	MemMiB    int64    `json:"mem_mib"`
	Tolerates []string `json:"tolerates"`
	Where     []string `json:"where"`
}

type packEquivalent struct {
	For fleet.GPUModel `json:"for"`
	Use fleet.GPUModel `json:"use"`
}

// packConstraints reads a file of constraints into the options and the pods.
func packConstraints(name string, pods []packing.Pod, opts *packing.Options) error {
	f, err := os.Open(name)
	if err != nil {
		return fleet.Errorf(fleet.CodeInvalid, "%v", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, packConstraintsInput+1))
	if err != nil || len(text) > packConstraintsInput {
		return fleet.Errorf(fleet.CodeInvalid, "%s: cannot be read or is larger than %d bytes", name, packConstraintsInput)
	}
	var c packRules
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return fleet.Errorf(fleet.CodeInvalid, "%s: %s", name, strings.TrimPrefix(err.Error(), "error unmarshaling JSON: "))
	}
	if err := c.into(opts); err != nil {
		return fleet.Errorf(fleet.CodeInvalid, "%s: %v", name, err)
	}
	rules := map[string]*packing.Rules{}
	for i := range c.Workloads {
		w := &c.Workloads[i]
		r, err := w.Rules()
		if err != nil {
			return fleet.Errorf(fleet.CodeInvalid, "%s: workload %q: %v", name, w.Workload, err)
		}
		if _, twice := rules[w.Workload]; w.Workload == "" || twice {
			return fleet.Errorf(fleet.CodeInvalid, "%s: workload %q is without a name or there twice", name, w.Workload)
		}
		rules[w.Workload] = r
	}
	for i := range pods {
		if r := pods[i].Rules; r != nil && rules[r.Workload] != nil {
			pods[i].Rules = rules[r.Workload]
		}
	}
	return nil
}

func (c *packRules) into(opts *packing.Options) error {
	opts.SoftMilli = c.SoftMilli
	if c.Budget != "" {
		m, err := fleet.ParseMoney(c.Budget)
		if err != nil {
			return err
		}
		opts.Budget = &m
	}
	for _, l := range c.Limits {
		where, err := packing.ParseSelectors(l.Where)
		if err != nil {
			return err
		}
		limit := packing.Limit{Name: l.Name, Where: where, Resource: packing.Resource(l.Resource), Max: l.Max}
		if l.PerHour != "" {
			m, err := fleet.ParseMoney(l.PerHour)
			if err != nil {
				return err
			}
			limit.Max = int64(m)
		}
		opts.Limits = append(opts.Limits, limit)
	}
	for _, d := range c.Daemons {
		where, err := packing.ParseSelectors(d.Where)
		if err != nil {
			return err
		}
		opts.Daemons = append(opts.Daemons, packing.Pod{Name: d.Name, CPUMilli: d.CPUMilli, MemMiB: d.MemMiB, Archs: []string{"*"}, SpotOK: true,
			Rules: &packing.Rules{Tolerates: d.Tolerates, Where: where}})
	}
	for _, e := range c.Equivalent {
		opts.Equivalent = append(opts.Equivalent, packing.Equivalence{For: e.For, Use: e.Use})
	}
	return nil
}
