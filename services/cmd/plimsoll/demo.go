package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/replay"
	"plimsoll.dev/services/store"
)

// demoConfig is what the demo cluster needs. All fields are required unless they name a default.
type demoConfig struct {
	Tenant  fleet.TenantID
	Cluster fleet.ClusterID
	DB      *store.DB
	Prices  *market.PriceBook
	// ServiceURL is where the service listens; the history goes through its agent door.
	ServiceURL string
	// Token gives an access token of the demo cluster's agent; it is asked before each call.
	Token func(context.Context) (string, error)
	// StateFile keeps the World between runs.
	StateFile string
	// TraceFile drives the chat model; empty: built-in traffic. "FILE#series" picks one of several series.
	TraceFile string
	Seed      uint64        // default 7
	Workloads int           // default 6, at most replay.MaxDemoWorkloads
	History   time.Duration // how much of it there is at the first start; 0: none
	Speed     float64       // 1 (default) to 600
	Listen    string        // default 127.0.0.1:0
	HTTP      *http.Client  // default: a client without a timeout of its own; each call has a deadline
	Log       *slog.Logger
	// Progress is told the share of the history that is done; may be nil.
	Progress func(share float64)

	store demoStore        // default: on DB
	now   func() time.Time // default time.Now
}

// chatPeak is the rate that a trace is scaled to: what the demo's own chat traffic reaches on a working day.
const chatPeak = 16

// demo is a running demo cluster: a World on its own clock and the door to it.
type demo struct {
	cfg    demoConfig
	mu     sync.Mutex // guards world and clock
	world  *replay.World
	clock  demoClock
	door   *demoDoor
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of the background loop; read after done
}

// startDemo opens or makes the demo cluster, brings its history up to now through the agents' door, and lets it run. It returns when
// the door is open, which takes the agent by sources.sim.url = URL(). Close, or the end of ctx, stops it.
func startDemo(ctx context.Context, cfg demoConfig) (*demo, error) {
	cfg = cfg.withDefaults()
	if !(cfg.Speed >= minSpeed && cfg.Speed <= maxSpeed) {
		return nil, fleet.Errorf(fleet.CodeInvalid, "the demo runs at a speed of %d to %d, not %v", minSpeed, maxSpeed, cfg.Speed)
	}
	chat, err := openTrace(cfg.TraceFile)
	if err != nil {
		return nil, err
	}
	dataAt, err := cfg.store.DataAt(ctx)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	d := &demo{cfg: cfg, done: make(chan struct{})}
	var policies map[string]string
	if d.world, policies, err = d.open(chat, dataAt); err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	until := latest(cfg.now(), dataAt, d.world.Now()).Truncate(replay.SampleMillis * time.Millisecond)
	h := history{cfg: cfg, world: d.world, policies: policies}
	if err := h.run(ctx, until); err != nil {
		return nil, fmt.Errorf("demo history: %w", err)
	}
	if err := d.save(); err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	if d.door, err = openDoor(ctx, d, cfg.Listen); err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	d.clock = newDemoClock(cfg.now(), latest(cfg.now(), d.world.Now()), cfg.Speed)
	loop, cancel := context.WithCancel(ctx)
	d.cancel = cancel
	go d.run(loop)
	return d, nil
}

func (c demoConfig) withDefaults() demoConfig {
	if c.Seed == 0 {
		c.Seed = 7
	}
	if c.Speed == 0 {
		c.Speed = 1
	}
	c.Listen = or(c.Listen, "127.0.0.1:0")
	if c.HTTP == nil {
		c.HTTP = &http.Client{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.store == nil {
		c.store = pgDemoStore{c.DB, c.Tenant, c.Cluster, c.Prices}
	}
	return c
}

// open reads the World that was saved, or makes one that begins where the data ends; without any data, at the start of the history.
func (d *demo) open(chat replay.Source, dataAt time.Time) (*replay.World, map[string]string, error) {
	start := d.cfg.now().Add(-d.cfg.History).Truncate(time.Hour)
	if !dataAt.IsZero() {
		start = dataAt
	}
	cluster, err := replay.DemoOf(d.cfg.Seed, start, chat, d.cfg.Workloads)
	if err != nil {
		return nil, nil, err
	}
	doc, err := os.ReadFile(d.cfg.StateFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) || dataAt.IsZero():
		w, err := replay.NewWorld(cluster.Config)
		return w, cluster.Policies, err
	case err != nil:
		return nil, nil, err
	}
	w, err := replay.Restore(cluster.Config, doc)
	if err != nil {
		d.cfg.Log.Warn("the saved demo cluster cannot be used; another one takes its place", "error", err)
		w, err = replay.NewWorld(cluster.Config)
	} else {
		err = w.AdvanceTo(dataAt) // what it did between the last save and the end; the service has it already
	}
	return w, cluster.Policies, err
}

// openTrace reads a trace file, "" is none.
func openTrace(name string) (replay.Source, error) {
	if name == "" {
		return nil, nil
	}
	path, series := splitSeries(name)
	f, err := os.Open(path)
	if err != nil {
		return nil, fleet.Errorf(fleet.CodeInvalid, "trace: %v", err)
	}
	defer f.Close()
	t, err := replay.ReadTrace(f, filepath.Base(path), series)
	if err != nil {
		return nil, err
	}
	if t.Peak() == 0 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "trace %s: it has no request at all", filepath.Base(path))
	}
	return t.ScaledTo(chatPeak), nil
}

// splitSeries cuts "FILE#series", unless a file of that very name exists.
func splitSeries(name string) (path, series string) {
	if _, err := os.Stat(name); err == nil {
		return name, ""
	}
	for i := len(name) - 1; i > 0 && name[i] != os.PathSeparator; i-- {
		if name[i] == '#' {
			return name[:i], name[i+1:]
		}
	}
	return name, ""
}

func latest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if t.After(first) {
			first = t
		}
	}
	return first.UTC()
}

// URL is the base URL of the door.
func (d *demo) URL() string { return d.door.url }

// Speed is how fast the demo's time runs.
func (d *demo) Speed() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clock.speed
}

// SetSpeed changes it from now on; the time does not jump.
func (d *demo) SetSpeed(speed float64) error {
	if !(speed >= minSpeed && speed <= maxSpeed) { // NaN is neither
		return fleet.Errorf(fleet.CodeInvalid, "the demo runs at a speed of %d to %d, not %v", minSpeed, maxSpeed, speed)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clock.set(d.cfg.now(), speed)
	return nil
}

// Wait returns when the demo has stopped, with the reason if it was not asked to.
func (d *demo) Wait() error {
	<-d.done
	return d.err
}

// Close stops the clock and the door, saves the World and waits.
func (d *demo) Close() error {
	d.cancel()
	return d.Wait()
}

const (
	beat      = 250 * time.Millisecond
	saveEvery = 40 // beats
)

// run moves the World with the clock until ctx ends.
func (d *demo) run(ctx context.Context) {
	defer close(d.done)
	defer d.cancel()
	d.err = d.beats(ctx)
	if err := d.door.close(); err != nil && d.err == nil {
		d.err = err
	}
	if err := d.save(); err != nil && d.err == nil {
		d.err = err
	}
}

func (d *demo) beats(ctx context.Context) error {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case err := <-d.door.failed:
			return fmt.Errorf("demo door: %w", err)
		case <-tick.C:
		}
		if err := d.advance(); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		if n%saveEvery == 0 {
			if err := d.save(); err != nil {
				return fmt.Errorf("demo: %w", err)
			}
		}
	}
}

// advance moves the World to the clock.
func (d *demo) advance() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.world.AdvanceTo(d.clock.at(d.cfg.now()))
}

// save writes the World beside the state file and moves it there, so that a crash leaves the old or the new one.
func (d *demo) save() error {
	d.mu.Lock()
	doc, err := d.world.Save()
	d.mu.Unlock()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(d.cfg.StateFile), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(d.cfg.StateFile+".new", doc, 0o600); err != nil {
		return err
	}
	return os.Rename(d.cfg.StateFile+".new", d.cfg.StateFile)
}
