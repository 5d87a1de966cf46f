// Package frame packs the bulk telemetry of a span of ticks into a few bytes per value: columns of floats, delta or XOR coded
// and compressed with zstd. Agent and service share it. It knows no series' name and no clock, and it never allocates for a
// count or a size that it has not compared with a limit before.
package frame

import (
	"errors"
	"fmt"
	"math"
)

// Frame is a block of values: Values[s][t] is what Series[s] said at Ticks[t], NaN when it said nothing. Series ids and ticks
// (unix milliseconds) are strictly increasing. Infinities are not values.
type Frame struct {
	Ticks  []int64
	Series []uint32
	Values [][]float64
}

// Samples counts the values that are there.
func (f Frame) Samples() int {
	n := 0
	for _, col := range f.Values {
		for _, v := range col {
			if !math.IsNaN(v) {
				n++
			}
		}
	}
	return n
}

// Limits bound a frame on both sides of the wire. Zero fields take the default.
type Limits struct {
	MaxTicks  int // default 4096
	MaxSeries int // default 262,144
	// MaxBytes bounds the frame in memory: eight bytes for each cell, tick and series id. Default 64 MiB.
	MaxBytes int
}

func (l Limits) withDefaults() Limits {
	if l.MaxTicks <= 0 {
		l.MaxTicks = 4096
	}
	if l.MaxSeries <= 0 {
		l.MaxSeries = 1 << 18
	}
	if l.MaxBytes <= 0 {
		l.MaxBytes = 64 << 20
	}
	return l
}

// check compares counts that nothing was allocated for yet.
func (l Limits) check(ticks, series uint64) error {
	maxTicks, maxSeries, maxBytes := uint64(l.MaxTicks), uint64(l.MaxSeries), uint64(l.MaxBytes) //nolint:gosec // positive by withDefaults
	switch {
	case ticks == 0 || series == 0:
		return malformed("a frame needs at least one tick and one series")
	case ticks > maxTicks:
		return fmt.Errorf("%w: %d ticks, at most %d", ErrTooLarge, ticks, maxTicks)
	case series > maxSeries:
		return fmt.Errorf("%w: %d series, at most %d", ErrTooLarge, series, maxSeries)
	case series+1 > (maxBytes/8+1)/(ticks+1): // ticks x series + ticks + series, without a product that could wrap
		return fmt.Errorf("%w: %d ticks of %d series, at most %d bytes", ErrTooLarge, ticks, series, maxBytes)
	}
	return nil
}

// Errors that Encode and Decode wrap; nothing else comes back.
var (
	ErrMalformed = errors.New("malformed frame")
	ErrTooLarge  = errors.New("frame too large")
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// The payload: magic, version, uvarint ticks, uvarint series, uvarint size of the body, then the body as one zstd frame.
// The body holds five parts one after another, so that alike bytes stand together:
//
//	ticks     first tick as a zigzag varint, then differences of differences
//	series    uvarint differences of the ids, the first from zero
//	modes     one byte per series: a kind below, plus gappy when a bitmap follows
//	bitmaps   of gappy series, a bit per tick: 1 = there is a value
//	integers  zigzag varints of scaled and constant series: the first value, then differences
//	floats    of the series left over: bits XOR those of the value before, in eight planes of bytes, lowest first
const (
	magic0, magic1, version = 'P', 'F', 1

	gappy    = 0x80 // some values are missing
	constant = 0x40 // one value stands for all; with a scale
	floats   = 0x20 // not scaled: in the planes
	scaleOf  = 0x0f // decimal places of a scaled series
	maxScale = 9
	maxExact = 1 << 53 // integers up to here are exact in a float64
)

var pow10 = [maxScale + 1]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9}

// maxBody is the largest body that a frame of these counts can have.
func maxBody(ticks, series uint64) uint64 {
	return 10*ticks + 5*series + series + (ticks+7)/8*series + 10*ticks*series
}

// Quantise rounds the values of one series in place to a power of ten, so that none moves by more than ratio times the
// largest magnitude in it. A ratio of 1e-3 about halves the bytes of noisy gauges; 0 leaves them alone.
func Quantise(values []float64, ratio float64) {
	largest := 0.0
	for _, v := range values {
		if a := math.Abs(v); a > largest && !math.IsInf(v, 0) {
			largest = a
		}
	}
	if largest == 0 || ratio <= 0 {
		return
	}
	places := int(math.Ceil(-math.Log10(2 * ratio * largest))) // half a step is the error
	if places < 0 || places > maxScale {
		return // counts in the thousands stay as they are; tiny values cannot be scaled
	}
	for i, v := range values {
		if r := math.Round(v*pow10[places]) / pow10[places]; math.Abs(r) < maxExact {
			values[i] = r + 0 // no negative zero
		}
	}
}
