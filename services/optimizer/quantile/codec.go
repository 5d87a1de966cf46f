package quantile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// A kept policy is its magic, its version, the body, and the CRC-32C of all before it. Numbers are variable-length integers; floats are
// their 64 bits, and one byte where they are zero. What follows from the parameters (the priors) is not kept, what was learned under other
// parameters of the same shape stays valid.
const (
	codecMagic   = 'Q'
	codecVersion = 3
	// MaxEncoded is the largest kept policy that is read, bytes. One of the defaults has 40 to 70 thousand.
	MaxEncoded = 512 << 10
)

// What is wrong with a kept policy.
var (
	ErrCorrupt = errors.New("the kept policy is damaged")
	ErrVersion = errors.New("the kept policy is of another version")
	// ErrShape: it was made for another start or other shadows, so that nothing it learned applies.
	ErrShape = errors.New("the kept policy has another shape")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode writes the policy so that Decode gives one that goes on exactly as this one would.
func (c *Policy) Encode() []byte {
	w := &writer{buf: make([]byte, 0, 64<<10)}
	w.buf = append(w.buf, codecMagic, codecVersion)
	w.shape(&c.par)
	w.int(c.slot)
	w.floats(c.load.work, c.load.started, c.load.queue, c.requests, c.slots, c.hours, c.since, c.fast, c.budget.late, c.budget.requests, c.scale)
	w.int(int64(c.chief))
	w.int(int64(c.second))
	w.history(&c.past)
	for i := range c.casts {
		w.forecast(&c.casts[i])
	}
	for i := range c.queue {
		w.shadow(&c.queue[i])
	}
	w.shadow(&c.own)
	w.shadow(&c.plain)
	w.track(&c.track)
	return binary.LittleEndian.AppendUint32(w.buf, crc32.Checksum(w.buf, castagnoli))
}

// Decode reads a kept policy for the given parameters. The error is ErrCorrupt, ErrVersion or ErrShape, wrapped.
func Decode(b []byte, p Params) (*Policy, error) {
	switch {
	case len(b) < 6 || len(b) > MaxEncoded || b[0] != codecMagic:
		return nil, fmt.Errorf("%w: %d bytes", ErrCorrupt, len(b))
	case crc32.Checksum(b[:len(b)-4], castagnoli) != binary.LittleEndian.Uint32(b[len(b)-4:]):
		return nil, fmt.Errorf("%w: its checksum does not match", ErrCorrupt)
	case b[1] != codecVersion:
		return nil, fmt.Errorf("%w: %d, this is %d", ErrVersion, b[1], codecVersion)
	}
	c := New(p)
	r := &reader{buf: b[2 : len(b)-4]}
	if !r.shape(&c.par) && !r.bad {
		return nil, ErrShape
	}
	c.slot = r.int(0, math.MaxInt32)
	r.floats(&c.load.work, &c.load.started, &c.load.queue, &c.requests, &c.slots, &c.hours, &c.since, &c.fast, &c.budget.late, &c.budget.requests, &c.scale)
	c.chief = int(r.int(0, int64(len(c.queue)-1)))
	c.second = int(r.int(-1, int64(len(c.queue)-1)))
	r.history(&c.past)
	for i := range c.casts {
		r.forecast(&c.casts[i], c.wants[i])
	}
	for i := range c.queue {
		r.shadow(&c.queue[i])
	}
	r.shadow(&c.own)
	r.shadow(&c.plain)
	r.track(&c.track)
	if r.bad || len(r.buf) > 0 {
		return nil, fmt.Errorf("%w: its content makes no sense", ErrCorrupt)
	}
	return c, nil
}

// KeptColdSlots reads from a kept policy how many slots a start took that it was made for; 0 when it cannot be read.
func KeptColdSlots(b []byte) int {
	if len(b) < 6 || b[0] != codecMagic || b[1] != codecVersion {
		return 0
	}
	r := &reader{buf: b[2:]}
	return int(r.int(0, maxColdSlots))
}

type writer struct{ buf []byte }

func (w *writer) int(v int64) { w.buf = binary.AppendVarint(w.buf, v) }

func (w *writer) floats(vs ...float64) {
	for _, v := range vs {
		if bits := math.Float64bits(v); bits != 0 {
			w.buf = binary.LittleEndian.AppendUint64(append(w.buf, 1), bits)
		} else {
			w.buf = append(w.buf, 0)
		}
	}
}

func (w *writer) shape(p *Params) {
	w.int(int64(p.ColdSlots))
	w.int(int64(len(p.Quantiles)))
	w.floats(p.Quantiles...)
	w.int(int64(len(p.Holds)))
	for _, h := range p.Holds {
		w.int(int64(h))
	}
}

// history is kept as differences of its values.
func (w *writer) history(h *history) {
	w.int(int64(h.n))
	last := int64(0)
	for i := max(0, h.n-historySlots); i < h.n; i++ {
		v := h.value(i)
		w.int(v - last)
		last = v
	}
}

func (w *writer) forecast(f *forecast) {
	w.int(int64(f.n))
	w.int(int64(f.fit))
	w.floats(f.means...)
	w.floats(f.edge...)
	w.floats(f.middle)
	for _, n := range f.errors.count {
		w.buf = binary.LittleEndian.AppendUint32(w.buf, math.Float32bits(n))
	}
	w.floats(f.rls.weight[:f.rls.used]...)
	for i := range f.rls.used {
		w.floats(f.rls.covariance[i][:i+1]...)
	}
	for i := range f.inputs {
		w.floats(f.inputs[i][:f.rls.used]...)
	}
}

func (w *writer) shadow(s *shadow) {
	w.int(int64(s.want))
	w.int(int64(s.phase))
	w.floats(s.backlog, s.late, s.paid, s.cycles, s.since, s.worst, s.fast)
	w.extreme(&s.hold)
	w.extreme(&s.start)
}

// extreme is kept as differences, from the newest back.
func (w *writer) extreme(e *extreme) {
	w.int(int64(e.n))
	var last entry
	for i := range e.n {
		v := *e.at(i)
		w.int(v.slot - last.slot)
		w.int(int64(v.value - last.value))
		last = v
	}
}

func (w *writer) track(t *track) {
	w.int(int64(len(t.points)))
	var last point
	for _, p := range t.points {
		w.point(p, last)
		last = p
	}
	w.point(t.open, point{})
}

func (w *writer) point(p, last point) {
	for _, v := range [...]int64{p.slot - last.slot, p.n, p.demand - last.demand, p.middle - last.middle, p.upper - last.upper, p.want - last.want, p.plain - last.plain} {
		w.int(v)
	}
}

// reader takes numbers off the front of buf; once something is amiss bad stays set and everything reads as zero.
type reader struct {
	buf []byte
	bad bool
}

func (r *reader) int(low, high int64) int64 {
	v, n := binary.Varint(r.buf)
	if r.bad || n <= 0 || v < low || v > high {
		r.bad = true
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

func (r *reader) floats(vs ...*float64) {
	for _, v := range vs {
		*v = r.float()
	}
}

func (r *reader) slice(vs []float64) {
	for i := range vs {
		vs[i] = r.float()
	}
}

func (r *reader) float() float64 {
	if r.bad || len(r.buf) < 1 || r.buf[0] > 1 || (r.buf[0] == 1 && len(r.buf) < 9) {
		r.bad = true
		return 0
	}
	if r.buf[0] == 0 {
		r.buf = r.buf[1:]
		return 0
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(r.buf[1:]))
	r.buf = r.buf[9:]
	if math.IsNaN(v) || math.IsInf(v, 0) {
		r.bad = true
		return 0
	}
	return v
}

// shape says whether what follows was made for these parameters.
func (r *reader) shape(p *Params) bool {
	same := int(r.int(0, maxColdSlots)) == p.ColdSlots
	if n := r.int(0, 1024); int(n) != len(p.Quantiles) {
		return false
	}
	for _, q := range p.Quantiles {
		same = r.float() == q && same
	}
	if n := r.int(0, 1024); int(n) != len(p.Holds) {
		return false
	}
	for _, h := range p.Holds {
		same = int(r.int(0, math.MaxInt32)) == h && same
	}
	return same && !r.bad
}

func (r *reader) history(h *history) {
	n, v := int(r.int(0, math.MaxInt32)), int64(0)
	from := max(0, n-historySlots)
	h.n = from
	for i := from; i < n && !r.bad; i++ {
		if v += r.int(-maxReplicas*historyUnit, maxReplicas*historyUnit); v < 0 || v > maxReplicas*historyUnit {
			r.bad = true
		}
		h.put(v)
	}
}

func (r *reader) forecast(f *forecast, wants []int32) {
	f.n = int(r.int(0, math.MaxInt32))
	f.fit = int(r.int(0, int64(f.n)))
	r.slice(f.means)
	r.slice(f.edge)
	f.middle = r.float()
	if r.bad || len(r.buf) < 4*errorClasses {
		r.bad = true
		return
	}
	for i := range f.errors.count {
		n := math.Float32frombits(binary.LittleEndian.Uint32(r.buf[4*i:]))
		if !(n >= 0 && n < 1e9) {
			r.bad = true
			return
		}
		f.errors.count[i] = n
	}
	r.buf = r.buf[4*errorClasses:]
	r.slice(f.rls.weight[:f.rls.used])
	for i := range f.rls.used {
		for j := range i + 1 {
			v := r.float()
			f.rls.covariance[i][j], f.rls.covariance[j][i] = v, v
		}
	}
	for i := range f.inputs {
		r.slice(f.inputs[i][:f.rls.used])
	}
	f.ask(f.level(), wants)
}

func (r *reader) shadow(s *shadow) {
	s.want = int32(r.int(0, maxReplicas)) //nolint:gosec // within its bounds
	s.phase = int8(r.int(0, 2))           //nolint:gosec // within its bounds
	r.floats(&s.backlog, &s.late, &s.paid, &s.cycles, &s.since, &s.worst, &s.fast)
	r.extreme(&s.hold)
	r.extreme(&s.start)
}

func (r *reader) extreme(e *extreme) {
	n := r.int(0, int64(e.slots))
	var last entry
	for range n {
		last.slot += r.int(0, math.MaxInt32)
		last.value += int32(r.int(-maxReplicas, maxReplicas)) //nolint:gosec // within its bounds
		if r.bad {
			return
		}
		if int(e.n) == len(e.ring) {
			e.grow()
		}
		*e.at(e.n) = last
		e.n++
	}
}

func (r *reader) track(t *track) {
	n := r.int(0, trackPoints)
	var last point
	for range n {
		last = r.point(last)
		if r.bad {
			return
		}
		t.points = append(t.points, last)
	}
	t.open = r.point(point{})
}

func (r *reader) point(last point) point {
	const most = maxReplicas * trackUnit * trackStride
	var d [7]int64
	for i := range d {
		d[i] = r.int(-most, max(most, math.MaxInt32))
	}
	return point{slot: last.slot + d[0], n: d[1], demand: last.demand + d[2], middle: last.middle + d[3], upper: last.upper + d[4],
		want: last.want + d[5], plain: last.plain + d[6]}
}
