package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/httpapi"
	"plimsoll.dev/services/store"
	"plimsoll.dev/services/wire/frame"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
	"plimsoll.dev/services/wire/plimsoll/agent/v1/agentv1connect"
)

// quay is the agents' side of a door: one port for HTTP/1.1 and h2c, with the listener for events running.
type quay struct {
	*door
	server   *httpapi.Server
	registry *prometheus.Registry
	address  string
	web      *http.Server
	cluster  fleet.ClusterID
	h2, h1   agentv1connect.AgentServiceClient
}

func openQuay(t *testing.T) *quay { t.Helper(); return openQuayWith(t, httpapi.Config{}) }

func openQuayWith(t *testing.T, cfg httpapi.Config) *quay {
	t.Helper()
	cfg.Version, cfg.MaxReportBytes = "test", 1<<20
	q := &quay{door: openDoor(t, doorOptions{}), registry: prometheus.NewRegistry()}
	q.server = httpapi.New(cfg, httpapi.Deps{
		DB: q.db, Keys: q.keys, Sealer: q.sealer, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Registry: q.registry, Queue: noQueue{},
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	q.address = "http://" + listener.Addr().String()
	web := httpapi.NewHTTPServer(q.server.Handler())
	q.web = web
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{}, 2)
	go func() { _ = web.Serve(listener); done <- struct{}{} }()
	go func() { _ = q.server.Run(ctx); done <- struct{}{} }()
	t.Cleanup(func() { q.server.Close(); stop(); _ = web.Close(); <-done; <-done })
	q.cluster = q.newCluster(q.tenant.ID)
	q.h2, q.h1 = q.client(true), q.client(false)
	return q
}

type noQueue struct{}

func (noQueue) PlanSoon(context.Context, *store.Tx, fleet.ClusterID) error    { return nil }
func (noQueue) CompactSoon(context.Context, *store.Tx, fleet.ClusterID) error { return nil }
func (noQueue) DeliverSoon(context.Context, *store.Tx, string) error          { return nil }
func (noQueue) CheckBudgetsSoon(context.Context, *store.Tx) error             { return nil }

func (q *quay) newCluster(tenant fleet.TenantID) (id fleet.ClusterID) {
	q.t.Helper()
	err := q.db.Tenant(context.Background(), tenant, func(tx *store.Tx) (err error) {
		id, err = store.CreateCluster(context.Background(), tx, "c-"+uuid.NewString()[:8], fleet.ModeEnforce)
		return err
	})
	if err != nil {
		q.t.Fatal(err)
	}
	return id
}

type zstdCodec struct{ *zstd.Decoder }

func (z zstdCodec) Close() error { return nil }

func (q *quay) client(h2 bool) agentv1connect.AgentServiceClient {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(h2)
	transport.Protocols.SetHTTP1(!h2)
	q.t.Cleanup(transport.CloseIdleConnections)
	return agentv1connect.NewAgentServiceClient(&http.Client{Transport: transport}, q.address,
		connect.WithAcceptCompression("zstd",
			func() connect.Decompressor { d, _ := zstd.NewReader(nil); return zstdCodec{d} },
			func() connect.Compressor { e, _ := zstd.NewWriter(nil); return e }),
		connect.WithSendCompression("zstd"))
}

func (q *quay) token(cluster fleet.ClusterID) string {
	q.t.Helper()
	token, _, err := q.keys.Issue(q.tenant.ID, cluster, time.Now())
	if err != nil {
		q.t.Fatal(err)
	}
	return token
}

func greeting(epoch uint64) *agentv1.Hello {
	return &agentv1.Hello{Stream: "controller", Epoch: epoch, AgentVersion: "1.2.3", KubernetesVersion: "v1.34.0", NowMs: time.Now().UnixMilli(), Capabilities: []string{"scale"}}
}

// line is an agent's open stream.
type line struct {
	t  *testing.T
	up *connect.BidiStreamForClient[agentv1.StreamRequest, agentv1.StreamResponse]
}

func (q *quay) stream(epoch uint64) *line {
	q.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	q.t.Cleanup(cancel)
	l := &line{q.t, q.h2.Stream(ctx)}
	l.up.RequestHeader().Set("Authorization", "Bearer "+q.token(q.cluster))
	if err := l.up.Send(&agentv1.StreamRequest{Message: &agentv1.StreamRequest_Hello{Hello: greeting(epoch)}}); err != nil {
		q.t.Fatal(err)
	}
	return l
}

func (l *line) report(r *agentv1.Report) {
	l.t.Helper()
	if err := l.up.Send(&agentv1.StreamRequest{Message: &agentv1.StreamRequest_Report{Report: r}}); err != nil {
		l.t.Fatal(err)
	}
}

// next returns the next message, whatever it is.
func (l *line) next() *agentv1.StreamResponse {
	l.t.Helper()
	m, err := l.up.Receive()
	if err != nil {
		l.t.Fatal(err)
	}
	return m
}

func (l *line) ack(seq uint64) {
	l.t.Helper()
	if m := l.next(); m.GetAck().GetSeq() != seq {
		l.t.Fatalf("got %v, want the ack of %d", m, seq)
	}
}

func (l *line) reject(seq uint64, code agentv1.RejectCode) *agentv1.Reject {
	l.t.Helper()
	m := l.next()
	if m.GetReject().GetSeq() != seq || m.GetReject().GetCode() != code {
		l.t.Fatalf("got %v, want %v for %d", m, code, seq)
	}
	return m.GetReject()
}

func (l *line) greeted() *agentv1.HelloAck {
	l.t.Helper()
	ack := l.next().GetHelloAck()
	if ack == nil {
		l.t.Fatal("the first message is not the greeting")
	}
	if c := l.next().GetConfig(); c.GetMode() != "enforce" {
		l.t.Fatalf("the second message is not the config: %v", c)
	}
	return ack
}

func events(seq uint64, at time.Time, message string) *agentv1.Report {
	return &agentv1.Report{Seq: seq, AtMs: at.UnixMilli(), Body: &agentv1.Report_Events{Events: &agentv1.Events{Events: []*agentv1.Event{
		{AtMs: at.UnixMilli(), Kind: "oom", Object: "Pod/a/b", Message: message},
	}}}}
}

func badFrame(seq uint64, at time.Time, payload string) *agentv1.Report {
	return &agentv1.Report{Seq: seq, AtMs: at.UnixMilli(), Body: &agentv1.Report_Frame{Frame: &agentv1.Frame{
		FromMs: at.UnixMilli(), ToMs: at.UnixMilli() + 60_000, Payload: []byte(payload),
	}}}
}

func TestAStreamStaysUpWhateverIsReported(t *testing.T) {
	t.Parallel()
	q := openQuay(t)
	l := q.stream(1)
	if ack := l.greeted(); ack.GetLastSeq() != 0 {
		t.Fatalf("a new stream begins at %d", ack.GetLastSeq())
	}
	now := time.Now().Add(-time.Minute)
	l.report(events(1, now, "first"))
	l.ack(1)
	l.report(badFrame(2, now, "this is not a frame"))
	if r := l.reject(2, agentv1.RejectCode_REJECT_CODE_MALFORMED); !strings.HasPrefix(r.GetDetail(), "malformed frame") {
		t.Errorf("detail: %q", r.GetDetail())
	}
	payload, err := frame.Encode(frame.Frame{Ticks: []int64{now.UnixMilli()}, Series: []uint32{9}, Values: [][]float64{{1}}}, frame.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	l.report(badFrame(3, now, string(payload)))
	if r := l.reject(3, agentv1.RejectCode_REJECT_CODE_MALFORMED); r.GetDetail() != "series 9 was never announced in this epoch" {
		t.Errorf("detail: %q", r.GetDetail())
	}
	l.report(events(4, time.Now().Add(time.Hour), "from the future"))
	l.reject(4, agentv1.RejectCode_REJECT_CODE_MALFORMED)
	l.report(events(5, now, strings.Repeat("x", 2<<20)))
	l.reject(5, agentv1.RejectCode_REJECT_CODE_TOO_LARGE)
	l.report(events(5, now, "again the number that was refused"))
	l.ack(5)
	l.report(events(9, now, "a hole"))
	if r := l.reject(9, agentv1.RejectCode_REJECT_CODE_GAP); r.GetExpectedSeq() != 6 {
		t.Errorf("expected %d", r.GetExpectedSeq())
	}
	l.report(events(6, now, "with a \x00 in it"))
	l.reject(6, agentv1.RejectCode_REJECT_CODE_MALFORMED)
	l.report(events(7, now, "last"))
	l.ack(7)
	q.want("SELECT count(*) FROM cluster_event", 2)
	q.want("SELECT last_seq FROM ingest_stream", 7)
	for result, want := range map[string]float64{"accepted": 2, "malformed": 4, "too_large": 1, "gap": 1, "duplicate": 1} {
		if got := q.counter("plimsoll_ingest_reports_total", result); got != want {
			t.Errorf("%v reports counted as %s, want %v", got, result, want)
		}
	}
	if err := l.up.CloseRequest(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.up.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("the end of the stream is %v", err)
	}
}

func (q *quay) want(query string, want int) {
	q.t.Helper()
	var got int
	if err := q.owner.QueryRow(context.Background(), query).Scan(&got); err != nil {
		q.t.Fatal(err)
	}
	if got != want {
		q.t.Errorf("%s: %d, want %d", query, got, want)
	}
}

func (q *quay) counter(name, outcome string) float64 {
	q.t.Helper()
	families, err := q.registry.Gather()
	if err != nil {
		q.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == outcome {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestANewEpochFencesTheOld(t *testing.T) {
	t.Parallel()
	q := openQuay(t)
	old := q.stream(3)
	old.greeted()
	newer := q.stream(4)
	newer.greeted()
	old.report(events(1, time.Now(), "too late"))
	old.reject(1, agentv1.RejectCode_REJECT_CODE_FENCED)
	if _, err := old.up.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("the fenced stream goes on: %v", err)
	}
	again := q.stream(3)
	if m := again.next(); m.GetReject().GetCode() != agentv1.RejectCode_REJECT_CODE_FENCED {
		t.Errorf("the old epoch is greeted with %v", m)
	}
	push := connect.NewRequest(&agentv1.PushRequest{Hello: greeting(3)})
	push.Header().Set("Authorization", "Bearer "+q.token(q.cluster))
	res, err := q.h1.Push(context.Background(), push)
	if err != nil || res.Msg.GetAnswers()[0].GetReject().GetCode() != agentv1.RejectCode_REJECT_CODE_FENCED {
		t.Errorf("the old epoch may push: %v %v", res, err)
	}
}

// arrange puts a dispatched action into the database, as the planner would.
func (q *quay) arrange(generation int) (plan string) {
	plan, workload := uuid.NewString(), string(store.WorkloadIDOf(q.cluster, "a/Deployment/b"))
	q.exec(`INSERT INTO workload (tenant_id, id, cluster_id, key, namespace, kind, name, first_seen) VALUES ($1, $2, $3, 'a/Deployment/b', 'a', 'Deployment', 'b', now())
		ON CONFLICT DO NOTHING`, q.tenant.ID, workload, q.cluster)
	q.exec(`INSERT INTO policy (tenant_id, workload_id, version, document, mode, created_by, created_at) VALUES ($1, $2, 1, 'mode: enforce', 'enforce', 'test', now())
		ON CONFLICT DO NOTHING`, q.tenant.ID, workload)
	q.exec(`INSERT INTO plan (tenant_id, id, cluster_id, generation, at, created_at, expires_at, mode, input_hash, input)
		VALUES ($1, $2, $3, $4, now(), now(), now() + interval '1 hour', 'enforce', '', '')`, q.tenant.ID, plan, q.cluster, generation)
	q.exec(`UPDATE decision SET state = 'superseded' WHERE state = 'dispatched'`)
	q.exec(`INSERT INTO decision (tenant_id, id, plan_id, cluster_id, workload_id, at, outcome, from_replicas, needed, target, binding, detail, state, expires_at)
		VALUES ($1, $2, $3, $4, $5, now(), 'scale_up', 1, 2, 2, 'x', '{"min":1,"max":4,"policy_version":1}', 'dispatched', now() + interval '1 hour')`,
		q.tenant.ID, uuid.NewString(), plan, q.cluster, workload)
	q.exec(`UPDATE cluster SET generation = $2, head_plan_id = $3, last_seen_at = now(), data_at = now() WHERE id = $1`, q.cluster, generation, plan)
	return plan
}

func (q *quay) notify(kind store.EventKind, id string) {
	q.t.Helper()
	err := q.db.Tenant(context.Background(), q.tenant.ID, func(tx *store.Tx) error {
		return store.Notify(context.Background(), tx, kind, q.cluster, id)
	})
	if err != nil {
		q.t.Fatal(err)
	}
}

func TestPlansAndConfigReachTheAgent(t *testing.T) {
	t.Parallel()
	q := openQuay(t)
	first := q.arrange(1)
	l := q.stream(1)
	l.greeted()
	if p := l.next().GetPlan(); p.GetPlanId() != first || p.GetActions()[0].GetTo() != 2 {
		t.Fatalf("on connect the agent gets %v", p)
	}
	second := q.arrange(2)
	q.notify(store.EventPlan, second)
	if p := l.next().GetPlan(); p.GetPlanId() != second || p.GetGeneration() != 2 {
		t.Fatalf("after a plan was made the agent gets %v", p)
	}
	q.exec("UPDATE cluster SET frozen = true WHERE id = $1", q.cluster)
	q.notify(store.EventConfig, "")
	if c := l.next().GetConfig(); !c.GetFrozen() {
		t.Fatalf("after the freeze the agent gets %v", c)
	}
	// The listener's connection dies: what happened meanwhile is told when it is back.
	q.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()")
	q.exec("UPDATE cluster SET frozen = false WHERE id = $1", q.cluster)
	if c := l.next().GetConfig(); c == nil || c.GetFrozen() {
		t.Fatalf("after the listener came back the agent gets %v", c)
	}
}

func TestHTTP1FallsBackToPushAndWatch(t *testing.T) {
	t.Parallel()
	q := openQuay(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	bidi := q.h1.Stream(ctx)
	bidi.RequestHeader().Set("Authorization", "Bearer "+q.token(q.cluster))
	_ = bidi.Send(&agentv1.StreamRequest{Message: &agentv1.StreamRequest_Hello{Hello: greeting(1)}})
	if _, err := bidi.Receive(); err == nil || !strings.Contains(err.Error(), "505") {
		t.Fatalf("a stream over HTTP/1.1 ends with %v, want 505", err)
	}
	push := func(reports ...*agentv1.Report) *agentv1.PushResponse {
		t.Helper()
		req := connect.NewRequest(&agentv1.PushRequest{Hello: greeting(1), Reports: reports})
		req.Header().Set("Authorization", "Bearer "+q.token(q.cluster))
		res, err := q.h1.Push(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		return res.Msg
	}
	if got := push(); got.GetHelloAck() == nil || len(got.GetAnswers()) != 0 {
		t.Fatalf("hello by push: %v", got)
	}
	now := time.Now()
	got := push(events(1, now, "a"), badFrame(2, now, "not a frame"), events(3, now, "b"), events(3, now, "b"), events(7, now, "hole")).GetAnswers()
	if len(got) != 5 || got[0].GetAck().GetSeq() != 1 || got[1].GetReject().GetCode() != agentv1.RejectCode_REJECT_CODE_MALFORMED ||
		got[2].GetAck().GetSeq() != 3 || got[3].GetAck().GetSeq() != 3 || got[4].GetReject().GetExpectedSeq() != 4 {
		t.Fatalf("answers: %v", got)
	}
	q.want("SELECT count(*) FROM cluster_event", 2)

	plan := q.arrange(1)
	req := connect.NewRequest(&agentv1.WatchRequest{Hello: greeting(1)})
	req.Header().Set("Authorization", "Bearer "+q.token(q.cluster))
	watch, err := q.h1.Watch(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	for watch.Receive() {
		if p := watch.Msg().GetMessage().GetPlan(); p != nil {
			if p.GetPlanId() != plan {
				t.Fatalf("watched %v", p)
			}
			break
		}
	}
	if watch.Err() != nil {
		t.Fatal(watch.Err())
	}
	q.server.Close() // the process ends: the agent is told to come back
	for watch.Receive() {
	}
	if connect.CodeOf(watch.Err()) != connect.CodeUnavailable {
		t.Errorf("at shutdown the watch ends with %v", watch.Err())
	}
}

func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	q := openQuay(t)
	otherTenant, _ := q.newTenant("Elsewhere", "owner@elsewhere.test")
	foreignCluster := q.newCluster(otherTenant.ID)
	old, _, err := q.keys.Issue(q.tenant.ID, q.cluster, time.Now().Add(-2*auth.TokenTTL))
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := auth.NewSealer([]byte(strings.Repeat("k", auth.SealKeySize)))
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := auth.NewKeyring(context.Background(), &oneKey{}, sealer)
	if err != nil {
		t.Fatal(err)
	}
	forged, _, err := foreign.Issue(q.tenant.ID, q.cluster, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		token string
		want  connect.Code
	}{
		"no token":                       {"", connect.CodeUnauthenticated},
		"not a token":                    {"letmein", connect.CodeUnauthenticated},
		"an expired token":               {old, connect.CodeUnauthenticated},
		"a token signed elsewhere":       {forged, connect.CodeUnauthenticated},
		"a person's key":                 {q.key(q.tenant.ID, auth.RoleAdmin), connect.CodeUnauthenticated},
		"another tenant's cluster":       {q.token(foreignCluster), connect.CodePermissionDenied},
		"a cluster that was never there": {q.token(fleet.ClusterID(uuid.NewString())), connect.CodePermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			stream := q.h2.Stream(ctx)
			push := connect.NewRequest(&agentv1.PushRequest{Hello: greeting(1)})
			watch := connect.NewRequest(&agentv1.WatchRequest{Hello: greeting(1)})
			for _, h := range []http.Header{stream.RequestHeader(), push.Header(), watch.Header()} {
				h.Set("Authorization", "Bearer "+c.token)
			}
			_ = stream.Send(&agentv1.StreamRequest{Message: &agentv1.StreamRequest_Hello{Hello: greeting(1)}})
			if _, err := stream.Receive(); connect.CodeOf(err) != c.want {
				t.Errorf("stream: %v, want %v", err, c.want)
			}
			if _, err := q.h1.Push(ctx, push); connect.CodeOf(err) != c.want {
				t.Errorf("push: %v, want %v", err, c.want)
			}
			w, err := q.h1.Watch(ctx, watch)
			if err == nil {
				for w.Receive() {
				}
				err = w.Err()
			}
			if connect.CodeOf(err) != c.want {
				t.Errorf("watch: %v, want %v", err, c.want)
			}
		})
	}
	q.want("SELECT count(*) FROM ingest_stream", 0)
}

// oneKey keeps the key of a service that is not ours.
type oneKey struct{}

// Rotate implements auth.KeyStore.
func (*oneKey) Rotate(_ context.Context, next func(time.Time, []auth.SigningKey) (*auth.SigningKey, error)) ([]auth.SigningKey, error) {
	k, err := next(time.Now(), nil)
	if err != nil {
		return nil, err
	}
	return []auth.SigningKey{*k}, nil
}

func TestEnrolmentGivesACredentialUntilItIsEnded(t *testing.T) {
	t.Parallel()
	q := openQuay(t)
	ctx := context.Background()
	secret, err := auth.NewEnrolmentToken(q.tenant.ID)
	if err != nil {
		t.Fatal(err)
	}
	tenant := func(fn func(*store.Tx) error) {
		t.Helper()
		if err := q.db.Tenant(ctx, q.tenant.ID, fn); err != nil {
			t.Fatal(err)
		}
	}
	tenant(func(tx *store.Tx) error {
		return store.CreateEnrolmentToken(ctx, tx, store.EnrolmentToken{ID: secret.ID, Cluster: q.cluster, Hash: secret.Hash, ExpiresAt: time.Now().Add(time.Hour)})
	})
	enrol := func(install string) (*agentv1.EnrolResponse, error) {
		res, err := q.h1.Enrol(ctx, connect.NewRequest(&agentv1.EnrolRequest{EnrolmentToken: secret.Token, InstallId: install, AgentVersion: "1"}))
		if err != nil {
			return nil, err
		}
		return res.Msg, nil
	}
	got, err := enrol("one")
	if err != nil || got.GetClusterId() != string(q.cluster) || got.GetTenantId() != string(q.tenant.ID) {
		t.Fatal(got, err)
	}
	if _, err := enrol("one"); err != nil {
		t.Errorf("the same install may not ask again: %v", err)
	}
	if _, err := enrol("two"); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("another install is answered %v", err)
	}
	refresh := func() error {
		req := connect.NewRequest(&agentv1.RefreshRequest{})
		req.Header().Set("Authorization", "Bearer "+got.GetAccessToken())
		_, err := q.h1.Refresh(ctx, req)
		return err
	}
	if err := refresh(); err != nil {
		t.Error(err)
	}
	tenant(func(tx *store.Tx) error { _, err := store.RevokeEnrolment(ctx, tx, q.cluster); return err })
	if err := refresh(); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("a revoked agent refreshes: %v", err)
	}
}

func TestDashboardsHearWhatHappensInTheirTenantOnly(t *testing.T) {
	t.Parallel()
	q := openQuay(t)
	other, _ := q.newTenant("Elsewhere", "owner@elsewhere.test")
	listen := func(key string) *bufio.Scanner {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		t.Cleanup(cancel)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, q.address+"/api/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("events: %d %s", res.StatusCode, res.Header.Get("Content-Type"))
		}
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() && lines.Text() != ": connected" {
		}
		return lines
	}
	// event sends one and returns what the listener hears. A resync says that the one before may be lost: the server had only begun
	// to listen itself.
	event := func(lines *bufio.Scanner, send func()) string {
		t.Helper()
		send()
		for lines.Scan() {
			switch name, ok := strings.CutPrefix(lines.Text(), "event: "); {
			case ok && name == "resync":
				send()
			case ok:
				lines.Scan()
				return name + " " + strings.TrimPrefix(lines.Text(), "data: ")
			}
		}
		t.Fatal("the events ended: ", lines.Err())
		return ""
	}
	mine, theirs := listen(q.key(q.tenant.ID, auth.RoleViewer)), listen(q.key(other.ID, auth.RoleViewer))
	if got := event(mine, func() { q.notify(store.EventDecision, "d-1") }); got != `decision {"cluster_id":"`+string(q.cluster)+`","decision_id":"d-1"}` {
		t.Error(got)
	}
	alert := func() {
		err := q.db.Tenant(context.Background(), other.ID, func(tx *store.Tx) error {
			return store.Notify(context.Background(), tx, store.EventAlert, "", "a-1")
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := event(theirs, alert); got != `alert {"alert_id":"a-1"}` {
		t.Errorf("the other tenant heard %s first", got)
	}
}

func TestStreamsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	q := openQuay(t)
	l := q.stream(1)
	l.greeted()
	if got := q.connected(); got != 1 {
		t.Errorf("%v agents connected, want 1", got)
	}
	q.server.Close()
	if _, err := l.up.Receive(); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("at shutdown the stream ends with %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := q.web.Shutdown(ctx); err != nil { // waits for every handler
		t.Fatal(err)
	}
	if got := q.connected(); got != 0 {
		t.Errorf("%v agents connected after the end", got)
	}
}

// A deadline of a write must not outlive it: over HTTP/2 it would end a stream that is merely quiet.
func TestAQuietStreamOutlivesTheDeadlineOfItsWrites(t *testing.T) {
	t.Parallel()
	const deadline = 150 * time.Millisecond
	q := openQuayWith(t, httpapi.Config{SendDeadline: deadline})
	l := q.stream(1)
	l.greeted()
	<-time.After(3 * deadline)
	l.report(events(1, time.Now(), "after the silence"))
	l.ack(1)
}

func (q *quay) connected() float64 {
	q.t.Helper()
	families, err := q.registry.Gather()
	if err != nil {
		q.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "plimsoll_clusters_connected" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}
