package collect

import (
	"fmt"
	"math"
	"sort"

	"plimsoll.dev/services/wire/frame"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

const (
	maxFrameTicks  = 1024
	maxFrameSeries = 8192 // of one report; more are split over several
)

// frameBuilder collects ticks until a frame is due.
type frameBuilder struct {
	dict  *Dictionary
	ticks []int64
	rows  []map[seriesKey]float64 // by tick
}

// add takes the values of one tick; a tick that is not later than the last is ignored.
func (b *frameBuilder) add(atMS int64, values []Value) bool {
	if len(values) == 0 || len(b.ticks) >= maxFrameTicks || (len(b.ticks) > 0 && atMS <= b.ticks[len(b.ticks)-1]) {
		return false
	}
	row := make(map[seriesKey]float64, len(values))
	for _, v := range values {
		if !math.IsNaN(v.Value) && !math.IsInf(v.Value, 0) {
			row[seriesKey{v.Kind, v.Entity, v.Field}] = v.Value
		}
	}
	b.ticks, b.rows = append(b.ticks, atMS), append(b.rows, row)
	return true
}

// flush packs what was collected into frames, one for each maxFrameSeries series, that cover [first tick, endMS).
func (b *frameBuilder) flush(endMS int64) ([]*agentv1.Frame, error) {
	ticks, rows := b.ticks, b.rows
	b.ticks, b.rows = nil, nil
	if len(ticks) == 0 {
		return nil, nil
	}
	seen := map[seriesKey]bool{}
	var keys []seriesKey
	for _, row := range rows {
		for k := range row {
			if !seen[k] {
				seen[k] = true
				keys = append(keys, k)
			}
		}
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i].less(keys[j]) })
	ids, err := b.dict.number(keys)
	if err != nil {
		return nil, err
	}
	byID := make(map[uint32]seriesKey, len(ids))
	var sorted []uint32
	for i, id := range ids {
		if id != 0 {
			byID[id] = keys[i]
			sorted = append(sorted, id)
		}
	}
	sort.Slice(sorted, func(i, j int) bool { return sorted[i] < sorted[j] })
	var out []*agentv1.Frame
	for len(sorted) > 0 {
		part := sorted[:min(len(sorted), maxFrameSeries)]
		sorted = sorted[len(part):]
		f, err := pack(ticks, rows, part, byID)
		if err != nil {
			return out, fmt.Errorf("pack frame: %w", err)
		}
		f.FromMs, f.ToMs = ticks[0], max(endMS, ticks[len(ticks)-1]+1)
		f.Series = b.dict.announce(part)
		out = append(out, f)
	}
	return out, nil
}

func pack(ticks []int64, rows []map[seriesKey]float64, ids []uint32, byID map[uint32]seriesKey) (*agentv1.Frame, error) {
	f := frame.Frame{Ticks: ticks, Series: ids}
	for _, id := range ids {
		col := make([]float64, len(ticks))
		for t, row := range rows {
			v, ok := row[byID[id]]
			if !ok {
				v = math.NaN()
			}
			col[t] = v
		}
		f.Values = append(f.Values, col)
	}
	payload, err := frame.Encode(f, frame.Limits{})
	if err != nil {
		return nil, err
	}
	return &agentv1.Frame{Payload: payload}, nil
}

func (k seriesKey) less(o seriesKey) bool {
	if k.Kind != o.Kind {
		return k.Kind < o.Kind
	}
	if k.Entity != o.Entity {
		return k.Entity < o.Entity
	}
	return k.Field < o.Field
}
