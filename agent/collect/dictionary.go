package collect

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

const (
	maxSeries     = 200_000
	maxNameLength = 253
)

// Dictionary gives every series a number that stays the same for the life of the state directory. A series is announced in
// the first frame that uses it, and again whenever a frame may have been lost.
type Dictionary struct {
	// mu guards the maps and the file.
	mu        sync.Mutex
	f         *os.File
	ids       map[seriesKey]uint32
	keys      []seriesKey // by id - 1
	announced map[uint32]bool
}

type seriesKey struct {
	Kind   string `json:"k"`
	Entity string `json:"e"`
	Field  string `json:"f"`
}

// OpenDictionary reads the numbers given so far. A torn last line, as kill -9 leaves it, is cut off.
func OpenDictionary(path string) (*Dictionary, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("series dictionary: %w", err)
	}
	d := &Dictionary{f: f, ids: map[seriesKey]uint32{}, announced: map[uint32]bool{}}
	r := bufio.NewReader(f)
	var end int64
	for len(d.keys) < maxSeries {
		line, err := r.ReadBytes('\n')
		var k seriesKey
		if err != nil || json.Unmarshal(line, &k) != nil {
			break
		}
		end += int64(len(line))
		d.keys = append(d.keys, k)
		d.ids[k] = d.newest()
	}
	if err := errors.Join(f.Truncate(end)); err != nil {
		f.Close()
		return nil, fmt.Errorf("series dictionary: %w", err)
	}
	if _, err := f.Seek(end, 0); err != nil {
		f.Close()
		return nil, fmt.Errorf("series dictionary: %w", err)
	}
	return d, nil
}

// Close closes the file.
func (d *Dictionary) Close() error { return d.f.Close() }

// number returns the ids of the keys, new ones where need be, safe on disk; 0 where the dictionary is full or a name is too long.
func (d *Dictionary) number(keys []seriesKey) ([]uint32, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]uint32, len(keys))
	var fresh []byte
	for i, k := range keys {
		if id, ok := d.ids[k]; ok {
			out[i] = id
			continue
		}
		if len(d.keys) >= maxSeries || len(k.Entity) > maxNameLength*3 || len(k.Field) > maxNameLength || k.Entity == "" || k.Field == "" {
			continue
		}
		line, err := json.Marshal(k)
		if err != nil {
			return nil, err
		}
		fresh = append(append(fresh, line...), '\n')
		d.keys = append(d.keys, k)
		d.ids[k] = d.newest()
		out[i] = d.newest()
	}
	if len(fresh) == 0 {
		return out, nil
	}
	if _, err := d.f.Write(fresh); err != nil {
		return nil, fmt.Errorf("series dictionary: %w", err)
	}
	if err := d.f.Sync(); err != nil {
		return nil, fmt.Errorf("series dictionary: %w", err)
	}
	return out, nil
}

// announce returns the definitions among ids that the service was not told yet, and takes them as told.
func (d *Dictionary) announce(ids []uint32) []*agentv1.SeriesDef {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []*agentv1.SeriesDef
	for _, id := range ids {
		if !d.announced[id] {
			d.announced[id] = true
			out = append(out, d.def(id))
		}
	}
	return out
}

// Forget makes every series be announced again in its next frame.
func (d *Dictionary) Forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.announced = map[uint32]bool{}
}

// Announced returns the definitions of all series that the service was told in this run.
func (d *Dictionary) Announced() []*agentv1.SeriesDef {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []*agentv1.SeriesDef
	for i := range d.keys {
		if id := uint32(i + 1); d.announced[id] {
			out = append(out, d.def(id))
		}
	}
	return out
}

func (d *Dictionary) def(id uint32) *agentv1.SeriesDef {
	k := d.keys[id-1]
	return &agentv1.SeriesDef{Id: id, Kind: k.Kind, Entity: k.Entity, Field: k.Field}
}

// newest is the last number that was given.
func (d *Dictionary) newest() uint32 { return uint32(len(d.keys)) } //nolint:gosec // at most maxSeries
