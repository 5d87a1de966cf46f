package act

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"pgregory.net/rapid"
)

// cluster is an actuator in memory that records what it was told and fails on demand.
type cluster struct {
	replicas map[string]int32
	version  int
	sets     []string
	nextErr  error
	onSet    func() // before a change takes effect
}

func newCluster(counts map[string]int32) *cluster { return &cluster{replicas: counts} }

func (c *cluster) Read(_ context.Context, w string) (Scale, error) {
	n, ok := c.replicas[w]
	if !ok {
		return Scale{}, ErrNotFound
	}
	return Scale{Replicas: n, Version: fmt.Sprint(c.version)}, nil
}

func (c *cluster) Set(_ context.Context, w string, from Scale, to int32) (Scale, error) {
	if c.onSet != nil {
		c.onSet()
	}
	if err := c.nextErr; err != nil {
		c.nextErr = nil
		return Scale{}, err
	}
	if from.Version != fmt.Sprint(c.version) {
		return Scale{}, ErrConflict
	}
	c.sets = append(c.sets, fmt.Sprintf("%s=%d", w, to))
	c.replicas[w] = to
	c.version++
	return Scale{Replicas: to, Version: fmt.Sprint(c.version)}, nil
}

func (c *cluster) observed() map[string]int32 {
	out := map[string]int32{}
	for k, n := range c.replicas {
		out[k] = n
	}
	return out
}

// bench is an actor on a cluster in memory, with a clock that the test sets.
type bench struct {
	path    string
	cluster *cluster
	now     int64
	cfg     Config
	journal *Journal
	actor   *Actor
}

func newBench(t testing.TB, counts map[string]int32, cfg Config) *bench {
	b := &bench{path: filepath.Join(t.TempDir(), "act.log"), cluster: newCluster(counts), now: 1_000_000, cfg: cfg}
	b.open(t)
	return b
}

func (b *bench) open(t testing.TB) {
	t.Helper()
	var err error
	if b.journal, err = OpenJournal(b.path); err != nil {
		t.Fatal(err)
	}
	b.actor = New(b.cfg, b.journal, b.cluster, Env{NowMS: func() int64 { return b.now }, Observed: b.cluster.observed}, slog.New(slog.DiscardHandler))
}

func action(w string, from, to int32) *agentv1.Action {
	return &agentv1.Action{ActionId: "a-" + w, Workload: w, From: from, To: to, Min: 0, Max: 100}
}

func (b *bench) plan(generation uint64, actions ...*agentv1.Action) *agentv1.Plan {
	p := &agentv1.Plan{PlanId: fmt.Sprintf("p%d", generation), Generation: generation, ExpiresMs: b.now + 1000, Actions: actions}
	for _, a := range actions {
		a.ActionId = fmt.Sprintf("%s-%d", a.GetActionId(), generation)
	}
	return p
}

func (b *bench) apply(p *agentv1.Plan) string {
	var out string
	for _, r := range b.actor.Apply(context.Background(), p) {
		out += fmt.Sprintf("%s:%s %d>%d;", r.GetOutcome(), r.GetErrorCode(), r.GetBefore(), r.GetAfter())
	}
	return out
}

func TestApply(t *testing.T) {
	t.Parallel()
	enforce := Config{Mode: "enforce"}
	for _, c := range []struct {
		name string
		cfg  Config
		run  func(b *bench) string
		want string
		sets string
	}{
		{"a fresh plan is applied", enforce,
			func(b *bench) string { return b.apply(b.plan(1, action("x", 3, 5))) }, "applied: 3>5;", "[x=5]"},
		{"approve mode applies what the service approved", Config{Mode: "approve"},
			func(b *bench) string { return b.apply(b.plan(1, action("x", 3, 5))) }, "applied: 3>5;", "[x=5]"},
		{"observe mode changes nothing", Config{Mode: "observe"},
			func(b *bench) string { return b.apply(b.plan(1, action("x", 3, 5))) }, "refused:mode 0>0;", "[]"},
		{"recommend mode changes nothing", Config{Mode: "recommend"},
			func(b *bench) string { return b.apply(b.plan(1, action("x", 3, 5))) }, "refused:mode 0>0;", "[]"},
		{"the service may ask for a stricter mode", enforce, func(b *bench) string {
			_ = b.actor.Configure(&agentv1.Config{Mode: "recommend"})
			return b.apply(b.plan(1, action("x", 3, 5)))
		}, "refused:mode 0>0;", "[]"},
		{"the service cannot ask for a laxer mode", Config{Mode: "observe"}, func(b *bench) string {
			_ = b.actor.Configure(&agentv1.Config{Mode: "enforce"})
			return b.apply(b.plan(1, action("x", 3, 5)))
		}, "refused:mode 0>0;", "[]"},
		{"a mode nobody knows counts as observe", enforce, func(b *bench) string {
			_ = b.actor.Configure(&agentv1.Config{Mode: "yolo"})
			return b.apply(b.plan(1, action("x", 3, 5)))
		}, "refused:mode 0>0;", "[]"},
		{"a local freeze holds", Config{Mode: "enforce", Limits: Limits{Freeze: true}},
			func(b *bench) string { return b.apply(b.plan(1, action("x", 3, 5))) }, "refused:frozen 0>0;", "[]"},
		{"a freeze by the service holds", enforce, func(b *bench) string {
			_ = b.actor.Configure(&agentv1.Config{Mode: "enforce", Frozen: true})
			return b.apply(b.plan(1, action("x", 3, 5)))
		}, "refused:frozen 0>0;", "[]"},
		{"the same plan twice acts once", enforce, func(b *bench) string {
			p := b.plan(1, action("x", 3, 5))
			return b.apply(p) + b.apply(p)
		}, "applied: 3>5;already: 3>5;", "[x=5]"},
		{"an old generation is refused", enforce, func(b *bench) string {
			return b.apply(b.plan(7, action("x", 3, 5))) + b.apply(b.plan(6, action("x", 5, 9)))
		}, "applied: 3>5;refused:stale_generation 0>0;", "[x=5]"},
		{"another plan of the same generation is refused", enforce, func(b *bench) string {
			p := b.plan(7, action("x", 5, 9))
			p.PlanId = "twin"
			return b.apply(b.plan(7, action("x", 3, 5))) + b.apply(p)
		}, "applied: 3>5;refused:stale_generation 0>0;", "[x=5]"},
		{"a plan after its time is refused", enforce, func(b *bench) string {
			p := b.plan(1, action("x", 3, 5))
			b.now += 1000
			return b.apply(p)
		}, "refused:expired 0>0;", "[]"},
		{"a replayed cluster's clock outran a plan on its way", enforce, func(b *bench) string {
			p := b.plan(1, action("x", 3, 5))
			b.actor.env.TransitMS = func() int64 { return 5000 }
			b.now += 1000 + 4999
			return b.apply(p)
		}, "applied: 3>5;", "[x=5]"},
		{"but not by more than the way takes", enforce, func(b *bench) string {
			p := b.plan(1, action("x", 3, 5))
			b.actor.env.TransitMS = func() int64 { return 5000 }
			b.now += 1000 + 5000
			return b.apply(p)
		}, "refused:expired 0>0;", "[]"},
		{"a count that is there already needs nothing", enforce,
			func(b *bench) string { return b.apply(b.plan(1, action("x", 2, 3))) }, "already: 3>3;", "[]"},
		{"a count that changed since the decision is a failed precondition", enforce,
			func(b *bench) string { return b.apply(b.plan(1, action("x", 4, 6))) }, "refused:precondition 3>3;", "[]"},
		{"a workload that is gone is not found", enforce,
			func(b *bench) string { return b.apply(b.plan(1, action("nope", 4, 6))) }, "failed:not_found 0>0;", "[]"},
		{"over the policy's maximum is refused", enforce,
			func(b *bench) string { return b.apply(b.plan(1, action("x", 3, 101))) }, "refused:limit 3>3;", "[]"},
		{"under the policy's minimum is refused", enforce, func(b *bench) string {
			a := action("x", 3, 1)
			a.Min = 2
			return b.apply(b.plan(1, a))
		}, "refused:limit 3>3;", "[]"},
		{"a negative count is refused", enforce, func(b *bench) string {
			a := action("x", 3, -1)
			a.Min = -5
			return b.apply(b.plan(1, a))
		}, "refused:limit 3>3;", "[]"},
		{"over the local limit of a workload is refused", Config{Mode: "enforce", Limits: Limits{MaxReplicasPerWorkload: 4}},
			func(b *bench) string { return b.apply(b.plan(1, action("x", 3, 5), action("y", 2, 4))) }, "refused:limit 3>3;applied: 2>4;", "[y=4]"},
		{"over the local sum is refused, one after the other", Config{Mode: "enforce", Limits: Limits{MaxReplicas: 8}},
			func(b *bench) string { return b.apply(b.plan(1, action("x", 3, 5), action("y", 2, 4))) }, "applied: 3>5;refused:limit 2>2;", "[x=5]"},
		{"scaling down is allowed though the sum is over the limit", Config{Mode: "enforce", Limits: Limits{MaxReplicas: 2}},
			func(b *bench) string { return b.apply(b.plan(1, action("x", 3, 2))) }, "applied: 3>2;", "[x=2]"},
		{"the action rate holds over plans, and a minute later it is free again", Config{Mode: "enforce", Limits: Limits{MaxActionsPerMinute: 1}}, func(b *bench) string {
			out := b.apply(b.plan(1, action("x", 3, 5))) + b.apply(b.plan(2, action("x", 5, 6)))
			b.now += 60_000
			return out + b.apply(b.plan(3, action("x", 5, 6)))
		}, "applied: 3>5;refused:limit 5>5;applied: 5>6;", "[x=5 x=6]"},
		{"a conflict is read and decided again", enforce, func(b *bench) string {
			once := false
			b.cluster.onSet = func() {
				if !once {
					once = true
					b.cluster.version++
				}
			}
			return b.apply(b.plan(1, action("x", 3, 5)))
		}, "applied: 3>5;", "[x=5]"},
		{"a conflict that changed the count is not overwritten", enforce, func(b *bench) string {
			b.cluster.onSet = func() { b.cluster.version++; b.cluster.replicas["x"] = 9 }
			return b.apply(b.plan(1, action("x", 3, 5)))
		}, "refused:precondition 9>9;", "[]"},
		{"somebody who never stops writing wins", enforce, func(b *bench) string {
			b.cluster.onSet = func() { b.cluster.version++ }
			return b.apply(b.plan(1, action("x", 3, 5)))
		}, "failed:conflict 3>3;", "[]"},
		{"a cluster that forbids is said to", enforce, func(b *bench) string {
			b.cluster.nextErr = fmt.Errorf("x: %w", ErrForbidden)
			return b.apply(b.plan(1, action("x", 3, 5)))
		}, "failed:forbidden 3>3;", "[]"},
		{"one action that fails does not stop the others", enforce, func(b *bench) string {
			b.cluster.nextErr = errors.New("the network")
			return b.apply(b.plan(1, action("x", 3, 5), action("y", 2, 4)))
		}, "failed:internal 3>3;applied: 2>4;", "[y=4]"},
		{"a plan that names a workload twice is refused as a whole", enforce,
			func(b *bench) string {
				return b.apply(b.plan(1, action("x", 3, 5), &agentv1.Action{ActionId: "b", Workload: "x", From: 3, To: 6, Max: 9}))
			}, "refused:precondition 0>0;refused:precondition 0>0;", "[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, map[string]int32{"x": 3, "y": 2}, c.cfg)
			if got := c.run(b); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if got := fmt.Sprint(b.cluster.sets); got != c.sets {
				t.Errorf("sets %s, want %s", got, c.sets)
			}
		})
	}
}

func TestNoActuatorRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil, Config{Mode: "enforce"})
	b.actor = New(b.cfg, b.journal, nil, Env{NowMS: func() int64 { return 0 }}, slog.New(slog.DiscardHandler))
	if got := b.apply(b.plan(1, action("x", 3, 5))); got != "refused:mode 0>0;" {
		t.Fatal(got)
	}
}

func TestFreezeSurvivesARestart(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]int32{"x": 3}, Config{Mode: "enforce"})
	if err := b.actor.Configure(&agentv1.Config{Mode: "enforce", Frozen: true}); err != nil {
		t.Fatal(err)
	}
	b.open(t)
	if got := b.apply(b.plan(1, action("x", 3, 5))); got != "refused:frozen 0>0;" {
		t.Fatal(got)
	}
}

// A restart in the middle of an action: nothing is done again, and what the cluster shows is reported.
func TestRecover(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		before bool // the crash came before the change took effect
		want   string
	}{
		{"the change had been made", false, "applied: 3>5;failed:internal 0>0;"},
		{"the change had not been made", true, "failed:internal 3>3;failed:internal 0>0;"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, map[string]int32{"x": 3, "y": 2}, Config{Mode: "enforce"})
			p := b.plan(1, action("x", 3, 5), action("y", 2, 4))
			crash(b, p, c.before)
			b.open(t)
			var got string
			for _, results := range b.actor.Recover(context.Background()) {
				for _, r := range results {
					got += fmt.Sprintf("%s:%s %d>%d;", r.GetOutcome(), r.GetErrorCode(), r.GetBefore(), r.GetAfter())
				}
				if err := b.actor.Reported(results[0].GetPlanId()); err != nil {
					t.Fatal(err)
				}
			}
			if got != c.want {
				t.Errorf("got %s want %s", got, c.want)
			}
			sets := len(b.cluster.sets)
			b.apply(p)
			if len(b.cluster.sets) != sets {
				t.Error("the plan was acted upon again")
			}
			b.open(t)
			if left := b.actor.Recover(context.Background()); len(left) != 0 {
				t.Errorf("reported twice: %v", left)
			}
		})
	}
}

// crash applies a plan and dies at its first change, as kill -9 would: before it took effect or after.
func crash(b *bench, p *agentv1.Plan, before bool) {
	type killed struct{}
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(killed); !ok {
				panic(r)
			}
		}
	}()
	b.cluster.onSet = func() {
		b.cluster.onSet = nil
		if !before {
			a := p.GetActions()[0]
			b.cluster.replicas[a.GetWorkload()] = a.GetTo()
			b.cluster.version++
		}
		panic(killed{})
	}
	b.apply(p)
}

// The promises, over random plans that come twice, late and out of order, kills in the middle, torn journals, and a cluster
// that others change too: no plan acts twice, no old one after a newer one, and nothing goes over the local limits.
func TestApplyProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "act")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		limits := Limits{MaxReplicas: 12, MaxReplicasPerWorkload: 6, MaxActionsPerMinute: 5}
		b := &bench{path: filepath.Join(dir, "act.log"), now: 1_000_000, cfg: Config{Mode: "enforce", Limits: limits},
			cluster: newCluster(map[string]int32{"a": 2, "b": 2, "c": 2})}
		b.open(t)
		var plans []*agentv1.Plan
		acted := map[string]bool{} // plans that changed something
		var newest uint64
		var times []int64
		// watch runs f and checks each change it makes on behalf of p.
		watch := func(rt *rapid.T, p *agentv1.Plan, f func()) {
			before, sets := b.cluster.observed(), len(b.cluster.sets)
			f()
			changed := len(b.cluster.sets) - sets
			if changed == 0 {
				return
			}
			if acted[p.GetPlanId()] {
				rt.Fatalf("plan %s acted twice", p.GetPlanId())
			}
			if p.GetGeneration() <= newest {
				rt.Fatalf("plan of generation %d acted after %d", p.GetGeneration(), newest)
			}
			if p.GetExpiresMs() <= b.now {
				rt.Fatalf("plan %s acted after its time", p.GetPlanId())
			}
			acted[p.GetPlanId()] = true
			var sum, was int32
			for w, n := range b.cluster.replicas {
				sum, was = sum+n, was+before[w]
				if n > before[w] && int64(n) > limits.MaxReplicasPerWorkload {
					rt.Fatalf("%s has %d replicas", w, n)
				}
			}
			if sum > was && int64(sum) > limits.MaxReplicas {
				rt.Fatalf("%d replicas in all, %d before", sum, was)
			}
			for range changed {
				times = append(times, b.now)
			}
			recent := 0
			for _, at := range times {
				if at > b.now-60_000 {
					recent++
				}
			}
			if int64(recent) > limits.MaxActionsPerMinute {
				rt.Fatalf("%d changes in a minute", recent)
			}
		}
		begun := func(p *agentv1.Plan) {
			if _, ok := b.journal.Plan(p.GetPlanId()); ok {
				newest = max(newest, p.GetGeneration())
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"new plan": func(rt *rapid.T) {
				g := uint64(len(plans) + 1)
				var as []*agentv1.Action
				for _, w := range []string{"a", "b", "c"} {
					if rapid.Bool().Draw(rt, w) {
						from := b.cluster.replicas[w]
						if rapid.IntRange(0, 4).Draw(rt, "wrong") == 0 {
							from++
						}
						as = append(as, action(w, from, rapid.Int32Range(0, 9).Draw(rt, "to")))
					}
				}
				plans = append(plans, b.plan(g, as...))
			},
			"apply any": func(rt *rapid.T) {
				if len(plans) == 0 {
					rt.Skip("no plan")
				}
				p := plans[rapid.IntRange(0, len(plans)-1).Draw(rt, "plan")]
				watch(rt, p, func() { b.apply(p) })
				begun(p)
			},
			"crash in any": func(rt *rapid.T) {
				if len(plans) == 0 {
					rt.Skip("no plan")
				}
				p := plans[rapid.IntRange(0, len(plans)-1).Draw(rt, "plan")]
				if _, known := b.journal.Plan(p.GetPlanId()); known || p.GetGeneration() <= newest || len(p.GetActions()) == 0 {
					rt.Skip("known")
				}
				watch(rt, p, func() { crash(b, p, true) })
				b.cluster.onSet = nil
				begun(p)
				if rapid.Bool().Draw(rt, "torn") {
					f, err := os.OpenFile(b.path, os.O_APPEND|os.O_WRONLY, 0o600)
					if err != nil {
						rt.Fatal(err)
					}
					_, _ = f.WriteString("deadbeef {\"begin\":{\"pl")
					f.Close()
				}
				b.open(t)
				b.actor.Recover(context.Background())
			},
			"restart": func(rt *rapid.T) {
				g := b.journal.Generation()
				b.open(t)
				if b.journal.Generation() != g {
					rt.Fatalf("generation %d became %d", g, b.journal.Generation())
				}
			},
			"others write": func(rt *rapid.T) {
				b.cluster.replicas[rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "w")] = rapid.Int32Range(0, 5).Draw(rt, "n")
				b.cluster.version++
			},
			"time": func(rt *rapid.T) { b.now += rapid.Int64Range(1, 40_000).Draw(rt, "ms") },
		})
	})
}

func TestJournalCompacts(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]int32{"x": 3}, Config{Mode: "enforce"})
	for g := uint64(1); g <= 3000; g++ {
		p := b.plan(g)
		if err := b.journal.Begin(p, b.now); err != nil {
			t.Fatal(err)
		}
		a := action("x", 3, 4)
		a.ActionId = fmt.Sprintf("%0200d", g)
		if err := b.journal.Acting(p.GetPlanId(), a, 3, int64(g)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(b.path)
	if err != nil || info.Size() > 2<<20 {
		t.Fatalf("the journal has %d bytes (%v)", info.Size(), err)
	}
	b.open(t)
	if b.journal.Generation() != 3000 || b.journal.ActionsSince(2990) != 10 {
		t.Fatalf("generation %d, %d recent changes", b.journal.Generation(), b.journal.ActionsSince(2990))
	}
}
