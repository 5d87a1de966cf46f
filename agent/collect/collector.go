package collect

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"google.golang.org/protobuf/proto"
)

// Config of a Collector. All durations are in the cluster's time, Poll and its bounds excepted.
type Config struct {
	Sample time.Duration // between observations; default 15 s
	Frame  time.Duration // between frames; default 60 s
	Resync time.Duration // between inventory snapshots; default 300 s
	// FramesOnly: the per-node role sends bulk telemetry only.
	FramesOnly bool
}

const (
	minPoll      = time.Second
	minPollSim   = 200 * time.Millisecond
	maxEvents    = 500             // of one report
	reportBudget = 4<<20 - 64<<10  // a report larger than this is slimmed or dropped
	sourceTime   = 8 * time.Second // for one call of one source
)

// Sink takes reports.
type Sink interface {
	Append(*agentv1.Report) (uint64, error)
}

// Counters is how the collector fares. Reads are the polls that the cluster answered.
type Counters struct {
	Polls, Reads, Observations, Frames, Inventories, Events uint64
	SourceErrors                                            map[string]uint64
	Unsent                                                  uint64 // reports that the spool refused
	LastObservationMS                                       int64
}

// Collector polls sources and appends reports to a sink. The first source is the cluster itself: without its word nothing is
// observed. The others are asked at the same time.
type Collector struct {
	cfg     Config
	sources []Source
	sink    Sink
	dict    *Dictionary
	clock   *Clock
	log     *slog.Logger
	frames  frameBuilder

	// mu guards what follows; it is never held during I/O.
	mu        sync.Mutex
	inventory inventoryState
	last      []*agentv1.WorkloadObservation // as last reported
	observed  map[string]int32
	counters  Counters
	failing   map[string]bool
	cfgSample time.Duration // as the service asks; 0: our own
	cfgFrame  time.Duration

	// Only Run's goroutine.
	lastAt, lastObs, lastTick, frameFrom int64
	holdings                             *agentv1.GPUHoldings // as last told, at heldAt
	heldAt                               int64
	drivers                              map[string]string // of GPUs by node, as told last
}

// New makes a Collector; see Config for defaults. The first source is the cluster.
func New(cfg Config, sources []Source, sink Sink, dict *Dictionary, clock *Clock, log *slog.Logger) *Collector {
	if cfg.Sample <= 0 {
		cfg.Sample = 15 * time.Second
	}
	if cfg.Frame <= 0 {
		cfg.Frame = time.Minute
	}
	if cfg.Resync <= 0 {
		cfg.Resync = 5 * time.Minute
	}
	return &Collector{
		cfg: cfg, sources: sources, sink: sink, dict: dict, clock: clock, log: log, frames: frameBuilder{dict: dict},
		observed: map[string]int32{}, failing: map[string]bool{}, counters: Counters{SourceErrors: map[string]uint64{}},
	}
}

// Run polls until ctx ends, then sends the frame it has begun.
func (c *Collector) Run(ctx context.Context) error {
	for {
		c.Poll(ctx)
		select {
		case <-ctx.Done():
			c.flushFrame(c.lastTick + 1)
			return nil
		case <-time.After(c.pause()):
		}
	}
}

// pause is a third of the sample interval, in wall time, within bounds. A replayed cluster is polled faster the faster it runs.
func (c *Collector) pause() time.Duration {
	sample, _ := c.intervals()
	d, least := sample/3, minPoll
	if speed, ok := c.clock.Simulated(); ok {
		least = minPollSim
		if speed > 1 {
			d = time.Duration(float64(d) / speed)
		}
	}
	return max(d, least)
}

func (c *Collector) intervals() (sample, frame time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sample, frame = c.cfg.Sample, c.cfg.Frame
	if c.cfgSample > 0 {
		sample = c.cfgSample
	}
	if c.cfgFrame > 0 {
		frame = c.cfgFrame
	}
	return sample, max(frame, sample)
}

// SetIntervals takes what the service asks for, within 1 s to 10 min; zero means our own.
func (c *Collector) SetIntervals(sample, frame time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cfgSample, c.cfgFrame = clampInterval(sample), clampInterval(frame)
}

func clampInterval(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return min(max(d, time.Second), 10*time.Minute)
}

// Observed returns the replicas asked for, of every workload seen at the last poll.
func (c *Collector) Observed() map[string]int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]int32, len(c.observed))
	for k, n := range c.observed {
		out[k] = n
	}
	return out
}

// Counters returns a copy of the counters.
func (c *Collector) Counters() Counters {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.counters
	out.SourceErrors = make(map[string]uint64, len(c.counters.SourceErrors))
	for k, n := range c.counters.SourceErrors {
		out.SourceErrors[k] = n
	}
	return out
}

// LostFrames makes the series be announced again; LostInventory makes the next inventory a snapshot.
func (c *Collector) LostFrames() { c.dict.Forget() }

// LostInventory makes the next inventory report a snapshot.
func (c *Collector) LostInventory() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inventory.reset()
}

// Poll asks every source once and reports what is due.
func (c *Collector) Poll(ctx context.Context) {
	batches := c.ask(ctx)
	c.count(func(n *Counters) { n.Polls++ })
	if batches == nil {
		return
	}
	c.count(func(n *Counters) { n.Reads++ })
	at := batches[0].AtMS
	if at != 0 {
		c.clock.Set(at, batches[0].Speed)
	} else {
		at = c.clock.NowMS()
	}
	if at < c.lastAt { // a simulated clock was set back
		c.flushFrame(c.lastTick + 1)
		c.lastObs, c.lastTick, c.frameFrom = 0, 0, 0
		c.LostInventory()
	}
	c.lastAt = at
	workloads := merge(batches)
	if !c.cfg.FramesOnly {
		c.addDrivers(batches)
		c.reportInventory(batches[0].Inventory, at)
		c.reportEvents(batches, at)
		c.observe(workloads, batches[0], at)
	}
	c.reportHoldings(batches[0].Holdings, at)
	c.tick(workloads, batches, at)
}

// ask calls the cluster source first, then the others side by side. It returns nil when the cluster did not answer; the
// batch of another source that failed is empty.
func (c *Collector) ask(ctx context.Context) []Batch {
	if len(c.sources) == 0 {
		return nil
	}
	out := make([]Batch, len(c.sources))
	first, ok := c.call(ctx, c.sources[0], Input{NowMS: c.clock.NowMS()})
	if !ok {
		return nil
	}
	out[0] = first
	in := Input{NowMS: first.AtMS, Pods: first.Pods, Devices: first.Devices, Loose: first.Loose}
	if in.NowMS == 0 {
		in.NowMS = c.clock.NowMS()
	}
	var wg sync.WaitGroup
	for i := 1; i < len(c.sources); i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			out[i], _ = c.call(ctx, c.sources[i], in)
		}()
	}
	wg.Wait()
	return out
}

func (c *Collector) call(ctx context.Context, s Source, in Input) (Batch, bool) {
	ctx, cancel := context.WithTimeout(ctx, sourceTime)
	defer cancel()
	b, err := s.Collect(ctx, in)
	c.mu.Lock()
	was := c.failing[s.Name()]
	c.failing[s.Name()] = err != nil
	if err != nil {
		c.counters.SourceErrors[s.Name()]++
	}
	c.mu.Unlock()
	switch {
	case err != nil && !was && ctx.Err() == nil:
		c.log.Warn("source failed", "source", s.Name(), "error", err)
	case err == nil && was:
		c.log.Info("source is back", "source", s.Name())
	}
	return b, err == nil
}

func (c *Collector) count(f func(*Counters)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.counters)
}

// append hands a report to the sink; what it refuses is counted.
func (c *Collector) append(r *agentv1.Report, counted func(*Counters)) bool {
	if _, err := c.sink.Append(r); err != nil {
		c.count(func(n *Counters) { n.Unsent++ })
		c.log.Warn("report not kept", "error", err)
		return false
	}
	c.count(counted)
	return true
}

// addDrivers says of each node which driver its GPUs had when somebody told last. An exporter that is silent for a while changes nothing.
func (c *Collector) addDrivers(batches []Batch) {
	inv := batches[0].Inventory
	if inv == nil {
		return
	}
	now := map[string]string{}
	for _, n := range inv.GetNodes() {
		v := c.drivers[n.GetName()]
		for _, b := range batches {
			if told := b.Drivers[n.GetName()]; told != "" {
				v = told
			}
		}
		if v != "" {
			now[n.GetName()], n.GpuDriver = v, v
		}
	}
	c.drivers = now
}

func (c *Collector) reportInventory(inv *agentv1.Inventory, at int64) {
	if inv == nil {
		return
	}
	observed := make(map[string]int32, len(inv.GetWorkloads()))
	for _, w := range inv.GetWorkloads() {
		observed[w.GetKey()] = w.GetReplicas()
	}
	c.mu.Lock()
	c.observed = observed
	parts := c.inventory.reports(inv, at, c.cfg.Resync.Milliseconds())
	c.mu.Unlock()
	for _, part := range parts {
		if proto.Size(part) > reportBudget {
			slim(part)
		}
		r := &agentv1.Report{AtMs: at, Body: &agentv1.Report_Inventory{Inventory: part}}
		if !c.append(r, func(n *Counters) { n.Inventories++ }) {
			c.LostInventory()
			return
		}
	}
}

// reportHoldings says who holds which GPU when that changed, and as often as the inventory is said again.
func (c *Collector) reportHoldings(h *agentv1.GPUHoldings, at int64) {
	if h == nil {
		return
	}
	h.AtMs = at
	same := c.holdings != nil && at >= c.heldAt && at-c.heldAt < c.cfg.Resync.Milliseconds() && slices.EqualFunc(c.holdings.GetHoldings(), h.GetHoldings(),
		func(a, b *agentv1.GPUHolding) bool { return proto.Equal(a, b) })
	if same {
		return
	}
	if c.append(&agentv1.Report{AtMs: at, Body: &agentv1.Report_GpuHoldings{GpuHoldings: h}}, func(n *Counters) { n.Inventories++ }) {
		c.holdings, c.heldAt = h, at
	}
}

func (c *Collector) reportEvents(batches []Batch, at int64) {
	var all []*agentv1.Event
	for _, b := range batches {
		all = append(all, b.Events...)
	}
	for len(all) > 0 {
		part := all[:min(len(all), maxEvents)]
		all = all[len(part):]
		c.append(&agentv1.Report{AtMs: at, Body: &agentv1.Report_Events{Events: &agentv1.Events{Events: part}}}, func(n *Counters) { n.Events += uint64(len(part)) })
	}
}

// observe sends the observation when its time has come, or at once when something moved.
func (c *Collector) observe(workloads []*agentv1.WorkloadObservation, cluster Batch, at int64) {
	sample, _ := c.intervals()
	if at <= c.lastObs || (at-c.lastObs < sample.Milliseconds() && !moved(c.last, workloads)) {
		return
	}
	for part := workloads; ; {
		n := min(len(part), observationPart)
		o := &agentv1.Observation{AtMs: at, Workloads: part[:n], ClockSpeed: cluster.Speed}
		if !c.append(&agentv1.Report{AtMs: at, Body: &agentv1.Report_Observation{Observation: o}}, func(k *Counters) { k.Observations++; k.LastObservationMS = at }) {
			return
		}
		if part = part[n:]; len(part) == 0 {
			break
		}
	}
	c.last, c.lastObs = workloads, at
}

// tick adds the values to the frame under way and sends it when it is due.
func (c *Collector) tick(workloads []*agentv1.WorkloadObservation, batches []Batch, at int64) {
	sample, every := c.intervals()
	if c.frameFrom != 0 && at-c.frameFrom >= every.Milliseconds() {
		c.flushFrame(at)
	}
	if c.lastTick != 0 && at-c.lastTick < sample.Milliseconds() {
		return
	}
	var values []Value
	own := false // the cluster source brought values of its own
	for i, b := range batches {
		values = append(values, b.Values...)
		own = own || (i == 0 && len(b.Values) > 0)
	}
	if !own && !c.cfg.FramesOnly {
		values = append(values, workloadValues(workloads)...)
	} else if c.cfg.FramesOnly {
		values = append(values, nodeValues(workloadValues(workloads))...)
	}
	if c.frames.add(at, values) {
		c.lastTick = at
		if c.frameFrom == 0 {
			c.frameFrom = at
		}
	}
}

func (c *Collector) flushFrame(endMS int64) {
	c.frameFrom = 0
	frames, err := c.frames.flush(endMS)
	if err != nil {
		c.count(func(n *Counters) { n.Unsent++ })
		c.log.Warn("frame not built", "error", fmt.Sprint(err))
	}
	for _, f := range frames {
		if !c.append(&agentv1.Report{AtMs: f.GetToMs(), Body: &agentv1.Report_Frame{Frame: f}}, func(n *Counters) { n.Frames++ }) {
			c.dict.Forget()
		}
	}
}
