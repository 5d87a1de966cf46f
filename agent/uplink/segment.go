package uplink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"google.golang.org/protobuf/proto"
)

// MaxReportBytes bounds one report, marshalled. It is what the service's read limit allows with room for the envelope.
const MaxReportBytes = 4<<20 - 4096

const headerBytes = 4 + 4 + 1 + 8 // payload length, CRC-32C of the rest, kind, seq

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Kind is what a report carries, as far as the spool must know it.
type Kind uint8

// Kinds, in the order in which a full spool gives them up; results and tombstones are never given up.
const (
	KindFrame Kind = iota + 1
	KindObservation
	KindInventory
	KindEvents
	KindResults
	KindTombstone // keeps the number of a report that was given up
)

// KindOf classifies a report by its body.
func KindOf(r *agentv1.Report) Kind {
	switch r.GetBody().(type) {
	case *agentv1.Report_Frame:
		return KindFrame
	case *agentv1.Report_Observation:
		return KindObservation
	case *agentv1.Report_Inventory:
		return KindInventory
	case *agentv1.Report_Results:
		return KindResults
	}
	return KindEvents
}

// segment is one append-only file of consecutive reports.
type segment struct {
	path  string
	f     *os.File
	first uint64 // seq of its first record, whether written yet or not
	size  int64
}

// record is where a report lies.
type record struct {
	seg  *segment // nil: lost to corruption, read as a tombstone
	off  int64
	size int64 // with header
	kind Kind
	atMS int64 // of tombstones that have no bytes
}

func segmentPath(dir string, first uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d.seg", first))
}

func createSegment(dir string, first uint64) (*segment, error) {
	path := segmentPath(dir, first)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return &segment{path: path, f: f, first: first}, syncDir(dir)
}

func encodeRecord(seq uint64, kind Kind, payload []byte) []byte {
	b := make([]byte, headerBytes+len(payload))
	binary.LittleEndian.PutUint32(b[0:], uint32(len(payload))) //nolint:gosec // at most MaxReportBytes
	b[8] = byte(kind)
	binary.LittleEndian.PutUint64(b[9:], seq)
	copy(b[headerBytes:], payload)
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli))
	return b
}

var errTorn = errors.New("torn record")

// decodeRecord checks one whole record.
func decodeRecord(b []byte) (seq uint64, kind Kind, payload []byte, err error) {
	if len(b) < headerBytes || int(binary.LittleEndian.Uint32(b[0:])) != len(b)-headerBytes {
		return 0, 0, nil, errTorn
	}
	if binary.LittleEndian.Uint32(b[4:]) != crc32.Checksum(b[8:], castagnoli) {
		return 0, 0, nil, errTorn
	}
	return binary.LittleEndian.Uint64(b[9:]), Kind(b[8]), b[headerBytes:], nil
}

// scan reads a segment from its start and returns the records that are whole and in order, and where they end.
func (s *segment) scan() ([]record, int64, error) {
	info, err := s.f.Stat()
	if err != nil {
		return nil, 0, err
	}
	var recs []record
	var off int64
	head := make([]byte, headerBytes)
	for {
		if _, err := s.f.ReadAt(head, off); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return recs, off, nil
			}
			return nil, 0, err
		}
		n := int64(binary.LittleEndian.Uint32(head)) + headerBytes
		if n > MaxReportBytes+headerBytes || off+n > info.Size() {
			return recs, off, nil
		}
		b := make([]byte, n)
		if _, err := s.f.ReadAt(b, off); err != nil {
			return nil, 0, err
		}
		seq, kind, _, err := decodeRecord(b)
		if err != nil || seq != s.first+uint64(len(recs)) {
			return recs, off, nil //nolint:nilerr // the tail is torn: what stands before it counts
		}
		recs = append(recs, record{seg: s, off: off, size: n, kind: kind})
		off += n
	}
}

// read returns the report of a record; a record that cannot be read any more becomes a tombstone.
func (r record) read(seq uint64) *agentv1.Report {
	if r.seg != nil {
		b := make([]byte, r.size)
		if _, err := r.seg.f.ReadAt(b, r.off); err == nil {
			if got, _, payload, err := decodeRecord(b); err == nil && got == seq {
				out := &agentv1.Report{}
				if proto.Unmarshal(payload, out) == nil {
					return out
				}
			}
		}
	}
	return tombstone(seq, r.atMS)
}

// tombstone is an empty report that only keeps a number, so that the sequence has no hole.
func tombstone(seq uint64, atMS int64) *agentv1.Report {
	return &agentv1.Report{Seq: seq, AtMs: atMS, Body: &agentv1.Report_Events{Events: &agentv1.Events{}}}
}
