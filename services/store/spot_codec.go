package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"plimsoll.dev/services/market"
)

// The body of a chunk: the changes of one pool in one month.
//
//	format    1 byte: 1 plain, 2 the rest is zstd
//	count     uvarint
//	unit      1 byte: prices are multiples of 10^unit nano-units
//	times     count uvarints: seconds since the month began, then since the change before
//	spot      count uvarints: 0 none listed, else 1 + zigzag(difference to the last one listed)
//	on demand runs until count changes are covered: uvarint length, then a price coded like the Spot ones
//
// Most differences take one or two bytes, and on demand one run.
const (
	spotPlain     = 1
	spotZstd      = 2
	maxSpotChunk  = 1 << 20  // changes of a pool in a month: two in five seconds
	maxSpotBody   = 32 << 20 // bytes after decompression
	spotZstdFloor = 64       // bytes below which zstd cannot win
)

var (
	spotEncoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
		if err != nil {
			panic("store: " + err.Error()) // the options are constants
		}
		return e
	})
	spotDecoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxSpotBody))
		if err != nil {
			panic("store: " + err.Error()) // the options are constants
		}
		return d
	})
	errSpotChunk = errors.New("malformed chunk of Spot prices")
)

// packSpot packs the changes of one month, sorted by time without equal times.
func packSpot(month time.Time, changes []market.SpotChange) ([]byte, error) {
	if len(changes) == 0 || len(changes) > maxSpotChunk {
		return nil, fmt.Errorf("%d changes of a pool in a month", len(changes))
	}
	unit, scale := spotUnit(changes)
	b := binary.AppendUvarint(make([]byte, 0, 6*len(changes)+32), uint64(len(changes)))
	b = append(b, unit)
	before := month.Unix() - 1
	for i, c := range changes {
		if c.At <= before {
			return nil, fmt.Errorf("change %d of %d is not after the one before", i, len(changes))
		}
		if i == 0 {
			before = month.Unix()
		}
		b = binary.AppendUvarint(b, uint64(c.At-before)) //nolint:gosec // checked above
		before = c.At
	}
	last := int64(0)
	for _, c := range changes {
		b, last = appendListed(b, c.Spot, last, scale)
	}
	last = 0
	for i := 0; i < len(changes); {
		run := i + 1
		for run < len(changes) && changes[run].OnDemand == changes[i].OnDemand {
			run++
		}
		b = binary.AppendUvarint(b, uint64(run-i)) //nolint:gosec // positive
		b, last = appendListed(b, changes[i].OnDemand, last, scale)
		i = run
	}
	if len(b) >= spotZstdFloor {
		if packed := spotEncoder().EncodeAll(b, []byte{spotZstd}); len(packed) < len(b)*15/16 {
			return packed, nil
		}
	}
	return append([]byte{spotPlain}, b...), nil
}

// spotUnit finds the largest power of ten that divides all prices.
func spotUnit(changes []market.SpotChange) (unit byte, scale int64) {
	unit, scale = 9, 1_000_000_000
	for _, c := range changes {
		for _, l := range [2]market.Listed{c.Spot, c.OnDemand} {
			for scale > 1 && int64(l)%scale != 0 {
				unit, scale = unit-1, scale/10
			}
		}
	}
	return unit, scale
}

func appendListed(b []byte, l market.Listed, last, scale int64) ([]byte, int64) {
	if l <= 0 {
		return append(b, 0), last
	}
	v := int64(l) / scale
	d := v - last
	return binary.AppendUvarint(b, 1+uint64(d<<1^d>>63)), v //nolint:gosec // zigzag; prices are far from the ends
}

// unpackSpot appends the changes of a chunk to out.
func unpackSpot(month time.Time, body []byte, out []market.SpotChange) ([]market.SpotChange, error) {
	if len(body) < 2 {
		return out, errSpotChunk
	}
	switch body[0] {
	case spotPlain:
		body = body[1:]
	case spotZstd:
		plain, err := spotDecoder().DecodeAll(body[1:], nil)
		if err != nil {
			return out, fmt.Errorf("unpack Spot prices: %w", err)
		}
		body = plain
	default:
		return out, errSpotChunk
	}
	r := spotReader{b: body}
	count := r.uvarint()
	// A change takes two bytes at least: a count that the body cannot hold is refused before anything is allocated.
	if count == 0 || count > maxSpotChunk || count > uint64(len(body)) || len(r.b) == 0 || r.b[0] > 9 {
		return out, errSpotChunk
	}
	scale := int64(math.Pow10(int(r.b[0])))
	r.b = r.b[1:]
	n := len(out)
	at := month.Unix()
	for range count {
		at += int64(min(r.uvarint(), math.MaxInt32))
		out = append(out, market.SpotChange{At: at})
	}
	changes := out[n:]
	last := int64(0)
	for i := range changes {
		changes[i].Spot, last = r.listed(last, scale)
	}
	last = 0
	for i := uint64(0); i < count; {
		run := r.uvarint()
		if run == 0 || run > count-i {
			return out[:n], errSpotChunk
		}
		var l market.Listed
		l, last = r.listed(last, scale)
		for range run {
			changes[i].OnDemand = l
			i++
		}
	}
	if r.failed || len(r.b) != 0 {
		return out[:n], errSpotChunk
	}
	return out, nil
}

type spotReader struct {
	b      []byte
	failed bool
}

func (r *spotReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.failed, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *spotReader) listed(last, scale int64) (market.Listed, int64) {
	u := r.uvarint()
	if u == 0 {
		return 0, last
	}
	u--
	v := last + (int64(u>>1) ^ -int64(u&1)) // zigzag
	if v <= 0 || v > math.MaxInt64/scale {
		r.failed = true
		return 0, last
	}
	return market.Listed(v * scale), v
}

// monthOf is the first day of a moment's month, UTC.
func monthOf(at int64) time.Time {
	t := time.Unix(at, 0).UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}
