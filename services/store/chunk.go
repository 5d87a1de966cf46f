package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/wire/frame"
)

// Minutes are kept this long (data time); blocks before that get hours and days only.
const keepMinutes = 48 * time.Hour

// A block is closed this long (data time) after its end, so that the last frames are in.
const blockGrace = time.Minute

// chunkLimits bound one entity's two hours: a tick per second and 256 fields.
var chunkLimits = frame.Limits{MaxTicks: 16 * 7200, MaxSeries: 4096, MaxBytes: 256 << 20}

// kindWorkload is the kind of series that roll-ups are made from; their entity is the workload's key.
const kindWorkload = "workload"

// Compacted says what a compaction did with a block.
type Compacted struct {
	Skipped bool // somebody else does it, or nothing is new
	Closed  bool // chunks were made and the block is clean
	Frames  int
	Samples int64
	Chunks  int
}

// DirtyBlocks lists the blocks of a cluster that need compaction, newest first.
func DirtyBlocks(ctx context.Context, tx *Tx, cluster fleet.ClusterID) ([]time.Time, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT block_at FROM rollup_dirty WHERE tenant_id = $1 AND cluster_id = $2 ORDER BY block_at DESC`, tx.Tenant, cluster)
	if err != nil {
		return nil, fmt.Errorf("list dirty blocks: %w", err)
	}
	blocks, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil {
		return nil, fmt.Errorf("list dirty blocks: %w", err)
	}
	return blocks, nil
}

// DirtyClusters lists the clusters of the tenant that have blocks with news, or blocks that are over.
func DirtyClusters(ctx context.Context, tx *Tx) ([]fleet.ClusterID, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT DISTINCT d.cluster_id::text FROM rollup_dirty d JOIN cluster c ON c.tenant_id = d.tenant_id AND c.id = d.cluster_id
WHERE d.tenant_id = $1 AND (d.marks > d.fresh_marks OR c.data_at >= d.block_at + $2::interval) ORDER BY 1`, tx.Tenant, BlockLength+blockGrace)
	if err != nil {
		return nil, fmt.Errorf("list dirty clusters: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[fleet.ClusterID])
	if err != nil {
		return nil, fmt.Errorf("list dirty clusters: %w", err)
	}
	return ids, nil
}

// CompactBlock makes roll-ups of a block of two hours, and chunks once the block is over. It may run again at any time: chunks
// already there are merged with the frames that are left, and the same input gives the same rows. One transaction of the caller.
func CompactBlock(ctx context.Context, tx *Tx, cluster fleet.ClusterID, block time.Time) (Compacted, error) {
	c := compaction{tx: tx, cluster: cluster, block: block.UTC(), entities: map[entityKey]*entity{}}
	ok, err := c.begin(ctx)
	if err != nil || !ok {
		return Compacted{Skipped: true}, err
	}
	if err := c.readFrames(ctx); err != nil {
		return Compacted{}, err
	}
	if c.closed {
		if err := c.readChunks(ctx); err != nil {
			return Compacted{}, err
		}
	}
	if err := c.write(ctx); err != nil {
		return Compacted{}, err
	}
	return c.done, c.finish(ctx)
}

type compaction struct {
	tx       *Tx
	cluster  fleet.ClusterID
	block    time.Time
	end      time.Time
	closed   bool
	recent   bool      // minutes of this block are kept
	from     time.Time // frames that end before this are rolled up already
	marks    int64
	newest   int64 // tick
	entities map[entityKey]*entity
	done     Compacted
}

// begin takes the lock of the cluster's compaction and reads where the block stands.
func (c *compaction) begin(ctx context.Context) (ok bool, err error) {
	c.end = c.block.Add(BlockLength)
	var dataAt, freshTo *time.Time
	var freshMarks int64
	b := &pgx.Batch{}
	b.Queue(`SELECT pg_try_advisory_xact_lock(hashtextextended('compact ' || $1::text, 0))`, string(c.cluster)).
		QueryRow(func(row pgx.Row) error { return row.Scan(&ok) })
	found := false
	b.Queue(`
SELECT c.data_at, d.marks, d.fresh_to, d.fresh_marks FROM rollup_dirty d JOIN cluster c ON c.tenant_id = d.tenant_id AND c.id = d.cluster_id
WHERE d.tenant_id = $1 AND d.cluster_id = $2 AND d.block_at = $3`, c.tx.Tenant, c.cluster, c.block).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			found = true
			if err := rows.Scan(&dataAt, &c.marks, &freshTo, &freshMarks); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	if err := c.tx.pgx.SendBatch(ctx, b).Close(); err != nil {
		return false, fmt.Errorf("begin compaction: %w", err)
	}
	if !ok || !found || dataAt == nil {
		return false, nil
	}
	c.closed = !dataAt.Before(c.end.Add(blockGrace))
	c.recent = c.end.After(dataAt.Add(-keepMinutes))
	c.from = c.block
	if !c.closed && freshTo != nil {
		if c.marks == freshMarks {
			return false, nil
		}
		c.from = maxTime(c.block, freshTo.UTC().Add(-time.Minute))
	}
	return true, nil
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

type entityKey struct{ kind, name string }

// entity collects the columns of one GPU, node or workload over the block.
type entity struct {
	ticks   []int64
	fields  []string
	index   map[string]int
	columns [][]float64
	// Of the frame being added: where its ticks stand.
	frame int
	at    int   // first position, when they stand side by side
	spots []int // positions, when they do not
}

func (c *compaction) entity(kind, name string) *entity {
	k := entityKey{kind, name}
	e := c.entities[k]
	if e == nil {
		e = &entity{index: map[string]int{}, frame: -1}
		c.entities[k] = e
	}
	return e
}

// place makes room for ticks; frame numbers the call, so that the series of a frame make room once.
func (e *entity) place(frame int, ticks []int64) {
	if e.frame == frame {
		return
	}
	e.frame, e.spots = frame, nil
	if len(e.ticks) == 0 || ticks[0] > e.ticks[len(e.ticks)-1] {
		e.at = len(e.ticks)
		e.ticks = append(e.ticks, ticks...)
		for i := range e.columns {
			e.columns[i] = pad(e.columns[i], len(e.ticks))
		}
		return
	}
	e.weave(ticks)
}

// weave merges ticks that overlap with those that are there.
func (e *entity) weave(ticks []int64) {
	merged := make([]int64, 0, len(e.ticks)+len(ticks))
	merged = append(append(merged, e.ticks...), ticks...)
	slices.Sort(merged)
	merged = slices.Compact(merged)
	for i, col := range e.columns {
		moved := pad(make([]float64, 0, len(merged)), len(merged))
		for j, v := range col {
			at, _ := slices.BinarySearch(merged, e.ticks[j])
			moved[at] = v
		}
		e.columns[i] = moved
	}
	e.ticks = merged
	e.spots = make([]int, len(ticks))
	for j, t := range ticks {
		e.spots[j], _ = slices.BinarySearch(merged, t)
	}
}

func pad(col []float64, n int) []float64 {
	col = slices.Grow(col, n-len(col))
	for len(col) < n {
		col = append(col, math.NaN())
	}
	return col
}

// put writes the values of one field at the ticks that place made room for; a missing value leaves what is there.
func (e *entity) put(field string, values []float64, overwrite bool) (samples int64) {
	i, ok := e.index[field]
	if !ok {
		i = len(e.columns)
		e.index[field] = i
		e.fields = append(e.fields, field)
		e.columns = append(e.columns, pad(nil, len(e.ticks)))
	}
	col := e.columns[i]
	for j, v := range values {
		if v != v {
			continue
		}
		at := e.at + j
		if e.spots != nil {
			at = e.spots[j]
		}
		samples++
		if overwrite || math.IsNaN(col[at]) {
			col[at] = v
		}
	}
	return samples
}

// readFrames decodes the frames that touch the block and sorts their series to entities.
func (c *compaction) readFrames(ctx context.Context) error {
	rows, err := c.tx.pgx.Query(ctx, `
SELECT stream, epoch, payload FROM telemetry_frame
WHERE tenant_id = $1 AND cluster_id = $2 AND from_at >= $3 AND from_at < $4 AND to_at > $5 ORDER BY from_at, stream, epoch, seq`,
		c.tx.Tenant, c.cluster, c.from.Add(-maxFrameSpan), c.end, c.from)
	if err != nil {
		return fmt.Errorf("load frames: %w", err)
	}
	type stored struct {
		Stream  string
		Epoch   int64
		Payload []byte
	}
	frames, err := pgx.CollectRows(rows, pgx.RowToStructByPos[stored])
	if err != nil {
		return fmt.Errorf("load frames: %w", err)
	}
	dictionaries := map[epochKey]map[uint32]target{}
	decoder := frame.NewDecoder()
	for n, f := range frames {
		key := epochKey{f.Stream, f.Epoch}
		if dictionaries[key] == nil {
			if dictionaries[key], err = c.dictionary(ctx, key); err != nil {
				return err
			}
		}
		got, err := decoder.Decode(f.Payload, frameLimits)
		if err != nil { // it was decoded before it was stored: the bytes have changed since
			return fmt.Errorf("stored frame of stream %s: %w", f.Stream, err)
		}
		c.add(n, got, dictionaries[key])
	}
	c.done.Frames = len(frames)
	return nil
}

type epochKey struct {
	stream string
	epoch  int64
}

// target is where a series belongs.
type target struct {
	entity *entity
	field  string
}

// dictionary reads what the series ids of an epoch mean. A running block needs workloads only.
func (c *compaction) dictionary(ctx context.Context, key epochKey) (map[uint32]target, error) {
	rows, err := c.tx.pgx.Query(ctx, `
SELECT series_id, kind, entity, field FROM ingest_series
WHERE tenant_id = $1 AND cluster_id = $2 AND stream = $3 AND epoch = $4 AND ($5 OR kind = 'workload')`,
		c.tx.Tenant, c.cluster, key.stream, key.epoch, c.closed)
	if err != nil {
		return nil, fmt.Errorf("load series: %w", err)
	}
	out := map[uint32]target{}
	var id int32
	var kind, name, field string
	_, err = pgx.ForEachRow(rows, []any{&id, &kind, &name, &field}, func() error {
		out[uint32(id)] = target{c.entity(kind, name), field} //nolint:gosec // 1 to MaxInt32
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load series: %w", err)
	}
	return out, nil
}

// add takes the part of a frame that lies in the block.
func (c *compaction) add(n int, f frame.Frame, series map[uint32]target) {
	lo, _ := slices.BinarySearch(f.Ticks, c.block.UnixMilli())
	hi, _ := slices.BinarySearch(f.Ticks, c.end.UnixMilli())
	if lo == hi {
		return
	}
	for s, id := range f.Series {
		t, ok := series[id]
		if !ok {
			continue
		}
		t.entity.place(n, f.Ticks[lo:hi])
		c.done.Samples += t.entity.put(t.field, f.Values[s][lo:hi], true)
	}
	c.newest = max(c.newest, f.Ticks[hi-1])
}

// readChunks brings back what an earlier compaction kept; frames go over it.
func (c *compaction) readChunks(ctx context.Context) error {
	rows, err := c.tx.pgx.Query(ctx, `SELECT kind, entity, fields, payload FROM telemetry_chunk WHERE tenant_id = $1 AND cluster_id = $2 AND from_at = $3`,
		c.tx.Tenant, c.cluster, c.block)
	if err != nil {
		return fmt.Errorf("load chunks: %w", err)
	}
	var kind, name string
	var fields []string
	var payload []byte
	decoder := frame.NewDecoder()
	n := -2
	_, err = pgx.ForEachRow(rows, []any{&kind, &name, &fields, &payload}, func() error {
		got, err := decoder.Decode(payload, chunkLimits)
		if err != nil || len(got.Series) != len(fields) {
			return fmt.Errorf("stored chunk of %s: %w", name, err)
		}
		e := c.entity(kind, name)
		e.place(n, got.Ticks)
		n--
		for i, field := range fields {
			e.put(field, got.Values[i], false)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("load chunks: %w", err)
	}
	return nil
}

func (c *compaction) write(ctx context.Context) error {
	var fresh []rollup
	b := &pgx.Batch{}
	var rows [][]any
	for _, key := range sortedEntities(c.entities) {
		e := c.entities[key]
		if len(e.ticks) == 0 {
			continue
		}
		if key.kind == kindWorkload {
			fresh = append(fresh, minutes(WorkloadIDOf(c.cluster, key.name), e, c.from.Truncate(time.Minute))...)
		}
		if c.closed {
			row, err := c.chunk(key, e)
			if err != nil {
				return err
			}
			if row != nil {
				rows = append(rows, row)
			}
		}
	}
	if err := saveRollups(ctx, c.tx, c.cluster, fresh, c.closed, c.recent); err != nil {
		return err
	}
	queueRows(b, "INSERT INTO telemetry_chunk (tenant_id, cluster_id, kind, entity, from_at, to_at, fields, samples, payload)", `
ON CONFLICT (tenant_id, cluster_id, from_at, kind, entity) DO UPDATE SET to_at = excluded.to_at, fields = excluded.fields, samples = excluded.samples,
  payload = excluded.payload WHERE telemetry_chunk.payload <> excluded.payload`, rows)
	c.done.Chunks = len(rows)
	if b.Len() == 0 {
		return nil
	}
	if err := c.tx.pgx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("save chunks: %w", err)
	}
	return nil
}

func sortedEntities(m map[entityKey]*entity) []entityKey {
	keys := make([]entityKey, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b entityKey) int {
		if c := strings.Compare(a.kind, b.kind); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	return keys
}

// chunk packs an entity; nil when it has no value at all.
func (c *compaction) chunk(key entityKey, e *entity) ([]any, error) {
	fields := slices.Clone(e.fields)
	slices.Sort(fields)
	f := frame.Frame{Ticks: e.ticks}
	kept := fields[:0]
	for _, field := range fields {
		col := e.columns[e.index[field]]
		if slices.ContainsFunc(col, func(v float64) bool { return !math.IsNaN(v) }) {
			kept = append(kept, field)
			f.Series, f.Values = append(f.Series, uint32(len(f.Series)+1)), append(f.Values, col) //nolint:gosec // at most 4096
		}
	}
	if len(kept) == 0 {
		return nil, nil
	}
	payload, err := frame.Encode(f, chunkLimits)
	if err != nil {
		return nil, fmt.Errorf("pack %s %s: %w", key.kind, key.name, err)
	}
	return []any{c.tx.Tenant, c.cluster, key.kind, key.name, c.block, c.end, kept, f.Samples(), payload}, nil
}

// finish cleans the block unless it was marked again meanwhile; a running block notes how far it came. It comes last because
// ingest waits for it.
func (c *compaction) finish(ctx context.Context) error {
	if c.closed {
		c.done.Closed = true
		_, err := c.tx.pgx.Exec(ctx, `DELETE FROM rollup_dirty WHERE tenant_id = $1 AND cluster_id = $2 AND block_at = $3 AND marks = $4`,
			c.tx.Tenant, c.cluster, c.block, c.marks)
		if err != nil {
			return fmt.Errorf("finish compaction: %w", err)
		}
		// Hours that are costed already get to know what came late.
		_, err = c.tx.pgx.Exec(ctx, `INSERT INTO cost_touched (tenant_id, cluster_id, hour) SELECT tenant_id, cluster_id, hour FROM cost_hour
			WHERE tenant_id = $1 AND cluster_id = $2 AND hour >= $3 AND hour < $4 AND state = 'closed' ON CONFLICT DO NOTHING`, c.tx.Tenant, c.cluster, c.block, c.end)
		if err != nil {
			return fmt.Errorf("finish compaction: %w", err)
		}
	} else {
		freshTo := c.from
		if c.newest > 0 {
			freshTo = millis(c.newest).Truncate(time.Minute)
		}
		_, err := c.tx.pgx.Exec(ctx, `UPDATE rollup_dirty SET fresh_to = $4, fresh_marks = $5 WHERE tenant_id = $1 AND cluster_id = $2 AND block_at = $3`,
			c.tx.Tenant, c.cluster, c.block, freshTo, c.marks)
		if err != nil {
			return fmt.Errorf("finish compaction: %w", err)
		}
	}
	if !c.recent {
		return nil
	}
	return Notify(ctx, c.tx, EventCluster, c.cluster, "")
}

// Column is the history of one field of an entity.
type Column struct {
	Field  string
	Values []float64 // NaN: missing
}

// Chunk reads back the raw two hours of an entity; ok is false when nothing was kept.
func Chunk(ctx context.Context, tx *Tx, cluster fleet.ClusterID, kind, name string, block time.Time) (ticks []int64, columns []Column, ok bool, err error) {
	var fields []string
	var payload []byte
	err = tx.pgx.QueryRow(ctx, `SELECT fields, payload FROM telemetry_chunk
		WHERE tenant_id = $1 AND cluster_id = $2 AND from_at = $3 AND kind = $4 AND entity = $5`, tx.Tenant, cluster, block, kind, name).Scan(&fields, &payload)
	if err != nil {
		err = notFound(err, "chunk")
		if IsNotFound(err) {
			return nil, nil, false, nil
		}
		return nil, nil, false, err
	}
	f, err := frame.Decode(payload, chunkLimits)
	if err != nil {
		return nil, nil, false, fmt.Errorf("read chunk of %s: %w", name, err)
	}
	for i, field := range fields {
		columns = append(columns, Column{field, f.Values[i]})
	}
	return f.Ticks, columns, true, nil
}
