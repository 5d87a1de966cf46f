package replay

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll.dev/services/fleet"
)

// steady is traffic that never changes.
type steady Load

func (s steady) At(int64) Load { return Load(s) }

// small is a world of one GPU pool and one chat workload under steady traffic, which tests bend to their purpose.
func small(load Load, bend func(*Config)) Config {
	c := Config{
		Seed: 3, Start: start,
		Pools: []Pool{{Name: "gpu", Cloud: fleet.CloudAWS, Region: "us-east-1", Zones: []string{"us-east-1a", "us-east-1b"}, Purchase: fleet.PurchaseOnDemand, BootSeconds: 60,
			Type: fleet.InstanceType{Name: "g5.2xlarge", CPUMilli: 8000, MemMiB: 32768, GPUModel: "A10G", GPUCount: 1, GPUMemoryMiB: 24576}}},
		Workloads: []Workload{{
			Workload: named("chat", "Deployment", "llm", "a", "gold", 4000, 16384, 1000), Pools: []string{"gpu"}, Replicas: 2, Traffic: steady(load),
			Startup: Startup{PullSeconds: 90, LoadSeconds: 60, WarmSeconds: 60},
			Service: Service{Slots: 36, PrefillRate: 5000, TokenSeconds: 0.040, LateSeconds: 5, TimeoutSeconds: 60, CPUBusy: 2, MemoryMiB: 9000, GPUBaseMiB: 9000, KVCache: true, SMBase: 0.1, SMFull: 0.9},
		}},
	}
	if bend != nil {
		bend(&c)
	}
	return c
}

const llm = "chat/Deployment/llm"

func newWorld(tb testing.TB, c Config) *World {
	tb.Helper()
	w, err := NewWorld(c)
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

func advance(tb testing.TB, w *World, d time.Duration) {
	tb.Helper()
	if err := w.AdvanceTo(w.Now().Add(d)); err != nil {
		tb.Fatal(err)
	}
}

func save(tb testing.TB, w *World) []byte {
	tb.Helper()
	doc, err := w.Save()
	if err != nil {
		tb.Fatal(err)
	}
	return doc
}

func state(w *World, key string) fleet.WorkloadState {
	for _, st := range w.States(15 * time.Minute) {
		if st.Workload.Key == key {
			return st
		}
	}
	return fleet.WorkloadState{}
}

func last(tb testing.TB, w *World, key string, name fleet.SignalName) float64 {
	tb.Helper()
	s, ok := state(w, key).Signal(name).Last()
	if !ok {
		tb.Fatalf("%s has no %s", key, name)
	}
	return s.Value
}

// checkBooks holds what must be true of any world at any moment.
func checkBooks(t interface {
	Fatalf(string, ...any)
	Helper()
}, w *World) {
	t.Helper()
	for _, l := range w.loads {
		waiting := int64(0)
		for _, c := range l.Queue {
			if c.N <= 0 {
				t.Fatalf("%s: a cohort of %d", l.cfg.Key, c.N)
			}
			waiting += c.N
		}
		c := l.Count
		if c.Arrived != c.Served+c.Waiting+c.InService+c.TimedOut || waiting != c.Waiting || l.Running != c.InService {
			t.Fatalf("%s: books do not add up: %+v, queue %d, running %d", l.cfg.Key, c, waiting, l.Running)
		}
		if c.Served < 0 || c.Waiting < 0 || c.InService < 0 || c.TimedOut < 0 || c.Late < 0 || l.Desired < 0 {
			t.Fatalf("%s: something is negative: %+v, desired %d", l.cfg.Key, c, l.Desired)
		}
		alive := 0
		for _, p := range l.pods {
			if p.Phase != fleet.PodTerminating {
				alive++
			}
			if p.EndedMS > 0 {
				t.Fatalf("%s: %s ended but is kept among the living", l.cfg.Key, p.Name)
			}
		}
		if alive != l.Desired {
			t.Fatalf("%s: %d pods for %d replicas", l.cfg.Key, alive, l.Desired)
		}
	}
	byNode := map[*node][]*pod{}
	for _, p := range w.pods {
		if p.node != nil {
			byNode[p.node] = append(byNode[p.node], p)
		}
	}
	inPools := 0
	for _, p := range w.pools {
		inPools += len(p.nodes)
	}
	if inPools != len(w.nodes) {
		t.Fatalf("%d nodes in pools, %d in the world", inPools, len(w.nodes))
	}
	for _, n := range w.nodes {
		checkNode(t, n, byNode[n])
		delete(byNode, n)
	}
	for n := range byNode {
		t.Fatalf("pods on node %s, which is gone", n.Name)
	}
}

func checkNode(t interface {
	Fatalf(string, ...any)
	Helper()
}, n *node, pods []*pod) {
	t.Helper()
	cpu, mem, gpus := allocatableCPU(n.pool.cfg.Type), allocatableMem(n.pool.cfg.Type), map[uint64]int64{}
	for _, owner := range n.GPUs {
		if owner != 0 {
			gpus[owner]++
		}
	}
	for _, p := range pods {
		cpu, mem = cpu-p.load.cfg.CPUMilli, mem-p.load.cfg.MemMiB
		if gpus[p.Number] != p.load.cfg.GPUMilli/1000 {
			t.Fatalf("pod %s holds %d GPUs of %s", p.Name, gpus[p.Number], n.Name)
		}
		delete(gpus, p.Number)
	}
	if cpu != n.FreeCPU || mem != n.FreeMem || cpu < 0 || mem < 0 || len(gpus) != 0 || len(pods) != n.pods {
		t.Fatalf("node %s: free cpu %d (book %d), memory %d (%d), GPUs held by nobody %v, %d pods (%d)", n.Name, cpu, n.FreeCPU, mem, n.FreeMem, gpus, len(pods), n.pods)
	}
}

func TestBooksBalanceWhateverIsScaled(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		demo := Demo(rapid.Uint64().Draw(t, "seed"), start.Add(time.Duration(rapid.IntRange(0, 167).Draw(t, "hour"))*time.Hour), nil)
		for i := range demo.Config.Pools { // bad luck, so that losses and stock-outs happen within minutes
			p := &demo.Config.Pools[i]
			p.EmptySeconds = 60
			if p.Purchase == fleet.PurchaseSpot {
				p.HazardPerHour, p.StockOutsPerWeek = 6, 160
			}
		}
		w, err := NewWorld(demo.Config)
		if err != nil {
			t.Fatalf("%v", err)
		}
		keys := w.Keys()
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			key := rapid.SampledFrom(keys).Draw(t, "workload")
			n := rapid.IntRange(-3, 40).Draw(t, "replicas")
			before, after, err := w.Scale(key, n)
			if (err == nil) != (n >= 0) || (n < 0 && before != after) {
				t.Fatalf("scale to %d: %d, %d, %v", n, before, after, err)
			}
			checkBooks(t, w)
			for range rapid.IntRange(1, 60).Draw(t, "steps") {
				if err := w.Step(); err != nil {
					t.Fatalf("%v", err)
				}
				checkBooks(t, w)
			}
		}
	})
}

func TestSameSeedSameBytes(t *testing.T) {
	t.Parallel()
	play := func(seed uint64) []byte {
		l := demoLoop(t, seed, nil)
		l.run(t, 30*time.Hour, nil)
		return save(t, l.World)
	}
	a, b, c := play(5), play(5), play(6)
	if !bytes.Equal(a, b) {
		t.Error("two worlds of one seed differ")
	}
	if bytes.Equal(a, c) {
		t.Error("worlds of two seeds are equal")
	}
}

func TestTrafficDoesNotDependOnDecisions(t *testing.T) {
	t.Parallel()
	var arrived [2]int64
	for i, n := range []int{1, 12} {
		w := newWorld(t, Demo(9, start, nil).Config)
		if _, _, err := w.Scale("chat/Deployment/chat-llm", n); err != nil {
			t.Fatal(err)
		}
		advance(t, w, 6*time.Hour)
		arrived[i] = w.byKey["chat/Deployment/chat-llm"].Count.Arrived
	}
	if arrived[0] != arrived[1] || arrived[0] == 0 {
		t.Errorf("arrived %d with one replica, %d with twelve", arrived[0], arrived[1])
	}
}

func TestRestoredWorldGoesOnAsIfNothingHappened(t *testing.T) {
	t.Parallel()
	demo := Demo(11, start, nil)
	w := newWorld(t, demo.Config)
	for i, key := range w.Keys() {
		if _, _, err := w.Scale(key, 3+i); err != nil {
			t.Fatal(err)
		}
	}
	advance(t, w, 3*time.Minute) // in the middle of cold starts
	again, err := Restore(demo.Config, save(t, w))
	if err != nil {
		t.Fatal(err)
	}
	checkBooks(t, again)
	for _, x := range []*World{w, again} {
		advance(t, x, 9*time.Hour)
		if _, _, err := x.Scale("media/Deployment/image-gen", 2); err != nil {
			t.Fatal(err)
		}
		advance(t, x, time.Hour)
	}
	if !bytes.Equal(save(t, w), save(t, again)) {
		t.Error("the restored world went another way")
	}
}

func TestRestoreRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	demo := Demo(1, start, nil)
	doc := save(t, newWorld(t, demo.Config))
	other := Demo(2, start, nil).Config
	fewer := Demo(1, start, nil).Config
	fewer.Workloads = fewer.Workloads[1:]
	for name, tc := range map[string]struct {
		cfg  Config
		doc  string
		code fleet.Code
	}{
		"another seed":                {other, string(doc), fleet.CodeConflict},
		"another set of workloads":    {fewer, string(doc), fleet.CodeConflict},
		"half a document":             {demo.Config, string(doc[:len(doc)/2]), fleet.CodeInvalid},
		"not JSON":                    {demo.Config, "hello", fleet.CodeInvalid},
		"a book that does not add up": {demo.Config, strings.Replace(string(doc), `"Count":{"Arrived":0`, `"Count":{"Arrived":5`, 1), fleet.CodeInvalid},
		"a pod of an unknown workload": {demo.Config, strings.Replace(string(doc), `"Key":"chat/Deployment/chat-llm","NodeNumber"`,
			`"Key":"chat/Deployment/ghost","NodeNumber"`, 1), fleet.CodeInvalid},
		"a node of an unknown pool": {demo.Config, strings.Replace(string(doc), `"PoolName":"gpu-stable"`, `"PoolName":"attic"`, 1), fleet.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Restore(tc.cfg, []byte(tc.doc))
			if code := codeOf(err); code != tc.code {
				t.Errorf("got %v (code %q), want %q", err, code, tc.code)
			}
		})
	}
}

func codeOf(err error) fleet.Code {
	if e, ok := err.(*fleet.Error); ok { //nolint:errorlint // the room returns them bare
		return e.Code
	}
	return ""
}

func TestScaleRefusesNonsense(t *testing.T) {
	t.Parallel()
	w := newWorld(t, small(Load{}, nil))
	if _, _, err := w.Scale("chat/Deployment/ghost", 1); codeOf(err) != fleet.CodeNotFound {
		t.Errorf("unknown workload: %v", err)
	}
	for _, n := range []int{-1, maxReplicas + 1} {
		if before, after, err := w.Scale(llm, n); codeOf(err) != fleet.CodeInvalid || before != 2 || after != 2 {
			t.Errorf("%d replicas: %d, %d, %v", n, before, after, err)
		}
	}
	if before, after, err := w.Scale(llm, 5); err != nil || before != 2 || after != 5 {
		t.Errorf("got %d, %d, %v", before, after, err)
	}
}

func TestConfigIsCheckedInItsOwnWords(t *testing.T) {
	t.Parallel()
	for want, bend := range map[string]func(*Config){
		"needs 1 to 32 pools":       func(c *Config) { c.Pools = nil },
		"needs 1 to 2048 workloads": func(c *Config) { c.Workloads = nil },
		"needs a start time":        func(c *Config) { c.Start = time.Time{} },
		"no name of its own":        func(c *Config) { c.Pools = append(c.Pools, c.Pools[0]) },
		"needs 1 to 16 zones":       func(c *Config) { c.Pools[0].Zones = nil },
		"has no size":               func(c *Config) { c.Pools[0].Type.CPUMilli = 0 },
		"node bounds":               func(c *Config) { c.Pools[0].MinNodes, c.Pools[0].MaxNodes = 5, 2 },
		"negative or infinite":      func(c *Config) { c.Pools[0].HazardPerHour = -1 },
		"unknown purchase option":   func(c *Config) { c.Pools[0].Purchase = "gift" },
		"namespace/Kind/name":       func(c *Config) { c.Workloads[0].Key = "llm" },
		"lists no pool":             func(c *Config) { c.Workloads[0].Pools = nil },
		"which there is not":        func(c *Config) { c.Workloads[0].Pools = []string{"attic"} },
		"does not fit on a node":    func(c *Config) { c.Workloads[0].GPUMilli = 2000 },
		"whole GPUs only":           func(c *Config) { c.Workloads[0].GPUMilli = 500 },
		"has no traffic":            func(c *Config) { c.Workloads[0].Traffic = nil },
		"has no service time":       func(c *Config) { c.Workloads[0].Service.TokenSeconds = 0 },
		"serves 0 requests at once": func(c *Config) { c.Workloads[0].Service.Slots = 0 },
		"starts with -1 replicas":   func(c *Config) { c.Workloads[0].Replicas = -1 },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			_, err := NewWorld(small(Load{}, bend))
			if codeOf(err) != fleet.CodeInvalid || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

func TestImpossibleTrafficIsAnError(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{-1, 2e6} {
		if err := newWorld(t, small(Load{Rate: rate}, nil)).Step(); codeOf(err) != fleet.CodeInvalid {
			t.Errorf("rate %v: %v", rate, err)
		}
	}
}
