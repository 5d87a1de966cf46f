package frame

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"
)

var encoders = sync.Pool{New: func() any {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(true))
	if err != nil {
		panic("frame: zstd options: " + err.Error())
	}
	return &encoder{z: z}
}}

// encoder keeps buffers between frames.
type encoder struct {
	z                   *zstd.Encoder
	body, bitmaps, ints []byte
	modes               []byte
	xors                []uint64
	scaled              []int64
}

// Encode packs f without loss. The same frame gives the same bytes. It refuses what Decode with these limits would refuse.
func Encode(f Frame, limits Limits) ([]byte, error) {
	if err := check(f, limits.withDefaults()); err != nil {
		return nil, err
	}
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	e.modes, e.bitmaps, e.ints, e.xors = e.modes[:0], e.bitmaps[:0], e.ints[:0], e.xors[:0]
	for s, col := range f.Values {
		if err := e.column(col); err != nil {
			return nil, fmt.Errorf("%w in series %d", err, f.Series[s])
		}
	}
	body := appendTicks(e.body[:0], f.Ticks)
	before := uint32(0)
	for _, id := range f.Series {
		body = binary.AppendUvarint(body, uint64(id-before))
		before = id
	}
	body = append(body, e.modes...)
	body = append(body, e.bitmaps...)
	body = append(body, e.ints...)
	body = appendPlanes(body, e.xors)
	e.body = body

	out := make([]byte, 0, 24+len(body)/2)
	out = append(out, magic0, magic1, version)
	out = binary.AppendUvarint(out, uint64(len(f.Ticks)))
	out = binary.AppendUvarint(out, uint64(len(f.Series)))
	out = binary.AppendUvarint(out, uint64(len(body)))
	return e.z.EncodeAll(body, out), nil
}

func check(f Frame, limits Limits) error {
	if err := limits.check(uint64(len(f.Ticks)), uint64(len(f.Series))); err != nil {
		return err
	}
	if len(f.Values) != len(f.Series) {
		return malformed("%d columns for %d series", len(f.Values), len(f.Series))
	}
	for i, t := range f.Ticks {
		if i > 0 && t <= f.Ticks[i-1] {
			return malformed("tick %d is not after the one before", i)
		}
	}
	for i, id := range f.Series {
		if len(f.Values[i]) != len(f.Ticks) {
			return malformed("series %d has %d values for %d ticks", id, len(f.Values[i]), len(f.Ticks))
		}
		if i > 0 && id <= f.Series[i-1] {
			return malformed("series id %d is not above the one before", id)
		}
	}
	return nil
}

func appendTicks(b []byte, ticks []int64) []byte {
	b = binary.AppendVarint(b, ticks[0])
	step := int64(0)
	for i := 1; i < len(ticks); i++ {
		d := ticks[i] - ticks[i-1]
		b = binary.AppendVarint(b, d-step)
		step = d
	}
	return b
}

// column adds one series to the parts: as a constant if it is one, as scaled integers if that is exact, else as floats.
func (e *encoder) column(col []float64) error {
	mode := byte(0)
	present := 0
	for _, v := range col {
		if math.IsInf(v, 0) {
			return malformed("an infinity is not a value")
		}
		if v == v {
			present++
		}
	}
	if present < len(col) {
		mode |= gappy
		e.bitmaps = appendBitmap(e.bitmaps, col)
	}
	if present == 0 {
		e.modes = append(e.modes, mode|constant)
		return nil
	}
	scale, same, ok := e.scale(col)
	places := byte(scale) //nolint:gosec // at most maxScale
	switch {
	case !ok:
		e.modes = append(e.modes, mode|floats)
		before := uint64(0)
		for _, v := range col {
			if v == v {
				b := math.Float64bits(v)
				e.xors = append(e.xors, b^before)
				before = b
			}
		}
	case same:
		e.modes = append(e.modes, mode|constant|places)
		e.ints = binary.AppendVarint(e.ints, e.scaled[0])
	default:
		e.modes = append(e.modes, mode|places)
		before := int64(0)
		for _, n := range e.scaled {
			e.ints = binary.AppendVarint(e.ints, n-before)
			before = n
		}
	}
	return nil
}

// scale finds the least number of decimal places at which every value is an integer that turns back into the same bits, and
// leaves the integers in e.scaled.
func (e *encoder) scale(col []float64) (scale int, same, ok bool) {
	e.scaled = e.scaled[:0]
	for i := 0; i < len(col); {
		v := col[i]
		if v != v {
			i++
			continue
		}
		n, exact := scaled(v, scale)
		for !exact && scale < maxScale {
			scale++
			n, exact = scaled(v, scale)
			if exact && len(e.scaled) > 0 { // earlier values were taken with fewer places: once more from the start
				e.scaled = e.scaled[:0]
				i = -1
			}
		}
		if !exact {
			return 0, false, false
		}
		if i >= 0 {
			e.scaled = append(e.scaled, n)
		}
		i++
	}
	same = true
	for _, n := range e.scaled {
		same = same && n == e.scaled[0]
	}
	return scale, same, true
}

func scaled(v float64, scale int) (int64, bool) {
	r := math.RoundToEven(v * pow10[scale])
	if math.Abs(r) >= maxExact {
		return 0, false
	}
	n := int64(r)
	return n, math.Float64bits(float64(n)/pow10[scale]) == math.Float64bits(v)
}

func appendBitmap(b []byte, col []float64) []byte {
	for from := 0; from < len(col); from += 8 {
		bits := byte(0)
		for i, v := range col[from:min(from+8, len(col))] {
			if v == v {
				bits |= 1 << i
			}
		}
		b = append(b, bits)
	}
	return b
}

func appendPlanes(b []byte, xors []uint64) []byte {
	for plane := range 8 {
		shift := 8 * plane
		for _, x := range xors {
			b = append(b, byte(x>>shift)) //nolint:gosec // one byte of it is meant
		}
	}
	return b
}
