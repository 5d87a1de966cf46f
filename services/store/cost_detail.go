package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/klauspost/compress/zstd"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
)

// Bounds of one hour's detail: far above the largest cluster.
const (
	maxDetailBytes = 256 << 20 // unpacked
	detailFormat   = 1
	detailColumns  = 7 // of words: node, kind, resource, purchase, workload, namespace, team
)

var errDetail = errors.New("an hour's detail is damaged")

// detailCoder packs and unpacks; its parts are safe for use at the same time.
var detailCoder = sync.OnceValue(func() (c struct {
	in  *zstd.Encoder
	out *zstd.Decoder
}) {
	var err error
	if c.in, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault)); err != nil {
		panic("store: zstd: " + err.Error())
	}
	if c.out, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(maxDetailBytes)); err != nil {
		panic("store: zstd: " + err.Error())
	}
	return c
})

// packDetail packs the lines of a statement: a dictionary of words, then one column after the other, then zstd. Ids of machines and
// workloads are named once an hour, which is most of what a row of a table would hold.
func packDetail(lines []ledger.CostLine) []byte {
	number := map[string]uint64{}
	var words []string
	columns := [detailColumns][]byte{}
	var amounts, quantities []byte
	for i := range lines {
		l := &lines[i]
		for c, w := range [detailColumns]string{l.Node, string(l.Kind), string(l.Resource), string(l.Purchase), string(l.Owner.Workload), l.Owner.Namespace, l.Owner.Team} {
			n, ok := number[w]
			if !ok {
				n = uint64(len(words))
				number[w] = n
				words = append(words, w)
			}
			columns[c] = binary.AppendUvarint(columns[c], n)
		}
		amounts = binary.AppendVarint(amounts, int64(l.Amount))
		quantities = binary.LittleEndian.AppendUint64(quantities, math.Float64bits(l.Quantity))
	}
	raw := binary.AppendUvarint([]byte{detailFormat}, uint64(len(words)))
	for _, w := range words {
		raw = append(binary.AppendUvarint(raw, uint64(len(w))), w...)
	}
	raw = binary.AppendUvarint(raw, uint64(len(lines)))
	for _, c := range columns {
		raw = append(raw, c...)
	}
	raw = append(append(raw, amounts...), quantities...)
	return detailCoder().in.EncodeAll(raw, nil)
}

// unpackDetail reads what packDetail made. Every count is held against the bytes that are left before anything is allocated.
func unpackDetail(payload []byte) ([]ledger.CostLine, error) {
	raw, err := detailCoder().out.DecodeAll(payload, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDetail, err)
	}
	if len(raw) == 0 || raw[0] != detailFormat {
		return nil, fmt.Errorf("%w: unknown format", errDetail)
	}
	r := detailReader{left: raw[1:]}
	words := make([]string, r.count(1))
	for i := range words {
		words[i] = r.text()
	}
	lines := make([]ledger.CostLine, r.count(detailColumns+1+8))
	for c := range detailColumns {
		for i := range lines {
			w := r.word(words)
			switch l := &lines[i]; c {
			case 0:
				l.Node = w
			case 1:
				l.Kind = ledger.Kind(w)
			case 2:
				l.Resource = ledger.Resource(w)
			case 3:
				l.Purchase = fleet.Purchase(w)
			case 4:
				l.Owner.Workload = fleet.WorkloadID(w)
			case 5:
				l.Owner.Namespace = w
			case 6:
				l.Owner.Team = w
			}
		}
	}
	for i := range lines {
		lines[i].Amount = fleet.Money(r.number())
	}
	for i := range lines {
		lines[i].Quantity = r.float()
	}
	if r.bad || len(r.left) != 0 {
		return nil, errDetail
	}
	return lines, nil
}

// detailReader takes values off; after the first that is not there all are zero.
type detailReader struct {
	left []byte
	bad  bool
}

func (r *detailReader) fail() { r.bad, r.left = true, nil }

func (r *detailReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.left)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.left = r.left[n:]
	return v
}

// count reads how many things follow that take at least so many bytes each.
func (r *detailReader) count(least int) int {
	n := r.uvarint()
	if n > uint64(len(r.left)/least) { //nolint:gosec // a length
		r.fail()
		return 0
	}
	return int(n) //nolint:gosec // at most the length of a slice
}

func (r *detailReader) text() string {
	n := r.count(1)
	t := string(r.left[:min(n, len(r.left))])
	r.left = r.left[len(t):]
	return t
}

func (r *detailReader) word(words []string) string {
	n := r.uvarint()
	if n >= uint64(len(words)) {
		r.fail()
		return ""
	}
	return words[n]
}

func (r *detailReader) number() int64 {
	v, n := binary.Varint(r.left)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.left = r.left[n:]
	return v
}

func (r *detailReader) float() float64 {
	if len(r.left) < 8 {
		r.fail()
		return 0
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(r.left))
	r.left = r.left[8:]
	return v
}

// queueDetails keeps the lines of closed hours by machine; those of commitments are whole in their transfers.
func queueDetails(batch *pgx.Batch, tx *Tx, cluster fleet.ClusterID, hours []CostedHour) {
	if cluster == NoCluster {
		return
	}
	for _, h := range hours {
		if h.Version > 0 {
			batch.Queue(`INSERT INTO cost_detail (tenant_id, cluster_id, hour, version, as_of, lines, payload) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`,
				tx.Tenant, cluster, h.Hour, h.Version, tx.Now, len(h.Statement.Lines), packDetail(h.Statement.Lines))
		}
	}
}

// HourDetail reads the lines of a version of a closed hour, by machine; ok is false for an hour without any, such as one that was
// closed when every line was a transfer of its own.
func HourDetail(ctx context.Context, tx *Tx, cluster fleet.ClusterID, hour time.Time, version int) (lines []ledger.CostLine, ok bool, err error) {
	var payload []byte
	err = tx.pgx.QueryRow(ctx, `SELECT payload FROM cost_detail WHERE tenant_id = $1 AND cluster_id = $2 AND hour = $3 AND version = $4`, tx.Tenant, cluster, hour, version).Scan(&payload)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("load an hour's detail: %w", err)
	}
	lines, err = unpackDetail(payload)
	return lines, err == nil, err
}

// eachDetail hands on the newest version of every closed hour of [from, to) that has a detail, by cluster and hour.
func eachDetail(ctx context.Context, tx *Tx, from, to time.Time, fn func(cluster fleet.ClusterID, hour time.Time, lines []ledger.CostLine) error) error {
	rows, err := tx.pgx.Query(ctx, `SELECT d.cluster_id::text, d.hour, d.payload FROM cost_hour h
JOIN cost_detail d ON d.tenant_id = h.tenant_id AND d.cluster_id = h.cluster_id AND d.hour = h.hour AND d.version = h.version
WHERE h.tenant_id = $1 AND h.hour >= $2 AND h.hour < $3 ORDER BY 1, 2`, tx.Tenant, from, to)
	if err != nil {
		return fmt.Errorf("load details: %w", err)
	}
	var cluster fleet.ClusterID
	var hour time.Time
	var payload []byte
	_, err = pgx.ForEachRow(rows, []any{&cluster, &hour, &payload}, func() error {
		lines, err := unpackDetail(payload)
		if err != nil {
			return err
		}
		return fn(cluster, hour.UTC(), lines)
	})
	if err != nil {
		return fmt.Errorf("load details: %w", err)
	}
	return nil
}
