// Package replay holds the World: a model cluster with traffic, replicas that boot, serve and drain, machines that come late, get
// interrupted or are out of stock, and the readers of recorded traffic that may drive it. The demo cluster, the back-test and the
// end-to-end test share it. It is pure: time is a number that the caller moves, randomness is a function of (seed, thing, time), so
// that two runs with the same seed and the same calls agree byte for byte. It may never read a clock, a file, a network or a
// database, and it knows nothing of who scales it.
package replay

import (
	"math"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// StepMillis is the length of one step of the World: five seconds, half of the service time of a chat answer and a third of the
// agent's sampling interval.
const StepMillis = 5_000

// SampleMillis is how often the World samples its signals: the agent's default tick.
const SampleMillis = 15_000

// Limits of a World, checked before anything is allocated.
const (
	maxPools     = 32
	maxWorkloads = 2_048
	maxReplicas  = 2_000 // of one workload; Scale refuses more
	maxNodes     = 5_000 // of one pool
	maxCohorts   = 400_000
)

// Config describes a model cluster.
type Config struct {
	Seed      uint64
	Start     time.Time // rounded down to a whole step
	Pools     []Pool
	Workloads []Workload
}

// Pool is a group of equal machines with a provisioner that adds one when pods wait and removes those that stand empty.
type Pool struct {
	Name     string
	Cloud    fleet.Cloud
	Region   string
	Zones    []string // tried in turn; at least one
	Type     fleet.InstanceType
	Purchase fleet.Purchase
	Labels   map[string]string

	BootSeconds      float64 // asked for until ready; each node varies by a fifth around it
	EmptySeconds     float64 // an empty node is removed after this; default 600
	MinNodes         int     // kept even when empty
	MaxNodes         int     // default 100
	HazardPerHour    float64 // Spot interruptions per node and hour while the zone has stock; ten times that while it has none
	NoticeSeconds    float64 // between the notice and the loss; default 120
	StockOutsPerWeek float64 // spells per zone in which launches fail
	StockOutSeconds  float64 // mean length of a spell; default 2400
}

// Workload is what runs: its requests per replica, its start-up, how it serves, and its traffic.
type Workload struct {
	fleet.Workload
	Pools    []string // in order of preference; the next is used only when the one before has no machine to give
	Replicas int      // at the start
	Startup  Startup
	Service  Service
	Traffic  Source
}

// Startup is how long a fresh replica takes, phase by phase, in seconds. Each replica varies by a fifth around it.
type Startup struct {
	PullSeconds  float64 // image pull on a node that does not hold the image yet
	LoadSeconds  float64 // container start, model load, engine start
	WarmSeconds  float64 // ramp after ready, from WarmFrom to full capacity
	WarmFrom     float64 // share of capacity right after ready; default 0.5
	DrainSeconds float64 // from being told to stop to the end; default 30
}

// Service is how a replica serves. With PrefillRate the work of a request is counted in tokens, else it takes Seconds.
type Service struct {
	Slots          int     // requests that one replica serves at once (the batch limit)
	PrefillRate    float64 // prompt tokens per second of a replica that only reads prompts; 0: not a token service
	TokenSeconds   float64 // per output token at a full batch
	TokenSeconds1  float64 // per output token when alone; default half of TokenSeconds
	Seconds        float64 // mean service time of a request that is not made of tokens
	Spread         float64 // sigma of the logarithm of service times, for percentiles; default 0.5
	LateSeconds    float64 // a request that waited longer to be started is late
	TimeoutSeconds float64 // a request that waited longer is given up; 0: never

	CPUIdle    float64 // cores of an idle replica
	CPUSeconds float64 // core-seconds per request
	CPUBusy    float64 // cores of a fully busy replica on top of CPUIdle (for services whose CPU follows the GPU)
	MemoryMiB  float64 // of one replica
	GPUBaseMiB float64 // framebuffer of an idle replica: weights and runtime
	GPUBusyMiB float64 // on top when fully busy: activations, KV cache
	KVCache    bool    // has a KV cache
	SMBase     float64 // SM active while anything runs
	SMFull     float64 // SM active of a full replica
}

// Load is what a Source asks of a workload at a moment.
type Load struct {
	Rate      float64 // requests per second
	TokensIn  float64 // mean prompt tokens per request
	TokensOut float64 // mean output tokens per request
}

// Source is traffic as a pure function of time (unix milliseconds): the same seed and time give the same load whatever was decided.
type Source interface {
	At(ms int64) Load
}

// withDefaults fills in what was left out.
func (c Config) withDefaults() Config {
	c.Start = time.UnixMilli(c.Start.UnixMilli() / StepMillis * StepMillis).UTC()
	c.Pools = append([]Pool(nil), c.Pools...)
	for i := range c.Pools {
		p := &c.Pools[i]
		setDefault(&p.EmptySeconds, 600)
		setDefault(&p.NoticeSeconds, 120)
		setDefault(&p.StockOutSeconds, 2400)
		if p.MaxNodes == 0 {
			p.MaxNodes = 100
		}
	}
	c.Workloads = append([]Workload(nil), c.Workloads...)
	for i := range c.Workloads {
		w := &c.Workloads[i]
		setDefault(&w.Startup.WarmFrom, 0.5)
		setDefault(&w.Startup.DrainSeconds, 30)
		setDefault(&w.Service.Spread, 0.5)
		setDefault(&w.Service.TokenSeconds1, w.Service.TokenSeconds/2)
		if w.Class == "" {
			w.Class = "standard"
		}
	}
	return c
}

func setDefault(f *float64, v float64) {
	if *f == 0 {
		*f = v
	}
}

// Validate says what is wrong with the config, in the words of its fields.
func (c Config) Validate() error {
	if len(c.Pools) == 0 || len(c.Pools) > maxPools {
		return fleet.Errorf(fleet.CodeInvalid, "a world needs 1 to %d pools, not %d", maxPools, len(c.Pools))
	}
	if len(c.Workloads) == 0 || len(c.Workloads) > maxWorkloads {
		return fleet.Errorf(fleet.CodeInvalid, "a world needs 1 to %d workloads, not %d", maxWorkloads, len(c.Workloads))
	}
	if c.Start.Unix() < 1 {
		return fleet.Errorf(fleet.CodeInvalid, "a world needs a start time")
	}
	pools := map[string]Pool{}
	for _, p := range c.Pools {
		if _, twice := pools[p.Name]; twice || p.Name == "" {
			return fleet.Errorf(fleet.CodeInvalid, "pool %q has no name of its own", p.Name)
		}
		if err := p.validate(); err != nil {
			return err
		}
		pools[p.Name] = p
	}
	keys := map[string]bool{}
	for _, w := range c.Workloads {
		if keys[w.Key] || strings.Count(w.Key, "/") != 2 {
			return fleet.Errorf(fleet.CodeInvalid, "workload key %q is not a namespace/Kind/name of its own", w.Key)
		}
		keys[w.Key] = true
		if err := w.validate(pools); err != nil {
			return err
		}
	}
	return nil
}

func (p Pool) validate() error {
	switch {
	case len(p.Zones) == 0 || len(p.Zones) > 16:
		return fleet.Errorf(fleet.CodeInvalid, "pool %s needs 1 to 16 zones", p.Name)
	case p.Type.CPUMilli <= 0 || p.Type.MemMiB <= 0 || p.Type.GPUCount < 0 || p.Type.GPUCount > 64:
		return fleet.Errorf(fleet.CodeInvalid, "pool %s: type %s has no size", p.Name, p.Type.Name)
	case p.MaxNodes < 0 || p.MaxNodes > maxNodes || p.MinNodes < 0 || (p.MaxNodes > 0 && p.MinNodes > p.MaxNodes):
		return fleet.Errorf(fleet.CodeInvalid, "pool %s: node bounds %d..%d", p.Name, p.MinNodes, p.MaxNodes)
	case !positive(p.BootSeconds, p.EmptySeconds, p.HazardPerHour, p.NoticeSeconds, p.StockOutsPerWeek, p.StockOutSeconds):
		return fleet.Errorf(fleet.CodeInvalid, "pool %s has a negative or infinite figure", p.Name)
	}
	_, err := fleet.ParsePurchase(string(p.Purchase))
	return err
}

func (w Workload) validate(pools map[string]Pool) error {
	s := w.Service
	switch {
	case len(w.Pools) == 0:
		return fleet.Errorf(fleet.CodeInvalid, "workload %s lists no pool", w.Key)
	case w.Replicas < 0 || w.Replicas > maxReplicas:
		return fleet.Errorf(fleet.CodeInvalid, "workload %s starts with %d replicas", w.Key, w.Replicas)
	case w.Traffic == nil:
		return fleet.Errorf(fleet.CodeInvalid, "workload %s has no traffic", w.Key)
	case w.CPUMilli <= 0 || w.MemMiB <= 0 || w.GPUMilli < 0 || w.GPUMilli%1000 != 0:
		return fleet.Errorf(fleet.CodeInvalid, "workload %s requests cpu %d, memory %d, gpu %d (whole GPUs only)", w.Key, w.CPUMilli, w.MemMiB, w.GPUMilli)
	case s.Slots < 1 || s.Slots > 100_000:
		return fleet.Errorf(fleet.CodeInvalid, "workload %s serves %d requests at once", w.Key, s.Slots)
	case s.PrefillRate == 0 && s.Seconds <= 0, s.PrefillRate > 0 && s.TokenSeconds <= 0:
		return fleet.Errorf(fleet.CodeInvalid, "workload %s has no service time", w.Key)
	case !positive(s.PrefillRate, s.TokenSeconds, s.TokenSeconds1, s.Seconds, s.Spread, s.LateSeconds, s.TimeoutSeconds, s.CPUIdle, s.CPUSeconds,
		s.CPUBusy, s.MemoryMiB, s.GPUBaseMiB, s.GPUBusyMiB, s.SMBase, s.SMFull, w.Startup.PullSeconds, w.Startup.LoadSeconds, w.Startup.WarmSeconds,
		w.Startup.WarmFrom, w.Startup.DrainSeconds):
		return fleet.Errorf(fleet.CodeInvalid, "workload %s has a negative or infinite figure", w.Key)
	}
	for _, name := range w.Pools {
		p, ok := pools[name]
		if !ok {
			return fleet.Errorf(fleet.CodeInvalid, "workload %s lists pool %q, which there is not", w.Key, name)
		}
		if w.CPUMilli > allocatableCPU(p.Type) || w.MemMiB > allocatableMem(p.Type) || int(w.GPUMilli/1000) > p.Type.GPUCount {
			return fleet.Errorf(fleet.CodeInvalid, "workload %s does not fit on a node of pool %s", w.Key, name)
		}
	}
	return nil
}

// positive reports whether all figures are finite and not negative.
func positive(figures ...float64) bool {
	for _, f := range figures {
		if !(f >= 0) || math.IsInf(f, 0) {
			return false
		}
	}
	return true
}

// The kubelet and the system's own pods keep a little of every machine.
func allocatableCPU(t fleet.InstanceType) int64 { return t.CPUMilli - 300 - t.CPUMilli/50 }
func allocatableMem(t fleet.InstanceType) int64 { return t.MemMiB - 900 - t.MemMiB/25 }
