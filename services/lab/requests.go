package lab

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"sort"
	"strconv"
	"time"

	"plimsoll.dev/services/fleet"
)

// Request is one request of a recorded trace.
type Request struct {
	At            int64 // microseconds since the trace's first request
	Input, Output int   // tokens
}

const (
	maxRequests = 20_000_000
	maxTokens   = 10_000_000
)

var (
	azureColumns    = []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}
	mooncakeColumns = []string{"timestamp_ms", "input_length", "output_length", "hash_blocks"}
	azureTimes      = []string{"2006-01-02 15:04:05.9999999", "2006-01-02 15:04:05.9999999-07:00", time.RFC3339Nano}
)

// ReadAzureLLM reads an Azure LLM inference trace (Azure/AzurePublicDataset, CC-BY 4.0; "Splitwise", ISCA 2024): time, prompt tokens, generated
// tokens, sorted by time. The error names the row (the header is row 1) and what is wrong with it.
func ReadAzureLLM(r io.Reader) ([]Request, error) {
	return readRequests(r, azureColumns, func(row *csvRow) (int64, int, int) {
		at := int64(-1)
		for _, layout := range azureTimes {
			if t, err := time.Parse(layout, row.fields[0]); err == nil {
				at = t.UnixMicro()
				break
			}
		}
		if at < 0 {
			_ = row.refuse("%s is %q; want a time like 2023-11-16 18:17:03.9799600", row.columns[0], row.fields[0])
		}
		return at, row.whole(1, maxTokens), row.whole(2, maxTokens)
	})
}

// ReadMooncake reads a Mooncake trace (kvcache-ai/Mooncake, Apache-2.0; FAST 2025), as CSV with the count of prefix blocks or as the original JSON
// lines. Prefixes are not modelled: every prompt token counts.
func ReadMooncake(r io.Reader) ([]Request, error) {
	in := bufio.NewReader(r)
	if first, err := in.Peek(1); err == nil && first[0] == '{' {
		return readMooncakeLines(in)
	}
	return readRequests(in, mooncakeColumns, func(row *csvRow) (int64, int, int) {
		_ = row.whole(3, maxTokens)
		return int64(row.whole(0, maxOffset*1000)) * 1000, row.whole(1, maxTokens), row.whole(2, maxTokens)
	})
}

func readRequests(r io.Reader, columns []string, each func(row *csvRow) (at int64, input, output int)) ([]Request, error) {
	out := []Request{}
	err := readTable(r, columns, func(row *csvRow) error {
		at, input, output := each(row)
		if row.err != nil {
			return row.err
		}
		out = append(out, Request{at, input, output})
		return row.inOrder(out)
	})
	if err != nil {
		return nil, err
	}
	return fromZero(out)
}

// inOrder refuses a request that is earlier than the one before, beyond the bounds or without any token.
func (r *csvRow) inOrder(requests []Request) error {
	n := len(requests)
	last := requests[n-1]
	switch {
	case n > maxRequests:
		return r.refuse("more than %d requests", maxRequests)
	case n > 1 && last.At < requests[n-2].At:
		return r.refuse("the time runs back by %v; want requests sorted by time", time.Duration(requests[n-2].At-last.At)*time.Microsecond)
	case last.At-requests[0].At >= maxSlots*slotMicro:
		return r.refuse("the trace is longer than %d days", maxSlots/SlotsPerDay)
	}
	return nil
}

func fromZero(requests []Request) ([]Request, error) {
	if len(requests) == 0 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "the trace holds no request")
	}
	first := requests[0].At
	for i := range requests {
		requests[i].At -= first
	}
	return requests, nil
}

// mooncakeLine is one line of the original files. Other fields are refused.
type mooncakeLine struct {
	Timestamp *float64 `json:"timestamp"` // milliseconds
	Input     *int     `json:"input_length"`
	Output    *int     `json:"output_length"`
	Blocks    []int64  `json:"hash_ids"`
}

func readMooncakeLines(in *bufio.Reader) ([]Request, error) {
	d := json.NewDecoder(in)
	d.DisallowUnknownFields()
	out := []Request{}
	row := &csvRow{}
	for {
		row.row++
		row.err = nil
		l := mooncakeLine{}
		err := d.Decode(&l)
		switch {
		case errors.Is(err, io.EOF):
			return fromZero(out)
		case err != nil:
			return nil, row.refuse("%v", err)
		case l.Timestamp == nil || l.Input == nil || l.Output == nil:
			return nil, row.refuse("want timestamp, input_length and output_length")
		case !(*l.Timestamp >= 0 && *l.Timestamp <= maxOffset*1000) || *l.Input < 0 || *l.Output < 0 || *l.Input > maxTokens || *l.Output > maxTokens:
			return nil, row.refuse("timestamp %v, input_length %d, output_length %d; want none below zero, times within %d days and up to %d tokens", *l.Timestamp, *l.Input, *l.Output, maxOffset/86400, maxTokens)
		}
		out = append(out, Request{int64(*l.Timestamp * 1000), *l.Input, *l.Output})
		if err := row.inOrder(out); err != nil {
			return nil, err
		}
	}
}

// readTable reads a CSV file with a header that must have these columns, in this order.
func readTable(r io.Reader, columns []string, each func(*csvRow) error) error {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	in.FieldsPerRecord = len(columns)
	row := &csvRow{columns: columns}
	for {
		fields, err := in.Read()
		row.row++
		row.fields, row.err = fields, nil
		switch {
		case errors.Is(err, io.EOF):
			if row.row == 1 {
				return fleet.Errorf(fleet.CodeInvalid, "the file is empty; want the columns %v", columns)
			}
			return nil
		case err != nil:
			return row.refuse("%v", err)
		case row.row == 1:
			for i, c := range columns {
				if fields[i] != c {
					return row.refuse("column %d is %q; want %q", i+1, fields[i], c)
				}
			}
			continue
		}
		if err := each(row); err != nil {
			return err
		}
	}
}

// BuildRequests makes the trace of recorded requests. A scale under one keeps each with that chance; above one, further copies of each come at
// random within the minute after it, so that bursts keep their height and not their edge.
func (w *Workload) BuildRequests(requests []Request, seed uint64) (*Trace, error) {
	if hours := w.Source.Hours; hours > 0 {
		cut := sort.Search(len(requests), func(i int) bool { return float64(requests[i].At) >= hours*3600*micro })
		requests = requests[:cut]
	}
	if len(requests) == 0 {
		return nil, w.refuse("the trace holds no request")
	}
	replica := w.replica()
	seconds := int(requests[len(requests)-1].At/slotMicro+1) * SlotSeconds
	if w.seconds() > seconds {
		return nil, w.refuse("source.hours is %v, the trace ends after %v: is it truncated?", w.Source.Hours, time.Duration(seconds)*time.Second)
	}
	work := func(q Request) float64 {
		return float64(q.Input)/replica.PromptPerSecond + float64(q.Output)/replica.OutputPerSecond
	}
	sum := 0.0
	for _, q := range requests {
		sum += work(q)
	}
	factor := w.factor(float64(len(requests))/float64(seconds), sum/float64(seconds))
	if float64(len(requests))*factor > maxRequests {
		return nil, w.refuse("scaling by %.3g makes more than %d requests", factor, maxRequests)
	}
	r := rand.New(rand.NewPCG(seed+w.Seed, 0x52455155))
	d := w.drawing(seconds)
	prefill := durations{}
	for _, q := range requests {
		j := job{int64(math.Round(float64(q.Input) * micro / replica.PromptPerSecond)), int64(math.Round(float64(q.Output) * micro * replica.SecondsPerToken))}
		if j.prefill+j.decode == 0 {
			j.prefill = 1 // a request without a token is counted, and holds nothing worth the name
		}
		for n := copies(r, factor); n > 0; n-- {
			at := q.At
			if n > 1 {
				at += r.Int64N(60 * micro)
			}
			if at >= int64(seconds)*micro {
				at = q.At
			}
			d.request(at, j)
		}
		prefill.add(float64(j.prefill)/micro, float64(j.prefill)/micro, 1)
	}
	return w.drawn(d, prefill.levels(prefillLevels))
}

// copies is the whole part of a factor, and one more with the chance of the rest.
func copies(r *rand.Rand, factor float64) int {
	n := int(factor)
	if rest := factor - float64(n); rest > 0 && r.Float64() < rest {
		n++
	}
	return n
}

// factor is by how much to scale a source of this rate and work.
func (w *Workload) factor(rate, work float64) float64 {
	switch {
	case w.Scale.Requests > 0:
		return w.Scale.Requests / math.Max(rate, 1e-9)
	case w.Scale.Replicas > 0:
		return w.Scale.Replicas / math.Max(work, 1e-9)
	case w.Scale.Factor > 0:
		return w.Scale.Factor
	}
	return 1
}

func (w *Workload) drawing(seconds int) *drawing {
	return &drawing{source: Source{Name: w.Name, Keep: 1, Seconds: seconds, Replica: w.replica()}, slots: make([]tally, seconds/SlotSeconds+1), skip: 1}
}

// drawn is the trace of a drawing.
func (w *Workload) drawn(d *drawing, prefill []float64) (*Trace, error) {
	t, err := d.trace()
	if err != nil {
		return nil, err
	}
	t.Prefill, t.From = prefill, w.history()/SlotSeconds
	if t.From >= t.To {
		return nil, w.refuse("history_hours is %v, the source has %.4g hours: nothing is left to judge", w.History, float64(t.To)/SlotsPerHour)
	}
	return t, t.Check()
}

// Counts is how many requests came per step of time.
type Counts struct {
	Step   int // seconds
	Values []float64
	Gaps   []Gap
}

// Gap is a time without values: not said, which is not none.
type Gap struct {
	Row   int // the row after it
	First int // index of the first step that is missing
	Steps int
}

var countTimes = []string{"2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.RFC3339}

// ReadCounts reads requests per step of time: two columns, the time (seconds, or a date and time) and the count, under any names. The step is what lies
// between the first two rows, 15 s to an hour; every row must lie on it. Rows that are missing make a gap.
func ReadCounts(r io.Reader) (Counts, error) {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	in.FieldsPerRecord = 2
	row := &csvRow{columns: []string{"time", "requests"}}
	c := Counts{}
	first, last, rows := int64(0), int64(0), 0
	for {
		fields, err := in.Read()
		row.row++
		row.fields, row.err = fields, nil
		switch {
		case errors.Is(err, io.EOF):
			if rows < 2 {
				return Counts{}, fleet.Errorf(fleet.CodeInvalid, "%d rows of counts; want at least two, a time and a count in each, after a header", rows)
			}
			return c, nil
		case err != nil:
			return Counts{}, row.refuse("%v", err)
		case row.row == 1:
			if _, err := strconv.ParseFloat(fields[1], 64); err == nil {
				return Counts{}, row.refuse("the first row is %q; want a header: time and requests", fields)
			}
			row.columns = append([]string(nil), fields...)
			continue
		}
		at := row.moment(0)
		v := row.number(1, 1e9)
		if row.err != nil {
			return Counts{}, row.err
		}
		switch rows {
		case 0:
			first = at
		case 1:
			c.Step = int(min(at-first, 1<<31))
			if at <= first || c.Step < SlotSeconds || c.Step > 3600 || c.Step%SlotSeconds != 0 {
				return Counts{}, row.refuse("the step is %d s; want a multiple of %d up to an hour", at-first, SlotSeconds)
			}
		}
		if err := c.add(row, at-first, at-last, rows, v); err != nil {
			return Counts{}, err
		}
		last = at
		rows++
	}
}

func (c *Counts) add(row *csvRow, at, since int64, rows int, v float64) error {
	if rows > 0 {
		step := int64(c.Step)
		switch {
		case since == 0:
			return row.refuse("the same time again: a step of no length")
		case since < 0:
			return row.refuse("the time runs back by %d s; want rows sorted by time", -since)
		case at%step != 0:
			return row.refuse("%d s after the row before; want a multiple of the step of %d s", since, step)
		case at/step >= maxSlots:
			return row.refuse("more than %d steps", maxSlots)
		}
		if missing := int(since/step) - 1; missing > 0 {
			c.Gaps = append(c.Gaps, Gap{Row: row.row, First: len(c.Values), Steps: missing})
			held := c.Values[len(c.Values)-1]
			for range missing {
				c.Values = append(c.Values, held)
			}
		}
	}
	c.Values = append(c.Values, v)
	return nil
}

// moment is a time in whole seconds.
func (r *csvRow) moment(i int) int64 {
	if v, err := strconv.ParseInt(r.fields[i], 10, 64); err == nil {
		if v < 0 || v > 1<<40 {
			_ = r.refuse("%s is %q; want seconds from 0", r.columns[i], r.fields[i])
			return 0
		}
		return v
	}
	for _, layout := range countTimes {
		if t, err := time.Parse(layout, r.fields[i]); err == nil {
			return t.Unix()
		}
	}
	_ = r.refuse("%s is %q; want seconds, or a time like 2026-03-02T15:04", r.columns[i], r.fields[i])
	return 0
}

// BuildCounts draws the requests of counts: as many as were counted, at random within their step, with tokens of the workload's
// distributions. A gap is refused unless the workload says to hold the value before it.
func (w *Workload) BuildCounts(c Counts, seed uint64) (*Trace, error) {
	steps := len(c.Values)
	if hours := w.Source.Hours; hours > 0 {
		want := w.seconds() / max(c.Step, 1)
		if want > steps {
			return nil, w.refuse("source.hours is %v, the counts end after %v: are they truncated?", hours, time.Duration(steps*c.Step)*time.Second)
		}
		steps = want
	}
	if steps == 0 || steps*c.Step > maxSlots*SlotSeconds {
		return nil, w.refuse("%d steps of %d s; want at least one and at most %d days", steps, c.Step, maxSlots/SlotsPerDay)
	}
	for _, g := range c.Gaps {
		if g.First < steps && w.Source.Gaps != "hold" {
			return nil, w.refuse("%d steps of %d s are missing before row %d: what came then is not known. Take less with source.hours, or say source.gaps: hold", g.Steps, c.Step, g.Row)
		}
	}
	replica, q := w.replica(), w.Source.Request
	window := TokenWindow{Rate: 1, Input: q.Input.spread(), Output: q.Output.spread()}
	sum := 0.0
	for _, v := range c.Values[:steps] {
		sum += v
	}
	seconds := steps * c.Step
	rate := sum / float64(seconds)
	factor := w.factor(rate, rate*(window.Input.Mean/replica.PromptPerSecond+window.Output.Mean/replica.OutputPerSecond))
	if sum*factor > 50*maxRequests {
		return nil, w.refuse("%.3g requests; want at most %d", sum*factor, 50*maxRequests)
	}
	r := rand.New(rand.NewPCG(seed+w.Seed, 0x434f554e))
	mix := mixer{replica: replica, windows: []TokenWindow{window}, at: -1}
	mix.moveTo(0)
	d := w.drawing(seconds)
	for i, v := range c.Values[:steps] {
		start := int64(i) * int64(c.Step) * micro
		for n := copies(r, v*factor); n > 0; n-- {
			d.request(start+r.Int64N(int64(c.Step)*micro), mix.draw(r))
		}
	}
	s := Source{Clients: []Client{{Tokens: mix.windows}}, Replica: replica}
	return w.drawn(d, s.prefill())
}

func (s SpreadSheet) spread() Spread { return Spread(s) }
