package uplink

import (
	"fmt"
	"os"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"google.golang.org/protobuf/proto"
)

// makeRoom gives up old reports until size more bytes fit. It returns what was given up.
func (s *Spool) makeRoom(size int64, kind Kind) (map[Kind]int, error) {
	lost := map[Kind]int{}
	limit := s.max
	if kind == KindResults {
		limit += resultReserve
	}
	if s.bytes+size <= limit {
		return nil, nil
	}
	if s.active().size > 0 {
		if err := s.rotate(); err != nil {
			return nil, err
		}
	}
	for victim := KindFrame; victim <= KindEvents; victim++ {
		for i := 0; i < len(s.segs) && s.bytes+size > limit; i++ {
			n, err := s.rewriteWithout(i, victim)
			if err != nil {
				return lost, err
			}
			if n > 0 {
				lost[victim] += n
				s.dropped[victim] += uint64(n)
			}
		}
	}
	if s.bytes+size > limit {
		return lost, ErrFull
	}
	return lost, nil
}

// rewriteWithout replaces one kind of reports of a segment by tombstones, in a new file that takes the old one's place.
// Reports that were acknowledged already are replaced too; they are not counted.
func (s *Spool) rewriteWithout(i int, victim Kind) (int, error) {
	seg := s.segs[i]
	end := s.first + uint64(len(s.recs))
	if i+1 < len(s.segs) {
		end = s.segs[i+1].first
	}
	found := false
	for seq := max(seg.first, s.first); seq < end; seq++ {
		found = found || s.recs[seq-s.first].kind == victim
	}
	if !found {
		return 0, nil
	}
	tmp, err := os.OpenFile(seg.path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return 0, fmt.Errorf("rewrite spool segment: %w", err)
	}
	fresh := &segment{path: seg.path, f: tmp, first: seg.first}
	recs, lost, err := s.copyWithout(fresh, seg, end, victim)
	if err == nil {
		err = tmp.Sync()
	}
	if err == nil {
		err = os.Rename(tmp.Name(), seg.path)
	}
	if err != nil {
		tmp.Close()
		_ = os.Remove(seg.path + ".tmp")
		return 0, fmt.Errorf("rewrite spool segment: %w", err)
	}
	copy(s.recs[max(seg.first, s.first)-s.first:], recs)
	seg.f.Close()
	s.bytes += fresh.size - seg.size
	s.segs[i] = fresh
	return lost, syncDir(s.epochDir(s.epoch))
}

func (s *Spool) copyWithout(to, from *segment, end uint64, victim Kind) (recs []record, lost int, err error) {
	for seq := from.first; seq < end; seq++ {
		b, kind := encodeRecord(seq, KindTombstone, marshalTombstone(seq, 0)), KindTombstone
		if seq >= s.first {
			old := s.recs[seq-s.first]
			switch {
			case old.kind == victim:
				b = encodeRecord(seq, KindTombstone, marshalTombstone(seq, old.read(seq).GetAtMs()))
				lost++
			case old.seg != nil:
				raw := make([]byte, old.size)
				if _, err := old.seg.f.ReadAt(raw, old.off); err != nil {
					return nil, 0, err
				}
				b, kind = raw, old.kind
			}
		}
		if _, err := to.f.WriteAt(b, to.size); err != nil {
			return nil, 0, err
		}
		if seq >= s.first {
			recs = append(recs, record{seg: to, off: to.size, size: int64(len(b)), kind: kind})
		}
		to.size += int64(len(b))
	}
	return recs, lost, nil
}

func marshalTombstone(seq uint64, atMS int64) []byte {
	b, _ := proto.Marshal(tombstone(seq, atMS))
	return b
}

// Renew starts a new epoch, numbered from 1, with everything that is pending; edit may change each report first. It is for
// the day when the service and this directory disagree about the past because one of them was restored from a backup: the
// higher epoch fences the old numbers for good.
func (s *Spool) Renew(now time.Time, edit func(*agentv1.Report)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	epoch := max(s.epoch+1, epochAt(now))
	fresh := &Spool{dir: s.dir, max: s.max + resultReserve, segSize: s.segSize, epoch: epoch, first: 1, dropped: map[Kind]uint64{}, onLost: func(Kind, int) {}}
	dir := s.epochDir(epoch)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("renew spool: %w", err)
	}
	seg, err := createSegment(dir, 1)
	if err != nil {
		return fmt.Errorf("renew spool: %w", err)
	}
	fresh.segs = []*segment{seg}
	for i, rec := range s.recs {
		r := rec.read(s.first + uint64(i))
		if rec.kind == KindTombstone {
			continue
		}
		edit(r)
		if _, _, err := fresh.append(r); err != nil {
			return fmt.Errorf("renew spool: %w", err)
		}
	}
	if err := fresh.sync(); err != nil {
		return err
	}
	if err := s.saveEpoch(epoch); err != nil {
		return fmt.Errorf("renew spool: %w", err)
	}
	for _, seg := range s.segs {
		seg.f.Close()
	}
	_ = os.RemoveAll(s.epochDir(s.epoch))
	s.epoch, s.first, s.recs, s.segs, s.bytes, s.dirty = epoch, 1, fresh.recs, fresh.segs, fresh.bytes, false
	return nil
}
