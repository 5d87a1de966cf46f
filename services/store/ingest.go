package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/wire/frame"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// IngestQueue puts follow-up work into the transaction that stores a report.
type IngestQueue interface {
	PlanSoon(ctx context.Context, tx *Tx, cluster fleet.ClusterID) error
	CompactSoon(ctx context.Context, tx *Tx, cluster fleet.ClusterID) error
}

// Source is one stream of reports whose hello was accepted: (cluster, stream, epoch). It remembers what the epoch announced, so
// that a report costs no look-up. Not safe for concurrent use.
type Source struct {
	Cluster  fleet.ClusterID
	Stream   string
	Epoch    int64
	LastSeq  uint64 // accepted so far
	Mode     fleet.Mode
	Frozen   bool
	Replayed bool // simulated clock: its times are data, not checked against ours

	db        *DB
	tenant    fleet.TenantID
	known     map[uint32]uint64 // series id to hash of its definition
	announced map[uint32]uint64 // the same, by reports of the run that is not stored yet
	decoder   *frame.Decoder
	speed     float64
	notifyAt  time.Time // not before: news for the dashboard
	compactAt time.Time // not before: roll-ups of the running block
}

// Outcome is what became of one report. A zero Code means: durable, now or before.
type Outcome struct {
	Seq      uint64
	Code     agentv1.RejectCode
	Expected uint64 // for GAP
	Detail   string // one plain sentence
	Result   string // accepted, duplicate, malformed, too_large, gap, fenced: the label of the counter
}

// Controls says whether this is the stream of the agent that speaks for the cluster: it gets plans, and its observations lead to
// some. Others (a node's, an imported history) only tell.
func (s *Source) Controls() bool { return s.Stream == mainStream }

// Consumed says whether the stream goes on after this report.
func (o Outcome) Consumed() bool {
	switch o.Code {
	case agentv1.RejectCode_REJECT_CODE_UNSPECIFIED, agentv1.RejectCode_REJECT_CODE_MALFORMED, agentv1.RejectCode_REJECT_CODE_TOO_LARGE:
		return true
	}
	return false
}

const (
	maxStreamName     = 253 + 8 // "node/" and a DNS name
	mainStream        = "controller"
	notifyEvery       = time.Second
	compactEvery      = time.Minute // of data time
	compactEveryLeast = 2 * time.Second
)

// OpenSource accepts a hello: a new epoch of the stream begins at 0 and fences lower ones, a known one goes on where it was. The
// errors are invalid (a bad hello), not_found (no such cluster in this tenant) and conflict (a newer epoch exists).
func (db *DB) OpenSource(ctx context.Context, tenant fleet.TenantID, cluster fleet.ClusterID, hello *agentv1.Hello) (*Source, error) {
	if err := checkHello(hello); err != nil {
		return nil, err
	}
	s := &Source{
		Cluster: cluster, Stream: hello.GetStream(), Epoch: int64(hello.GetEpoch()), Replayed: hello.GetSimulatedClock(), //nolint:gosec // checked
		db: db, tenant: tenant, decoder: frame.NewDecoder(), speed: speedOf(hello.GetClockSpeed()),
	}
	err := db.Tenant(ctx, tenant, func(tx *Tx) error {
		if err := s.greet(ctx, tx, hello); err != nil {
			return err
		}
		return s.loadSeries(ctx, tx)
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func checkHello(h *agentv1.Hello) error {
	name := h.GetStream()
	switch {
	case h == nil || !knownStream(h) || len(name) > maxStreamName || !cleanText(name):
		return fleet.Errorf(fleet.CodeInvalid, "the hello names no stream")
	case h.GetEpoch() == 0 || h.GetEpoch() > math.MaxInt64:
		return fleet.Errorf(fleet.CodeInvalid, "the hello's epoch must be positive")
	case len(h.GetCapabilities()) > 32 || len(h.GetAgentVersion()) > 128 || len(h.GetKubernetesVersion()) > 128 || len(h.GetLimits().GetMode()) > 32:
		return fleet.Errorf(fleet.CodeInvalid, "the hello is too long")
	case h.GetClockSpeed() < 0 || h.GetClockSpeed() > 100_000 || math.IsNaN(h.GetClockSpeed()):
		return fleet.Errorf(fleet.CodeInvalid, "the hello's clock speed is not between 0 and 100,000")
	}
	for _, c := range append([]string{h.GetAgentVersion(), h.GetKubernetesVersion(), h.GetLimits().GetMode()}, h.GetCapabilities()...) {
		if len(c) > 128 || !cleanText(c) {
			return fleet.Errorf(fleet.CodeInvalid, "the hello holds text that is not text")
		}
	}
	return nil
}

// historyStream carries what happened before the agent of a replayed cluster started; it speaks for the whole cluster.
const historyStream = "history"

func knownStream(h *agentv1.Hello) bool {
	name := h.GetStream()
	return name == "controller" || strings.HasPrefix(name, "node/") || (name == historyStream && h.GetSimulatedClock())
}

func speedOf(v float64) float64 {
	if v <= 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 1
	}
	return v
}

// greet fences older epochs and notes what the agent says about itself.
func (s *Source) greet(ctx context.Context, tx *Tx, h *agentv1.Hello) error {
	skew := int64(0)
	if !s.Replayed && h.GetNowMs() > 0 {
		skew = h.GetNowMs() - tx.Now.UnixMilli()
	}
	limits := AgentLimits{
		MaxReplicas: h.GetLimits().GetMaxReplicas(), MaxReplicasPerWorkload: h.GetLimits().GetMaxReplicasPerWorkload(),
		MaxActionsPerMinute: h.GetLimits().GetMaxActionsPerMinute(), Frozen: h.GetLimits().GetFrozen(), Mode: h.GetLimits().GetMode(),
	}
	var found bool
	var epoch, last int64
	b := &pgx.Batch{}
	if s.Stream == "controller" || s.Stream == historyStream {
		b.Queue(`
UPDATE cluster SET agent_version = $3, kubernetes_version = $4, capabilities = $5, agent_limits = $6, simulated_clock = $7, clock_speed = $8,
  skew_ms = $9, last_seen_at = $10, applied_generation = greatest(applied_generation, $11)
WHERE tenant_id = $1 AND id = $2 RETURNING mode, frozen`,
			tx.Tenant, s.Cluster, h.GetAgentVersion(), h.GetKubernetesVersion(), nonNil(h.GetCapabilities()), limits, s.Replayed, s.speed,
			skew, tx.Now, int64(min(h.GetAppliedGeneration(), math.MaxInt64))).
			Query(func(rows pgx.Rows) error { return s.readMode(rows, &found) })
	} else {
		b.Queue(`SELECT mode, frozen FROM cluster WHERE tenant_id = $1 AND id = $2`, tx.Tenant, s.Cluster).
			Query(func(rows pgx.Rows) error { return s.readMode(rows, &found) })
	}
	if err := tx.pgx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("greet agent: %w", err)
	}
	if !found {
		return fleet.Errorf(fleet.CodeNotFound, "there is no such cluster")
	}
	b = &pgx.Batch{}
	b.Queue(`
INSERT INTO ingest_stream (tenant_id, cluster_id, stream, epoch, last_seq, updated_at) VALUES ($1, $2, $3, $4, 0, $5)
ON CONFLICT (tenant_id, cluster_id, stream) DO UPDATE SET epoch = excluded.epoch, last_seq = 0, updated_at = excluded.updated_at
WHERE ingest_stream.epoch < excluded.epoch`, tx.Tenant, s.Cluster, s.Stream, s.Epoch, tx.Now)
	b.Queue(`SELECT epoch, last_seq FROM ingest_stream WHERE tenant_id = $1 AND cluster_id = $2 AND stream = $3`, tx.Tenant, s.Cluster, s.Stream).
		QueryRow(func(row pgx.Row) error { return row.Scan(&epoch, &last) })
	if err := tx.pgx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("open stream: %w", err)
	}
	if epoch > s.Epoch {
		return fleet.Errorf(fleet.CodeConflict, "a newer agent owns this stream (epoch %d)", epoch)
	}
	s.LastSeq = uint64(last) //nolint:gosec // never negative
	return nil
}

func (s *Source) readMode(rows pgx.Rows, found *bool) error {
	for rows.Next() {
		*found = true
		if err := rows.Scan(&s.Mode, &s.Frozen); err != nil {
			return err
		}
	}
	return rows.Err()
}

func nonNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// Ingest stores reports of the stream, in order, each exactly once. The answers are in the order of the reports. An error means
// that the database is away and nothing is known about the reports without an answer: the agent sends them again. Reports that
// follow one another are stored in one transaction. now is our clock, against which times of real clusters are held.
func (s *Source) Ingest(ctx context.Context, now time.Time, reports []*agentv1.Report, queue IngestQueue) ([]Outcome, error) {
	out := make([]Outcome, 0, len(reports))
	for len(reports) > 0 {
		run := following(reports)
		prepared := make([]*prepared, len(run))
		s.announced = map[uint32]uint64{}
		for i, r := range run {
			p, err := s.prepare(ctx, now, r)
			if err != nil {
				return out, err
			}
			prepared[i] = p
			maps.Copy(s.announced, p.series)
		}
		answers, err := s.store(ctx, prepared, queue)
		if err != nil {
			return out, err
		}
		out = append(out, answers...)
		reports = reports[len(run):]
	}
	return out, nil
}

// Refuse consumes a report that could not even be read: the watermark goes past it, so that the stream goes on.
func (s *Source) Refuse(ctx context.Context, seq uint64, code agentv1.RejectCode, detail string) (Outcome, error) {
	out, err := s.store(ctx, []*prepared{{seq: seq, code: code, detail: detail}}, nil)
	if err != nil {
		return Outcome{}, err
	}
	return out[0], nil
}

// following returns the first reports whose sequence numbers have no hole.
func following(reports []*agentv1.Report) []*agentv1.Report {
	n := 1
	for n < len(reports) && reports[n].GetSeq() == reports[n-1].GetSeq()+1 {
		n++
	}
	return reports[:n]
}

// errMoved says that the watermark was not where the reports follow on.
var errMoved = errors.New("the watermark is elsewhere")

// store accepts a run of reports, or tells why not.
func (s *Source) store(ctx context.Context, run []*prepared, queue IngestQueue) ([]Outcome, error) {
	var out []Outcome
	for attempt := 0; len(run) > 0; attempt++ {
		err := s.commit(ctx, run, queue)
		switch {
		case err == nil:
			return append(out, accepted(run)...), nil
		case errors.Is(err, errMoved) && attempt < 3:
			epoch, last, err := s.watermark(ctx)
			if err != nil {
				return nil, err
			}
			skipped, answers := s.behind(run, epoch, last)
			out, run = append(out, answers...), run[skipped:]
		case errors.Is(err, errMoved):
			return nil, &fleet.Error{Code: fleet.CodeUnavailable, Message: "the stream is written by two at once"}
		case refusedData(err) && len(run) == 1:
			run[0].refuse(agentv1.RejectCode_REJECT_CODE_MALFORMED, "the database refused the report's contents")
		case refusedData(err): // one of them; find out which
			for _, p := range run {
				answers, err := s.store(ctx, []*prepared{p}, queue)
				if err != nil {
					return nil, err
				}
				out = append(out, answers...)
			}
			return out, nil
		default:
			return nil, err
		}
	}
	return out, nil
}

// refusedData says whether an error is about the contents and would come again.
func refusedData(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "22") || (strings.HasPrefix(pg.Code, "23") && pg.Code != "23503"))
}

func accepted(run []*prepared) []Outcome {
	out := make([]Outcome, len(run))
	for i, p := range run {
		out[i] = Outcome{Seq: p.seq, Code: p.code, Detail: p.detail, Result: "accepted"}
		switch p.code {
		case agentv1.RejectCode_REJECT_CODE_MALFORMED:
			out[i].Result = "malformed"
		case agentv1.RejectCode_REJECT_CODE_TOO_LARGE:
			out[i].Result = "too_large"
		}
	}
	return out
}

func (s *Source) watermark(ctx context.Context) (epoch int64, last uint64, err error) {
	err = s.db.Tenant(ctx, s.tenant, func(tx *Tx) error {
		var n int64
		err := tx.pgx.QueryRow(ctx, `SELECT epoch, last_seq FROM ingest_stream WHERE tenant_id = $1 AND cluster_id = $2 AND stream = $3`,
			tx.Tenant, s.Cluster, s.Stream).Scan(&epoch, &n)
		last = uint64(n) //nolint:gosec // never negative
		if err != nil {
			return notFound(err, "cluster")
		}
		return nil
	})
	return epoch, last, err
}

// behind answers the reports that cannot be stored at this watermark: duplicates at the front, or all of them.
func (s *Source) behind(run []*prepared, epoch int64, last uint64) (skipped int, out []Outcome) {
	if epoch != s.Epoch {
		for _, p := range run {
			out = append(out, Outcome{Seq: p.seq, Code: agentv1.RejectCode_REJECT_CODE_FENCED, Result: "fenced", Detail: "a newer agent owns this stream"})
		}
		return len(run), out
	}
	s.LastSeq = last
	for skipped < len(run) && run[skipped].seq <= last {
		out = append(out, Outcome{Seq: run[skipped].seq, Result: "duplicate"})
		skipped++
	}
	if skipped < len(run) && run[skipped].seq > last+1 {
		for _, p := range run[skipped:] {
			out = append(out, Outcome{Seq: p.seq, Code: agentv1.RejectCode_REJECT_CODE_GAP, Expected: last + 1, Result: "gap",
				Detail: fmt.Sprintf("report %d is missing", last+1)})
		}
		return len(run), out
	}
	return skipped, out
}

// commit moves the watermark over the whole run and stores it, in one transaction.
func (s *Source) commit(ctx context.Context, run []*prepared, queue IngestQueue) error {
	first, last := run[0].seq, run[len(run)-1].seq
	if first == 0 || last > math.MaxInt64 {
		return errMoved
	}
	var notified, compacting bool
	var now time.Time
	err := s.db.Tenant(ctx, s.tenant, func(tx *Tx) error {
		now = tx.Now
		// The watermark goes first and alone: whoever does not get it must write nothing.
		tag, err := tx.pgx.Exec(ctx, `
UPDATE ingest_stream SET last_seq = $6, updated_at = $7 WHERE tenant_id = $1 AND cluster_id = $2 AND stream = $3 AND epoch = $4 AND last_seq = $5`,
			tx.Tenant, s.Cluster, s.Stream, s.Epoch, int64(first-1), int64(last), tx.Now) //nolint:gosec // bounded above
		if err != nil {
			return fmt.Errorf("move watermark: %w", err)
		}
		if tag.RowsAffected() != 1 {
			return errMoved
		}
		work := s.gather(run)
		b := &pgx.Batch{}
		s.queueCluster(b, tx, work)
		for _, p := range run {
			if p.queue != nil {
				p.queue(b, tx)
			}
		}
		queueDirty(b, tx, s.Cluster, work.dirty)
		if err := tx.pgx.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("store reports: %w", err)
		}
		for _, p := range run {
			if p.after != nil {
				if err := p.after(ctx, tx); err != nil {
					return err
				}
			}
		}
		if work.plan && queue != nil {
			if err := queue.PlanSoon(ctx, tx, s.Cluster); err != nil {
				return fmt.Errorf("ask for a plan: %w", err)
			}
		}
		if compacting = len(work.dirty) > 0 && queue != nil && !now.Before(s.compactAt); compacting {
			if err := queue.CompactSoon(ctx, tx, s.Cluster); err != nil {
				return fmt.Errorf("ask for roll-ups: %w", err)
			}
		}
		if notified = work.news && !now.Before(s.notifyAt); notified {
			return Notify(ctx, tx, EventCluster, s.Cluster, "")
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, p := range run {
		for id, hash := range p.series {
			s.known[id] = hash
		}
		if p.speed > 0 {
			s.speed = p.speed
		}
	}
	if notified {
		s.notifyAt = now.Add(notifyEvery)
	}
	if compacting {
		s.compactAt = now.Add(max(time.Duration(float64(compactEvery)/s.speed), compactEveryLeast))
	}
	s.LastSeq = last
	return nil
}

// work is what a run of reports asks for together.
type work struct {
	at         time.Time
	speed      float64
	dirty      []time.Time
	plan, news bool
}

func (s *Source) gather(run []*prepared) work {
	var w work
	for _, p := range run {
		if p.at.After(w.at) {
			w.at = p.at
		}
		if p.speed > 0 {
			w.speed = p.speed
		}
		w.dirty = append(w.dirty, p.dirty...)
		w.plan, w.news = w.plan || p.plan, w.news || p.news
	}
	return w
}

// queueCluster notes that the agent lives and how new its data is. It comes before everything that refers to the cluster's row,
// so that all writers take their locks in one order.
func (s *Source) queueCluster(b *pgx.Batch, tx *Tx, w work) {
	var at, speed any
	if !w.at.IsZero() {
		at = w.at
	}
	if w.speed > 0 && s.Replayed {
		speed = w.speed
	}
	b.Queue(`
UPDATE cluster SET last_seen_at = $3, data_at = greatest(data_at, $4), clock_speed = coalesce($5, clock_speed) WHERE tenant_id = $1 AND id = $2`,
		tx.Tenant, s.Cluster, tx.Now, at, speed)
}

// BlockLength is the span of a telemetry chunk.
const BlockLength = 2 * time.Hour

// queueDirty marks blocks, in order, each once.
func queueDirty(b *pgx.Batch, tx *Tx, cluster fleet.ClusterID, blocks []time.Time) {
	for _, block := range sortedTimes(blocks) {
		b.Queue(`
INSERT INTO rollup_dirty (tenant_id, cluster_id, block_at, marked_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant_id, cluster_id, block_at) DO UPDATE SET marked_at = excluded.marked_at, marks = rollup_dirty.marks + 1`,
			tx.Tenant, cluster, block, tx.Now)
	}
}

// AgentAllowed says whether an agent of the cluster may have a fresh credential: it enrolled with a token that nobody revoked.
func AgentAllowed(ctx context.Context, tx *Tx, cluster fleet.ClusterID) (allowed bool, err error) {
	err = tx.pgx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM enrolment_token WHERE tenant_id = $1 AND cluster_id = $2 AND used_at IS NOT NULL AND revoked_at IS NULL)`,
		tx.Tenant, cluster).Scan(&allowed)
	if err != nil {
		return false, fmt.Errorf("look for the agent's enrolment: %w", err)
	}
	return allowed, nil
}

// AgentConfig is what the agent shall do by default now.
func AgentConfig(ctx context.Context, tx *Tx, cluster fleet.ClusterID) (*agentv1.Config, error) {
	c := &agentv1.Config{}
	if err := tx.pgx.QueryRow(ctx, `SELECT mode, frozen FROM cluster WHERE tenant_id = $1 AND id = $2`, tx.Tenant, cluster).Scan(&c.Mode, &c.Frozen); err != nil {
		return nil, notFound(err, "cluster")
	}
	return c, nil
}
