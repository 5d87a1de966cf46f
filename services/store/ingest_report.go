package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/wire/frame"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// Bounds of one report. They are far above what an honest agent sends.
const (
	maxSeriesPerEpoch   = 1 << 18
	maxFrameSpan        = BlockLength
	maxWorkloads        = 20_000
	maxSignals          = 64
	maxEvents           = 1000
	maxResults          = 1000 // of one plan that is sent
	maxResultsTold      = 4096 // in one report: what the actions of the largest plan that an agent takes lead to
	maxMessage          = 2048
	maxFieldWriters     = 8
	futureTolerance     = 10 * time.Minute
	pastTolerance       = 30 * 24 * time.Hour // as long as chunks are kept
	framePayloadAtLeast = 8
)

// frameLimits bound a frame after unpacking: 500 GPUs with 14 fields at one tick per second for a minute are 3.4 MB.
var frameLimits = frame.Limits{MaxTicks: 7200, MaxSeries: 1 << 17, MaxBytes: 32 << 20}

// prepared is a report that was looked at: what to write, or why it is refused.
type prepared struct {
	seq    uint64
	at     time.Time // data time
	code   agentv1.RejectCode
	detail string

	queue  func(b *pgx.Batch, tx *Tx)
	after  func(ctx context.Context, tx *Tx) error
	dirty  []time.Time
	series map[uint32]uint64
	speed  float64
	plan   bool
	news   bool
}

// refuse makes the report one that is consumed and stores nothing.
func (p *prepared) refuse(code agentv1.RejectCode, detail string) {
	*p = prepared{seq: p.seq, code: code, detail: detail}
}

// refusal is why a report cannot be stored.
type refusal struct {
	code   agentv1.RejectCode
	detail string
}

func (r *refusal) Error() string { return r.detail }

func bad(format string, args ...any) error {
	return &refusal{agentv1.RejectCode_REJECT_CODE_MALFORMED, fmt.Sprintf(format, args...)}
}

func tooMany(what string, have, most int) error {
	return &refusal{agentv1.RejectCode_REJECT_CODE_TOO_LARGE, fmt.Sprintf("the report has %d %s, at most %d are taken", have, what, most)}
}

// prepare checks a report and turns it into statements. A bad report becomes a refused one; an error means that the database,
// which knows what was announced over other connections, is away.
func (s *Source) prepare(ctx context.Context, now time.Time, r *agentv1.Report) (*prepared, error) {
	p := &prepared{seq: r.GetSeq()}
	err := s.checkTime(now, r.GetAtMs())
	at := millis(r.GetAtMs())
	if err != nil && r.GetResults() != nil { // what was done is never refused because a clock is wrong
		err, at = nil, now
	}
	if err == nil {
		p.at = at
		switch body := r.GetBody().(type) {
		case *agentv1.Report_Frame:
			err = s.prepareFrame(ctx, now, p, body.Frame)
		case *agentv1.Report_Observation:
			err = s.prepareObservation(now, p, body.Observation)
		case *agentv1.Report_Inventory:
			err = s.prepareInventory(now, p, body.Inventory)
		case *agentv1.Report_Events:
			err = s.prepareEvents(now, p, body.Events)
		case *agentv1.Report_Results:
			err = s.prepareResults(now, p, body.Results)
		case *agentv1.Report_GpuHoldings:
			err = s.prepareHoldings(now, p, body.GpuHoldings)
		default: // from a newer agent: taken note of, nothing to store
		}
	}
	var why *refusal
	if errors.As(err, &why) {
		p.refuse(why.code, why.detail)
		return p, nil
	}
	return p, err
}

func millis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// A replayed cluster lives in any year of this range.
var (
	earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
)

func (s *Source) checkTime(now time.Time, ms int64) error {
	at := millis(ms)
	switch {
	case at.Before(earliest) || at.After(latest):
		return bad("a time in the year %d cannot be right", at.Year())
	case s.Replayed:
		return nil
	case at.Sub(now) > futureTolerance:
		return bad("a time is %s ahead of the service's clock; check the clock of the cluster", at.Sub(now).Round(time.Second))
	case now.Sub(at) > pastTolerance:
		return bad("a time is more than %d days ago", pastTolerance/(24*time.Hour))
	}
	return nil
}

// cleanText says whether Postgres can keep s as text.
func cleanText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

func checkText(what, s string, most int) error {
	if len(s) > most || !cleanText(s) {
		return bad("%s is too long or not text", what)
	}
	return nil
}

func sortedTimes(ts []time.Time) []time.Time {
	slices.SortFunc(ts, time.Time.Compare)
	return slices.CompactFunc(ts, time.Time.Equal)
}

// prepareFrame unpacks the frame to be sure that it can be read again, and keeps the bytes as they came.
func (s *Source) prepareFrame(ctx context.Context, now time.Time, p *prepared, f *agentv1.Frame) error {
	from, to := millis(f.GetFromMs()), millis(f.GetToMs())
	if err := cmp.Or(s.checkTime(now, f.GetFromMs()), s.checkTime(now, f.GetToMs())); err != nil {
		return err
	}
	if !from.Before(to) || to.Sub(from) > maxFrameSpan {
		return bad("a frame spans more than nothing and at most %s", maxFrameSpan)
	}
	defs, err := s.checkSeries(f.GetSeries())
	if err != nil {
		return err
	}
	if len(f.GetPayload()) < framePayloadAtLeast {
		return bad("the frame is empty")
	}
	got, err := s.decoder.Decode(f.GetPayload(), frameLimits)
	switch {
	case errors.Is(err, frame.ErrTooLarge):
		return &refusal{agentv1.RejectCode_REJECT_CODE_TOO_LARGE, err.Error()}
	case err != nil:
		return bad("%s", err.Error())
	case got.Ticks[0] < f.GetFromMs() || got.Ticks[len(got.Ticks)-1] >= f.GetToMs():
		return bad("a tick lies outside of the frame's span")
	}
	if err := s.checkKnown(ctx, got.Series, defs); err != nil {
		return err
	}
	p.series = defs
	for block := from.Truncate(BlockLength); block.Before(to); block = block.Add(BlockLength) {
		p.dirty = append(p.dirty, block)
	}
	seq := int64(p.seq) //nolint:gosec // bounded by commit
	p.queue = func(b *pgx.Batch, tx *Tx) {
		queueSeries(b, tx, s, f.GetSeries())
		b.Queue(`
INSERT INTO telemetry_frame (tenant_id, cluster_id, stream, epoch, seq, from_at, to_at, payload) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			tx.Tenant, s.Cluster, s.Stream, s.Epoch, seq, from, to, f.GetPayload())
	}
	return nil
}

// checkSeries reads announcements; an id may be announced again, but never for something else.
func (s *Source) checkSeries(list []*agentv1.SeriesDef) (map[uint32]uint64, error) {
	if len(list)+len(s.known) > maxSeriesPerEpoch {
		return nil, tooMany("series", len(list)+len(s.known), maxSeriesPerEpoch)
	}
	defs := make(map[uint32]uint64, len(list))
	for _, d := range list {
		if d.GetId() == 0 || d.GetId() > math.MaxInt32 || d.GetKind() == "" || d.GetEntity() == "" || d.GetField() == "" ||
			len(d.GetKind()) > 32 || len(d.GetEntity()) > 512 || len(d.GetField()) > 128 ||
			!cleanText(d.GetKind()) || !cleanText(d.GetEntity()) || !cleanText(d.GetField()) {
			return nil, bad("series %d has no proper kind, entity and field", d.GetId())
		}
		hash := seriesHash(d.GetKind(), d.GetEntity(), d.GetField())
		if old, ok := defs[d.GetId()]; ok && old != hash {
			return nil, bad("series %d is announced twice", d.GetId())
		}
		if old, ok := s.seriesOf(d.GetId()); ok && old != hash {
			return nil, bad("series %d was announced as something else", d.GetId())
		}
		defs[d.GetId()] = hash
	}
	return defs, nil
}

func seriesHash(kind, entity, field string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(kind + "\x00" + entity + "\x00" + field))
	return h.Sum64()
}

// checkKnown makes sure that every series of a frame was announced. Another connection of the same epoch may have announced one,
// so the database is asked before the frame is refused.
func (s *Source) checkKnown(ctx context.Context, ids []uint32, defs map[uint32]uint64) error {
	unknown := func() (uint32, bool) {
		for _, id := range ids {
			if _, ok := s.seriesOf(id); !ok {
				if _, ok := defs[id]; !ok {
					return id, true
				}
			}
		}
		return 0, false
	}
	if _, missing := unknown(); !missing {
		return nil
	}
	err := s.db.Tenant(ctx, s.tenant, func(tx *Tx) error { return s.loadSeries(ctx, tx) })
	if err != nil {
		return err
	}
	if id, missing := unknown(); missing {
		return bad("series %d was never announced in this epoch", id)
	}
	return nil
}

// seriesOf is the definition that was stored, or that comes with an earlier report of the same run.
func (s *Source) seriesOf(id uint32) (hash uint64, ok bool) {
	if hash, ok = s.known[id]; !ok {
		hash, ok = s.announced[id]
	}
	return hash, ok
}

func (s *Source) loadSeries(ctx context.Context, tx *Tx) error {
	rows, err := tx.pgx.Query(ctx, `SELECT series_id, kind, entity, field FROM ingest_series
		WHERE tenant_id = $1 AND cluster_id = $2 AND stream = $3 AND epoch = $4`, tx.Tenant, s.Cluster, s.Stream, s.Epoch)
	if err != nil {
		return fmt.Errorf("load series: %w", err)
	}
	known := map[uint32]uint64{}
	var id int32
	var kind, entity, field string
	_, err = pgx.ForEachRow(rows, []any{&id, &kind, &entity, &field}, func() error {
		known[uint32(id)] = seriesHash(kind, entity, field) //nolint:gosec // 1 to MaxInt32
		return nil
	})
	if err != nil {
		return fmt.Errorf("load series: %w", err)
	}
	s.known = known
	return nil
}

func queueSeries(b *pgx.Batch, tx *Tx, s *Source, list []*agentv1.SeriesDef) {
	rows := make([][]any, 0, len(list))
	for _, d := range list {
		rows = append(rows, []any{tx.Tenant, s.Cluster, s.Stream, s.Epoch, int32(d.GetId()), d.GetKind(), d.GetEntity(), d.GetField()}) //nolint:gosec // checked
	}
	queueRows(b, "INSERT INTO ingest_series (tenant_id, cluster_id, stream, epoch, series_id, kind, entity, field)",
		"ON CONFLICT (tenant_id, cluster_id, stream, epoch, series_id) DO NOTHING", rows)
}

func (s *Source) prepareObservation(now time.Time, p *prepared, o *agentv1.Observation) error {
	if len(o.GetWorkloads()) > maxWorkloads {
		return tooMany("workloads", len(o.GetWorkloads()), maxWorkloads)
	}
	if err := s.checkTime(now, o.GetAtMs()); err != nil {
		return err
	}
	for _, w := range o.GetWorkloads() {
		if err := s.checkObserved(now, w); err != nil {
			return err
		}
	}
	if v := o.GetClockSpeed(); v < 0 || math.IsNaN(v) || v > 100_000 {
		return bad("the clock speed is not between 0 and 100,000")
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(o)
	if err != nil {
		return bad("the observation cannot be kept")
	}
	at, seq := millis(o.GetAtMs()), int64(p.seq) //nolint:gosec // bounded by commit
	p.speed, p.plan, p.news = o.GetClockSpeed(), s.Controls(), true
	p.queue = func(b *pgx.Batch, tx *Tx) {
		b.Queue(`INSERT INTO observation (tenant_id, cluster_id, at, stream, epoch, seq, body) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			tx.Tenant, s.Cluster, at, s.Stream, s.Epoch, seq, body)
	}
	return nil
}

func (s *Source) checkObserved(now time.Time, w *agentv1.WorkloadObservation) error {
	if err := checkKey(w.GetWorkload()); err != nil {
		return err
	}
	if len(w.GetSignals()) > maxSignals {
		return tooMany("signals of one workload", len(w.GetSignals()), maxSignals)
	}
	if min(w.GetReplicas(), w.GetReady(), w.GetStarting(), w.GetDraining()) < 0 {
		return bad("%s has a negative number of replicas", w.GetWorkload())
	}
	for _, sig := range w.GetSignals() {
		if err := checkText("a signal's name", sig.GetName(), 128); err != nil {
			return err
		}
		if v := sig.GetValue(); math.IsNaN(v) || math.IsInf(v, 0) {
			return bad("%s of %s is not a number", sig.GetName(), w.GetWorkload())
		}
		if err := s.checkTime(now, sig.GetAtMs()); err != nil {
			return err
		}
	}
	return nil
}

// checkKey reads "namespace/Kind/name".
func checkKey(key string) error {
	if len(key) > 512 || !cleanText(key) {
		return bad("a workload's key is too long or not text")
	}
	parts := strings.Split(key, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return bad("%q is not a workload's key like namespace/Kind/name", key)
	}
	return nil
}

func (s *Source) prepareEvents(now time.Time, p *prepared, list *agentv1.Events) error {
	if len(list.GetEvents()) > maxEvents {
		return tooMany("events", len(list.GetEvents()), maxEvents)
	}
	for _, e := range list.GetEvents() {
		if err := s.checkTime(now, e.GetAtMs()); err != nil {
			return err
		}
		if e.GetKind() == "" || len(e.GetKind()) > 64 || len(e.GetObject()) > 512 || len(e.GetWorkload()) > 512 {
			return bad("an event has no kind, or its object is too long")
		}
		for _, text := range []string{e.GetKind(), e.GetObject(), e.GetWorkload(), e.GetReason(), e.GetMessage()} {
			if !cleanText(text) {
				return bad("an event is not text")
			}
		}
		if err := s.checkCheckpoint(now, e.GetCheckpoint()); err != nil {
			return err
		}
	}
	p.news = len(list.GetEvents()) > 0
	p.queue = func(b *pgx.Batch, tx *Tx) {
		rows := make([][]any, 0, len(list.GetEvents()))
		for i, e := range list.GetEvents() {
			rows = append(rows, []any{tx.Tenant, s.Cluster, millis(e.GetAtMs()), s.Stream, s.Epoch, int64(p.seq), i, e.GetKind(), e.GetObject(), //nolint:gosec // bounded by commit
				e.GetWorkload(), cut(e.GetReason(), 256), cut(e.GetMessage(), maxMessage)})
		}
		queueEvents(b, rows)
		s.queueCheckpoints(b, tx, list)
	}
	return nil
}

// queueEvents keeps events. Those that an agent may tell again after it died between two steps are kept once: the same time, kind, object and reason.
func queueEvents(b *pgx.Batch, rows [][]any) {
	once := make([][]any, 0, len(rows))
	for _, row := range rows {
		if kind := row[7]; kind != "drain" && kind != "checkpoint" {
			once = append(once, row)
			continue
		}
		b.Queue(`INSERT INTO cluster_event (tenant_id, cluster_id, at, stream, epoch, seq, position, kind, object, workload_key, reason, message)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12
WHERE NOT EXISTS (SELECT FROM cluster_event WHERE tenant_id = $1 AND cluster_id = $2 AND at = $3 AND kind = $8 AND object = $9 AND reason = $11)`, row...)
	}
	queueRows(b, "INSERT INTO cluster_event (tenant_id, cluster_id, at, stream, epoch, seq, position, kind, object, workload_key, reason, message)", "", once)
}

// cut shortens text at the border of a rune.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// cutAll keeps the last of a list, each shortened: of the writers of a field ours comes last.
func cutAll(list []string, most, each int) []string {
	list = list[max(len(list)-most, 0):]
	out := make([]string, 0, len(list))
	for _, text := range list {
		out = append(out, cut(text, each))
	}
	return out
}

func (s *Source) prepareResults(now time.Time, p *prepared, list *agentv1.ActionResults) error {
	if len(list.GetResults()) > maxResultsTold {
		return tooMany("results", len(list.GetResults()), maxResultsTold)
	}
	results := make([]ActionResult, 0, len(list.GetResults()))
	for _, r := range list.GetResults() {
		for _, text := range append([]string{r.GetActionId(), r.GetOutcome(), r.GetErrorCode(), r.GetError(), r.GetBeforeSpec(), r.GetAfterSpec()}, r.GetWriters()...) {
			if !cleanText(text) {
				return bad("a result is not text")
			}
		}
		at := millis(r.GetAtMs())
		if s.checkTime(now, r.GetAtMs()) != nil {
			at = p.at
		}
		results = append(results, ActionResult{
			Decision: fleet.DecisionID(r.GetActionId()), Outcome: r.GetOutcome(), Before: int(r.GetBefore()), After: int(r.GetAfter()),
			Generation: int64(min(r.GetGeneration(), math.MaxInt64)), Code: cut(r.GetErrorCode(), 64), Detail: cut(r.GetError(), maxMessage), At: at,
			BeforeSpec: cut(r.GetBeforeSpec(), maxActionSpec), AfterSpec: cut(r.GetAfterSpec(), maxActionSpec), Writers: cutAll(r.GetWriters(), maxFieldWriters, 256),
		})
	}
	ends := drainEnds(list, results)
	p.after = func(ctx context.Context, tx *Tx) error {
		orders, err := ApplyCapacityResults(ctx, tx, s.Cluster, results) // first: it takes the planner's lock
		if err != nil {
			return err
		}
		if err := applyDrainEnds(ctx, tx, s.Cluster, ends); err != nil {
			return err
		}
		for _, id := range orders {
			if err := Notify(ctx, tx, EventPlan, s.Cluster, id); err != nil {
				return err
			}
		}
		changed, err := ApplyResults(ctx, tx, s.Cluster, results)
		if err != nil {
			return err
		}
		for _, id := range changed {
			if err := Notify(ctx, tx, EventDecision, s.Cluster, string(id)); err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}
