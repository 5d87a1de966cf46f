package replay

import (
	"math"
	"slices"
)

// Trace is recorded traffic as a Source. It repeats when it ends. Within a bin the rate is constant for request traces and runs straight
// to the next bin's for rate traces.
type Trace struct {
	Format   string // azure_llm, servegen or plimsoll
	Name     string // which of several series of the file
	Rows     int    // rows read
	Requests float64
	binMS    int64
	smooth   bool
	scale    float64
	bins     []traceBin
}

type traceBin struct {
	rate, tokensIn, tokensOut float64
}

// Limits of a trace, checked while it is read.
const (
	maxTraceRows  = 5_000_000
	maxTraceBytes = 512 << 20 // unpacked
	maxTraceBins  = 4_000_000 // 231 days of steps
)

// At implements Source. The trace is laid end to end from the unix epoch on.
func (t *Trace) At(ms int64) Load {
	i := int(ms / t.binMS % int64(len(t.bins)))
	b := t.bins[i]
	if t.smooth {
		next := t.bins[(i+1)%len(t.bins)]
		x := float64(ms%t.binMS) / float64(t.binMS)
		b.rate += (next.rate - b.rate) * x
	}
	return Load{Rate: b.rate * t.scale, TokensIn: b.tokensIn, TokensOut: b.tokensOut}
}

// Seconds is the length of the trace.
func (t *Trace) Seconds() float64 { return float64(int64(len(t.bins))*t.binMS) / 1000 }

// MeanRate is the mean of the trace in requests per second, as scaled.
func (t *Trace) MeanRate() float64 {
	sum := 0.0
	for _, b := range t.bins {
		sum += b.rate
	}
	return sum / float64(len(t.bins)) * t.scale
}

// Peak is the rate that all but one in two hundred minutes (or longer bins) of the trace stay under, as scaled.
func (t *Trace) Peak() float64 {
	per := max(1, int(60_000/t.binMS))
	var rates []float64
	for i := 0; i < len(t.bins); i += per {
		part := t.bins[i:min(i+per, len(t.bins))]
		sum := 0.0
		for _, b := range part {
			sum += b.rate
		}
		rates = append(rates, sum/float64(len(part)))
	}
	slices.Sort(rates)
	return rates[int(math.Ceil(0.995*float64(len(rates))))-1] * t.scale
}

// ScaledTo returns the trace with its Peak at the given rate; its shape stays.
func (t *Trace) ScaledTo(peak float64) *Trace {
	scaled := *t
	if now := t.Peak(); now > 0 {
		scaled.scale *= peak / now
	}
	return &scaled
}

// fillTokens gives bins without tokens of their own those of the last bin that has some, and all of them the default if none has.
func (t *Trace) fillTokens(in, out float64) {
	first := len(t.bins)
	for i, b := range t.bins {
		if b.tokensIn > 0 || b.tokensOut > 0 {
			first = i
			break
		}
	}
	if first < len(t.bins) {
		in, out = t.bins[first].tokensIn, t.bins[first].tokensOut
	}
	for i := range t.bins {
		b := &t.bins[i]
		if b.tokensIn == 0 && b.tokensOut == 0 {
			b.tokensIn, b.tokensOut = in, out
		}
		in, out = b.tokensIn, b.tokensOut
	}
}
