package uplink

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"google.golang.org/protobuf/proto"
)

// resultReserve is how far results may go over the bound: they are small, rate-limited, and never given up.
const resultReserve = 16 << 20

// Errors of the spool.
var (
	ErrFull     = errors.New("the spool is full")
	ErrTooLarge = errors.New("the report is too large")
)

// Spool keeps reports on disk, numbered without holes, until the service has them. It survives kill -9 with a torn tail. When
// it is full the oldest frames go first, then observations, inventory and events; results never. What goes leaves its number
// behind, as an empty report.
type Spool struct {
	dir     string
	max     int64
	segSize int64
	wake    chan struct{}

	// mu guards everything below, the files included: appends and trims are short.
	mu      sync.Mutex
	epoch   uint64
	first   uint64 // seq of recs[0]
	recs    []record
	segs    []*segment // the last one is written to
	bytes   int64
	dirty   bool
	dropped map[Kind]uint64
	onLost  func(Kind, int)
}

// Stats is the spool's filling.
type Stats struct {
	Pending int
	Bytes   int64
	Dropped map[Kind]uint64
}

// OpenSpool opens or creates the spool under dir. The epoch is made of now at the first start and then kept.
func OpenSpool(dir string, maxBytes int64, now time.Time) (*Spool, error) {
	s := &Spool{
		dir: dir, max: maxBytes, segSize: min(max(maxBytes/32, 64<<10), 8<<20),
		wake: make(chan struct{}, 1), dropped: map[Kind]uint64{}, onLost: func(Kind, int) {},
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	if err := s.loadEpoch(now); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	return s, nil
}

// OnLost sets what is told when reports are given up: their kind and how many. It is called without the spool's lock.
func (s *Spool) OnLost(f func(kind Kind, n int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onLost = f
}

// Epoch is the number of this life of the state directory.
func (s *Spool) Epoch() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch
}

// Wake delivers when something was appended.
func (s *Spool) Wake() <-chan struct{} { return s.wake }

// Bounds returns the first seq that is kept and the last that was given; first > last when nothing is pending.
func (s *Spool) Bounds() (first, last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first, s.first + uint64(len(s.recs)) - 1
}

// Stats returns how full the spool is.
func (s *Spool) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := make(map[Kind]uint64, len(s.dropped))
	for k, n := range s.dropped {
		d[k] = n
	}
	return Stats{Pending: len(s.recs), Bytes: s.bytes, Dropped: d}
}

// Append numbers the report and writes it. It is safe against kill -9 at once, and against loss of power after Sync.
func (s *Spool) Append(r *agentv1.Report) (uint64, error) {
	s.mu.Lock()
	seq, lost, err := s.append(r)
	tell := s.onLost
	s.mu.Unlock()
	for kind, n := range lost {
		tell(kind, n)
	}
	if err == nil {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	return seq, err
}

func (s *Spool) append(r *agentv1.Report) (uint64, map[Kind]int, error) {
	kind, seq := KindOf(r), s.first+uint64(len(s.recs))
	r.Seq = seq
	payload, err := proto.Marshal(r)
	if err != nil {
		return 0, nil, fmt.Errorf("marshal report: %w", err)
	}
	if len(payload) > MaxReportBytes {
		s.dropped[kind]++
		return 0, nil, ErrTooLarge
	}
	rec := encodeRecord(seq, kind, payload)
	lost, err := s.makeRoom(int64(len(rec)), kind)
	if err != nil {
		s.dropped[kind]++
		return 0, lost, err
	}
	active := s.active()
	if active.size > 0 && active.size+int64(len(rec)) > s.segSize {
		if err := s.rotate(); err != nil {
			return 0, lost, err
		}
		active = s.active()
	}
	if _, err := active.f.WriteAt(rec, active.size); err != nil {
		_ = active.f.Truncate(active.size)
		return 0, lost, fmt.Errorf("write spool: %w", err)
	}
	s.recs = append(s.recs, record{seg: active, off: active.size, size: int64(len(rec)), kind: kind})
	active.size += int64(len(rec))
	s.bytes += int64(len(rec))
	s.dirty = true
	return seq, lost, nil
}

// Sync puts everything appended so far on disk. It is called before anything is sent: what the service may know must never be
// forgotten here.
func (s *Spool) Sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sync()
}

func (s *Spool) sync() error {
	if !s.dirty {
		return nil
	}
	if err := s.active().f.Sync(); err != nil {
		return fmt.Errorf("sync spool: %w", err)
	}
	s.dirty = false
	return nil
}

// Read returns pending reports from seq on, in order, at most n of them and about maxBytes.
func (s *Spool) Read(seq uint64, n int, maxBytes int64) []*agentv1.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*agentv1.Report
	var total int64
	for i := max(seq, s.first); i < s.first+uint64(len(s.recs)) && len(out) < n; i++ {
		rec := s.recs[i-s.first]
		if total += rec.size; total > maxBytes && len(out) > 0 {
			break
		}
		out = append(out, rec.read(i))
	}
	return out
}

// Trim forgets everything up to and including seq: the service has it.
func (s *Spool) Trim(seq uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq < s.first {
		return nil
	}
	n := min(seq-s.first+1, uint64(len(s.recs)))
	s.recs = append([]record(nil), s.recs[n:]...)
	s.first += n
	if active := s.active(); len(s.recs) == 0 && active.size > s.segSize/2 {
		if err := s.rotate(); err != nil {
			return err
		}
	}
	for len(s.segs) > 1 && s.segs[1].first <= s.first {
		s.drop(s.segs[0])
		s.segs = s.segs[1:]
	}
	return nil
}

// Reject forgets everything up to and including seq, which the service will never store: it is counted as lost.
func (s *Spool) Reject(seq uint64) error {
	s.mu.Lock()
	kind := Kind(0)
	if seq >= s.first && seq < s.first+uint64(len(s.recs)) {
		kind = s.recs[seq-s.first].kind
		s.dropped[kind]++
	}
	tell := s.onLost
	s.mu.Unlock()
	if kind != 0 {
		tell(kind, 1)
	}
	return s.Trim(seq)
}

// Bury makes a report empty that the service will not take but whose number it expects. After a restart it is tried again.
func (s *Spool) Bury(seq uint64) {
	s.mu.Lock()
	tell, kind := s.onLost, Kind(0)
	if i := seq - s.first; seq >= s.first && i < uint64(len(s.recs)) && s.recs[i].kind != KindTombstone {
		kind = s.recs[i].kind
		s.dropped[kind]++
		s.recs[i] = record{kind: KindTombstone, atMS: s.recs[i].read(seq).GetAtMs()}
	}
	s.mu.Unlock()
	if kind != 0 {
		tell(kind, 1)
	}
}

// Close closes the files.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.sync()
	for _, seg := range s.segs {
		seg.f.Close()
	}
	return err
}

func (s *Spool) active() *segment { return s.segs[len(s.segs)-1] }

func (s *Spool) rotate() error {
	if err := s.sync(); err != nil {
		return err
	}
	seg, err := createSegment(s.epochDir(s.epoch), s.first+uint64(len(s.recs)))
	if err != nil {
		return fmt.Errorf("new spool segment: %w", err)
	}
	s.segs = append(s.segs, seg)
	return nil
}

func (s *Spool) drop(seg *segment) {
	s.bytes -= seg.size
	seg.f.Close()
	_ = os.Remove(seg.path)
}

func (s *Spool) epochDir(epoch uint64) string {
	return filepath.Join(s.dir, strconv.FormatUint(epoch, 10))
}

// epochAt is the number of an epoch that begins now.
func epochAt(now time.Time) uint64 { return uint64(max(unixMS(now), 1)) }

type epochFile struct {
	Epoch uint64 `json:"epoch"`
}

func (s *Spool) loadEpoch(now time.Time) error {
	path := filepath.Join(s.dir, "epoch.json")
	var e epochFile
	b, err := os.ReadFile(path)
	switch {
	case err == nil && json.Unmarshal(b, &e) == nil && e.Epoch > 0:
		s.epoch = e.Epoch
		return nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	}
	s.epoch = epochAt(now)
	return s.saveEpoch(s.epoch)
}

func (s *Spool) saveEpoch(epoch uint64) error {
	b, _ := json.Marshal(epochFile{Epoch: epoch})
	return WriteFile(filepath.Join(s.dir, "epoch.json"), b)
}

// load reads the segments of the epoch, cuts a torn tail and removes what belongs to no epoch of ours.
func (s *Spool) load() error {
	dir := s.epochDir(s.epoch)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	others, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, o := range others {
		if o.IsDir() && o.Name() != filepath.Base(dir) {
			_ = os.RemoveAll(filepath.Join(s.dir, o.Name()))
		}
	}
	firsts, err := segmentFirsts(dir)
	if err != nil {
		return err
	}
	s.first = 1
	if len(firsts) > 0 {
		s.first = firsts[0]
	}
	for i, first := range firsts {
		if err := s.loadSegment(dir, first, i == len(firsts)-1); err != nil {
			return err
		}
	}
	if len(s.segs) == 0 {
		seg, err := createSegment(dir, s.first)
		if err != nil {
			return err
		}
		s.segs = []*segment{seg}
	}
	return nil
}

func (s *Spool) loadSegment(dir string, first uint64, last bool) error {
	if first < s.first+uint64(len(s.recs)) {
		return fmt.Errorf("segments overlap at report %d", first)
	}
	for s.first+uint64(len(s.recs)) < first { // lost to corruption of an earlier segment: keep the numbers
		s.recs = append(s.recs, record{kind: KindTombstone})
		s.dropped[KindTombstone]++
	}
	f, err := os.OpenFile(segmentPath(dir, first), os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	seg := &segment{path: f.Name(), f: f, first: first}
	recs, end, err := seg.scan()
	if err != nil {
		f.Close()
		return err
	}
	if last {
		if err := f.Truncate(end); err != nil {
			f.Close()
			return err
		}
	}
	seg.size = end
	s.segs, s.recs, s.bytes = append(s.segs, seg), append(s.recs, recs...), s.bytes+end
	s.dirty = s.dirty || last
	return nil
}

// segmentFirsts lists the segments of a directory in order and removes unfinished rewrites.
func segmentFirsts(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []uint64
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".seg")
		if !ok {
			_ = os.Remove(filepath.Join(dir, e.Name()))
			continue
		}
		if n, err := strconv.ParseUint(name, 10, 64); err == nil && n > 0 {
			out = append(out, n)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out, nil
}
