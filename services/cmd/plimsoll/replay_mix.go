package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"plimsoll.dev/services/lab"
)

// mixing collects the loads of a score run for its sections "mixed" and "pool + mix".
type mixing struct {
	data  string
	seed  uint64
	kept  map[string]*lab.Trace
	Mixed []lab.MixBoard  `json:"mixed,omitempty"`
	Pools []lab.PoolBoard `json:"pooled,omitempty"`
	// Tuned and TunedPools are the sections against every way to buy tuned on the judged span itself, where that was asked for.
	Tuned      []lab.Hindsight `json:"mixed_hindsight,omitempty"`
	TunedPools []lab.Hindsight `json:"pooled_hindsight,omitempty"`
	hindsight  bool
	// LeftOut says why there are no such sections, if there could be.
	LeftOut string `json:"markets_left_out,omitempty"`
}

// The loads of the sections: of the recorded ones and of those of the program.
var (
	mixedLoads  = []string{"tenA", "daily"}
	pooledLoads = [][]string{{"tenA", "largeS", "midM"}, {"steady", "daily", "bursty"}}
)

func newMixing(data string, seed uint64) *mixing {
	return &mixing{data: data, seed: seed, kept: map[string]*lab.Trace{}}
}

// keep notes a load that a section may need.
func (m *mixing) keep(t *lab.Trace) {
	for _, list := range append([][]string{mixedLoads}, pooledLoads...) {
		if slices.Contains(list, t.Name) {
			m.kept[t.Name] = t.Only()
		}
	}
}

// score plays the sections whose loads are all there.
func (m *mixing) score(ctx context.Context) error {
	if len(m.kept) == 0 {
		return nil
	}
	read := marketFiles{dir: m.data}
	for _, path := range read.paths() {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			m.LeftOut = "there is no " + path
			return nil
		}
	}
	for _, name := range mixedLoads {
		t := m.kept[name]
		if t == nil {
			continue
		}
		markets, err := read.markets(t, 1, m.seed)
		if err != nil {
			return err
		}
		b, err := lab.ScoreMix(t, markets, lab.Buyers())
		if err != nil {
			return err
		}
		m.Mixed = append(m.Mixed, b)
		if m.hindsight {
			h, err := lab.TuneMixInHindsight(t, markets, &b, lab.MixFamilies(), func() bool { return ctx.Err() != nil })
			if err != nil {
				return err
			}
			m.Tuned = append(m.Tuned, h)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	for _, list := range pooledLoads {
		services := []*lab.Trace{}
		for _, name := range list {
			if t := m.kept[name]; t != nil {
				services = append(services, t)
			}
		}
		if len(services) < len(list) {
			continue
		}
		alone, err := read.markets(services[0], 1, m.seed)
		if err != nil {
			return err
		}
		shared, err := read.markets(services[0], len(services), m.seed)
		if err != nil {
			return err
		}
		b, err := lab.ScorePool(services, alone, shared)
		if err != nil {
			return err
		}
		m.Pools = append(m.Pools, b)
		if m.hindsight {
			if err := m.tunePool(ctx, services, alone, shared, &b); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// tunePool sets our two ways to run a pool against everything else.
func (m *mixing) tunePool(ctx context.Context, services []*lab.Trace, alone, shared []*lab.Market, b *lab.PoolBoard) error {
	stop := func() bool { return ctx.Err() != nil }
	onDemand, err := lab.TunePoolInHindsight(services, nil, nil, b, lab.PooledOnDemand, lab.PoolFamilies(false), lab.OnDemandFamilies(), stop)
	if err != nil {
		return err
	}
	mixed, err := lab.TunePoolInHindsight(services, alone, shared, b, lab.PooledMix, lab.PoolFamilies(true), lab.MixFamilies(), stop)
	if err != nil {
		return err
	}
	m.TunedPools = append(m.TunedPools, onDemand, mixed)
	return nil
}

// write prints the sections.
func (m *mixing) write(w io.Writer) error {
	if m.LeftOut != "" {
		fmt.Fprintf(w, "\nmixed, pool + mix: left out, %s\n", m.LeftOut)
	}
	for i := range m.Mixed {
		if err := m.Mixed[i].Write(w); err != nil {
			return err
		}
	}
	for i := range m.Pools {
		if err := m.Pools[i].Write(w); err != nil {
			return err
		}
	}
	return nil
}

// marketFiles reads probes and prices once.
type marketFiles struct {
	dir    string
	zones  []lab.SpotZone
	prices []lab.PriceSeries
}

// paths are the probes and the prices; none without a data folder.
func (f *marketFiles) paths() []string {
	if f.dir == "" {
		return nil
	}
	return []string{filepath.Join(f.dir, "availability", "skypilot_spot_traces_rle.csv.gz"), filepath.Join(f.dir, "spot_prices", "aws_spot_price_gpu_changes.csv.gz")}
}

// markets are the windows for a trace: recorded where there is a data folder, invented where not. times is how many services share the stock.
func (f *marketFiles) markets(t *lab.Trace, times int, seed uint64) ([]*lab.Market, error) {
	if f.dir == "" {
		return lab.GeneratedMarkets(t, times, seed)
	}
	if f.zones == nil {
		paths := f.paths()
		err := readTrace(paths[0], func(r io.Reader) (err error) {
			f.zones, err = lab.ReadSpotRuns(r, lab.MarketCampaign, lab.MarketDevice)
			return err
		})
		if err != nil {
			return nil, err
		}
		err = readTrace(paths[1], func(r io.Reader) (err error) {
			f.prices, err = lab.ReadSpotPrices(r, lab.MarketType)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return lab.RecordedMarkets(t, f.zones, f.prices, times*lab.MarketDepth, seed)
}
