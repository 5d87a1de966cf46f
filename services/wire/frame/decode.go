package frame

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Decoder unpacks frames into memory that it keeps: what Decode returns is good until the next call. Not safe for concurrent use.
type Decoder struct {
	z      *zstd.Decoder
	body   []byte
	ticks  []int64
	series []uint32
	cells  []float64
	cols   [][]float64
}

// NewDecoder makes a decoder that works in the caller's goroutine only.
func NewDecoder() *Decoder {
	// The cap limit makes DecodeAll stop at the capacity of the buffer, which was bounded before it was made.
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxMemory(1<<30))
	if err != nil {
		panic("frame: zstd options: " + err.Error())
	}
	return &Decoder{z: z}
}

var decoders = sync.Pool{New: func() any { return NewDecoder() }}

// Decode unpacks one frame into memory of its own.
func Decode(payload []byte, limits Limits) (Frame, error) {
	d := decoders.Get().(*Decoder)
	defer decoders.Put(d)
	d.ticks, d.series, d.cells, d.cols = nil, nil, nil, nil // given away below
	f, err := d.Decode(payload, limits)
	d.ticks, d.series, d.cells, d.cols = nil, nil, nil, nil
	return f, err
}

// Decode unpacks one frame. Errors wrap ErrMalformed or ErrTooLarge; whatever the bytes are, no more memory is taken than the
// limits allow.
func (d *Decoder) Decode(payload []byte, limits Limits) (Frame, error) {
	if len(payload) < 3 || payload[0] != magic0 || payload[1] != magic1 {
		return Frame{}, malformed("it does not begin like a frame")
	}
	if payload[2] != version {
		return Frame{}, malformed("version %d is not known", payload[2])
	}
	r := reader{b: payload[3:]}
	ticks, series, size := r.uvarint(), r.uvarint(), r.uvarint()
	if r.bad {
		return Frame{}, malformed("its head is cut off")
	}
	if err := limits.withDefaults().check(ticks, series); err != nil {
		return Frame{}, err
	}
	if size > maxBody(ticks, series) {
		return Frame{}, malformed("a body of %d bytes is too long for %d ticks of %d series", size, ticks, series)
	}
	if uint64(cap(d.body)) < size {
		d.body = make([]byte, 0, size)
	}
	body, err := d.z.DecodeAll(r.b, d.body[:0:size])
	if err != nil {
		return Frame{}, malformed("its body cannot be decompressed")
	}
	if uint64(len(body)) != size {
		return Frame{}, malformed("its body has %d bytes and not %d", len(body), size)
	}
	perSeries := int(ticks)        //nolint:gosec // within the limits
	d.make(perSeries, int(series)) //nolint:gosec // within the limits
	b := reader{b: body}
	if err := b.readTicks(d.ticks); err != nil {
		return Frame{}, err
	}
	if err := b.readSeries(d.series); err != nil {
		return Frame{}, err
	}
	if err := b.readColumns(d.cols, perSeries); err != nil {
		return Frame{}, err
	}
	return Frame{Ticks: d.ticks, Series: d.series, Values: d.cols}, nil
}

func (d *Decoder) make(ticks, series int) {
	if cap(d.ticks) < ticks {
		d.ticks = make([]int64, ticks)
	}
	if cap(d.series) < series {
		d.series, d.cols = make([]uint32, series), make([][]float64, series)
	}
	if cap(d.cells) < ticks*series {
		d.cells = make([]float64, ticks*series)
	}
	d.ticks, d.series, d.cols, d.cells = d.ticks[:ticks], d.series[:series], d.cols[:series], d.cells[:ticks*series]
	for i := range d.cols {
		d.cols[i] = d.cells[i*ticks : (i+1)*ticks : (i+1)*ticks]
	}
}

// reader walks over bytes; bad says that it ran out of them or met a number that is not one.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	u := r.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.bad = true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) readTicks(out []int64) error {
	out[0] = r.varint()
	step := int64(0)
	for i := 1; i < len(out); i++ {
		step += r.varint()
		out[i] = out[i-1] + step
		if out[i] <= out[i-1] { // catches overflow too
			return malformed("tick %d is not after the one before", i)
		}
	}
	if r.bad {
		return malformed("its ticks are cut off")
	}
	return nil
}

func (r *reader) readSeries(out []uint32) error {
	id := uint64(0)
	for i := range out {
		d := r.uvarint()
		id += d
		if d > math.MaxUint32 || id > math.MaxUint32 || (d == 0 && i > 0) {
			return malformed("series %d is not above the one before", i)
		}
		out[i] = uint32(id)
	}
	if r.bad {
		return malformed("its series ids are cut off")
	}
	return nil
}

func (r *reader) readColumns(cols [][]float64, ticks int) error {
	modes := r.take(len(cols))
	gaps, floatCells := 0, 0
	for _, m := range modes {
		if m&scaleOf > maxScale || m&0x10 != 0 || (m&floats != 0 && m&(constant|scaleOf) != 0) {
			return malformed("a series has the unknown coding %#x", m)
		}
		if m&gappy != 0 {
			gaps++
		}
	}
	width := (ticks + 7) / 8
	bitmaps := r.take(gaps * width)
	if r.bad {
		return malformed("its columns are cut off")
	}
	all := make([]byte, width)
	for i := range ticks {
		all[i/8] |= 1 << (i % 8)
	}
	// First all integers: floats come last, and how many there are is known only then.
	rest := bitmaps
	for s, col := range cols {
		there := all
		if modes[s]&gappy != 0 {
			there, rest = rest[:width], rest[width:]
		}
		if modes[s]&floats != 0 {
			floatCells += popcount(there, ticks)
			continue
		}
		if err := r.integers(col, there, modes[s]); err != nil {
			return err
		}
	}
	if floatCells*8 != len(r.b) {
		return malformed("its body has %d bytes for %d floats", len(r.b), floatCells)
	}
	if floatCells == 0 {
		return nil
	}
	at := 0
	rest = bitmaps
	for s, col := range cols {
		there := all
		if modes[s]&gappy != 0 {
			there, rest = rest[:width], rest[width:]
		}
		if modes[s]&floats == 0 {
			continue
		}
		var err error
		if at, err = readPlanes(col, there, r.b, floatCells, at); err != nil {
			return err
		}
	}
	return nil
}

func popcount(bitmap []byte, ticks int) int {
	n := 0
	for i := range ticks {
		n += int(bitmap[i/8]>>(i%8)) & 1
	}
	return n
}

// integers reads a scaled or constant column.
func (r *reader) integers(col []float64, there []byte, mode byte) error {
	div := pow10[mode&scaleOf]
	if mode&gappy == 0 {
		if mode&constant != 0 {
			v := float64(r.varint()) / div
			for i := range col {
				col[i] = v
			}
		} else {
			r.dense(col, div)
		}
	} else {
		r.sparse(col, there, mode, div)
	}
	if r.bad {
		return malformed("its values are cut off")
	}
	return nil
}

// dense is the hot loop: most series have every value, and most differences fit in one or two bytes.
func (r *reader) dense(col []float64, div float64) {
	b := r.b
	n := int64(0)
	for i := range col {
		var u uint64
		switch {
		case len(b) > 0 && b[0] < 0x80:
			u = uint64(b[0])
			b = b[1:]
		case len(b) > 1 && b[1] < 0x80:
			u = uint64(b[0]&0x7f) | uint64(b[1])<<7
			b = b[2:]
		default:
			v, used := binary.Uvarint(b)
			if used <= 0 {
				r.bad = true
				return
			}
			u, b = v, b[used:]
		}
		n += int64(u>>1) ^ -int64(u&1)
		col[i] = float64(n) / div
	}
	r.b = b
}

func (r *reader) sparse(col []float64, there []byte, mode byte, div float64) {
	n, read := int64(0), false
	for i := range col {
		if there[i/8]>>(i%8)&1 == 0 {
			col[i] = math.NaN()
			continue
		}
		if mode&constant == 0 || !read {
			n += r.varint()
			read = true
		}
		col[i] = float64(n) / div
	}
}

// readPlanes reads a column of floats that begins at float number at of all.
func readPlanes(col []float64, there, planes []byte, all, at int) (int, error) {
	before := uint64(0)
	for i := range col {
		if there[i/8]>>(i%8)&1 == 0 {
			col[i] = math.NaN()
			continue
		}
		x := uint64(0)
		for p := range 8 {
			x |= uint64(planes[p*all+at]) << (8 * p)
		}
		before ^= x
		at++
		v := math.Float64frombits(before)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, malformed("a value is not a number")
		}
		col[i] = v
	}
	return at, nil
}
