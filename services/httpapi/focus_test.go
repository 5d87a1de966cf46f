package httpapi_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/focus"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// accounts is a door with three days of hours that the ledger really closed: two clusters, GPU and CPU machines, Spot that comes and goes,
// a pod too many, a machine without a price, one that a plan covers in part, and a part of the plan that nobody used.
type accounts struct {
	*door
	viewer       string
	north, south string
	llm, train   fleet.WorkloadID
	total        fleet.Money // of the closed hours
	everything   fleet.Money // and of the open one
}

var (
	accountsFrom = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	accountsTo   = accountsFrom.AddDate(0, 0, 3) // the last hour is open
)

func openAccounts(t *testing.T) *accounts {
	t.Helper()
	a := &accounts{door: openDoor(t, doorOptions{}), north: uuid.NewString(), south: uuid.NewString(), llm: fleet.WorkloadID(uuid.NewString()), train: fleet.WorkloadID(uuid.NewString())}
	a.viewer = a.key(a.tenant.ID, auth.RoleViewer)
	plan := uuid.NewString()
	for id, name := range map[string]string{a.north: "north", a.south: "south"} {
		a.exec(`INSERT INTO cluster (tenant_id, id, name, mode, created_at, data_at) VALUES ($1, $2, $3, 'observe', now(), $4)`, a.tenant.ID, id, name, accountsTo.Add(-30*time.Minute))
	}
	a.exec(`INSERT INTO workload (tenant_id, id, cluster_id, key, namespace, kind, name, team, labels, first_seen) VALUES
($1, $2, $3, 'chat/Deployment/llm', 'chat', 'Deployment', 'llm', 'red', '{"app": "llm", "tier": "hot"}', now()), ($1, $4, $3, 'train/StatefulSet/fit', 'train', 'StatefulSet', 'fit', 'blue', '{"app": "fit"}', now())`,
		a.tenant.ID, a.llm, a.north, a.train)
	a.exec(`INSERT INTO commitment (tenant_id, id, ref, kind, region, zone, instance_type, family, resource, gpu_model, quantity, upfront_nano, recurring_nano, spend_nano, discount_ppm, rates, ratios, starts_at, owner, source, created_by, created_at, changed_at)
VALUES ($1, $2, 'sp-1', 'aws_compute_sp', '', '', '', '', '', '', 0, 0, 0, 100000000, 0, '[]', '[]', '2026-01-01', 'red', 'api', 'test', now(), now())`, a.tenant.ID, plan)
	hours := map[fleet.ClusterID][]store.CostedHour{}
	gpu, cpu, spot := fleet.Money(98_320_000_000), fleet.Money(384_000_001), fleet.Money(1_234_567_891)
	list := map[string]fleet.Money{"g0": 98_320_000_000, "c0": 390_000_000, "s0": 4_000_000_000}
	node := func(cluster, uid, kind, machine string, purchase fleet.Purchase, n ledger.Node) {
		a.exec(`INSERT INTO node (tenant_id, cluster_id, uid, name, pool, cloud, region, zone, instance_type, purchase, phase, cpu_milli, mem_mib, gpu_model, gpu_count, started_at, ended_at)
VALUES ($1, $2, $3, $4, $5, 'aws', 'us-east-1', 'us-east-1a', $6, $7, 'ready', $8, $9, $10, $11, $12, $13)`,
			a.tenant.ID, cluster, uid, "node-"+uid, kind, machine, purchase, n.CPUMilli, n.MemMiB, n.GPUModel, n.GPUCount, n.Life.From, nilTime(n.Life.To))
	}
	long := fleet.Interval{From: accountsFrom.Add(-time.Hour)}
	weights := market.Catalogue().Weights(fleet.CloudAWS)
	g0 := ledger.Node{UID: "g0", Name: "node-g0", Purchase: fleet.PurchaseOnDemand, CPUMilli: 192_000, MemMiB: 2 << 20, GPUModel: "H100", GPUCount: 8, Life: long, ReadyAt: long.From, Price: &gpu, Weights: weights}
	c0 := ledger.Node{UID: "c0", Name: "node-c0", Purchase: fleet.PurchaseOnDemand, CPUMilli: 8000, MemMiB: 32768, Life: long, ReadyAt: long.From, Price: &cpu, Weights: weights}
	x0 := ledger.Node{UID: "x0", Name: "node-x0", Purchase: fleet.PurchaseOnDemand, CPUMilli: 8000, MemMiB: 32768, Life: long, ReadyAt: long.From, Weights: weights}
	node(a.north, "g0", "gpu", "p5.48xlarge", g0.Purchase, g0)
	node(a.south, "c0", "cpu", "m5.2xlarge", c0.Purchase, c0)
	node(a.south, "x0", "cpu", "of our own", x0.Purchase, x0)
	last := accountsTo.Add(-time.Hour)
	for at := accountsFrom; at.Before(accountsTo); at = at.Add(time.Hour) {
		n := int(at.Sub(accountsFrom) / time.Hour)
		s0 := ledger.Node{UID: fmt.Sprintf("s%d", n), Name: fmt.Sprintf("node-s%d", n), Purchase: fleet.PurchaseSpot, CPUMilli: 192_000, MemMiB: 1 << 20, GPUModel: "A100-80GB", GPUCount: 8, Price: &spot, Weights: weights,
			Life: fleet.Interval{From: at.Add(time.Duration(n) * 7 * time.Second), To: at.Add(time.Duration(n)*7*time.Second + 11*time.Minute + time.Millisecond)}}
		s0.ReadyAt = s0.Life.From.Add(90 * time.Second)
		node(a.north, s0.UID, "spot", "p4d.24xlarge", s0.Purchase, s0)
		version := 1 + n%2
		if at.Equal(last) {
			version = 0
		}
		pod := func(uid, node string, owner ledger.Owner, cpu, mem, gpu int64) ledger.Pod {
			return ledger.Pod{UID: uid, Node: node, Owner: owner, CPUMilli: cpu, MemMiB: mem, GPUMilli: gpu, Held: fleet.Interval{From: long.From}}
		}
		half := 0.5
		used := map[fleet.WorkloadID]ledger.Usage{a.llm: {CPUCores: &half, GPUSM: &half}}
		north := ledger.Hour{From: at, To: at.Add(time.Hour), Nodes: []ledger.Node{g0, s0}, Usage: used, Pods: []ledger.Pod{
			pod("p1", g0.Name, ledger.Owner{Workload: a.llm, Namespace: "chat", Team: "red"}, 7000, 70_001, 3000),
			pod("p2", g0.Name, ledger.Owner{Workload: a.train, Namespace: "train", Team: "blue"}, 33_333, 99_999, int64(n%5)*1000),
			pod("p3", s0.Name, ledger.Owner{Workload: a.train, Namespace: "train", Team: "blue"}, 1000, 1024, 1000)}}
		south := ledger.Hour{From: at, To: at.Add(time.Hour), Nodes: []ledger.Node{c0, x0}, Pods: []ledger.Pod{
			pod("p4", c0.Name, ledger.Owner{Namespace: "tools"}, 3000+int64(n%7)*1000, 1024, 0),
			pod("p5", c0.Name, ledger.Owner{Namespace: "kube-system"}, 500, 512, 0),
			pod("p6", x0.Name, ledger.Owner{Namespace: "tools"}, 3000, 1024, 0)}}
		price := func(n ledger.Node, source string) store.NodePrice {
			p := store.NodePrice{Node: n.UID, Effective: n.Price, Currency: "USD", Source: source}
			if l, ok := list[n.UID]; ok {
				p.List = &l
			}
			return p
		}
		unused := ledger.Statement{NodeCost: 40_000_003, Lines: []ledger.CostLine{{Node: plan, Row: ledger.Row{Kind: ledger.KindUnused, Resource: ledger.ResourceCommitment, Purchase: fleet.PurchaseReserved,
			Owner: ledger.Owner{Team: "red"}, Amount: 40_000_003, Quantity: 0.4}}}}
		for cluster, h := range map[string]store.CostedHour{
			a.north:                 {Statement: ledger.Close(north), Prices: []store.NodePrice{price(g0, "list"), price(s0, "spot")}},
			a.south:                 {Statement: ledger.Close(south), Prices: []store.NodePrice{price(c0, "commitment sp-1, list"), price(x0, "")}},
			string(store.NoCluster): {Statement: unused},
		} {
			if version == 0 && cluster == string(store.NoCluster) {
				continue
			}
			h.Hour, h.Version, h.ContentHash = at, version, []byte{1}
			hours[fleet.ClusterID(cluster)] = append(hours[fleet.ClusterID(cluster)], h)
			a.everything += h.Statement.NodeCost
			if version > 0 {
				a.total += h.Statement.NodeCost
			}
		}
		if version > 0 {
			a.exec(`INSERT INTO commitment_claim (tenant_id, hour, cluster_id, node_uid, commitment_id, resource, units, taken, amount_nano) VALUES ($1, $2, $3, 'c0', $4, 'machine', $5, 0, 59999997)`,
				a.tenant.ID, at, a.south, plan, 1000*1_200_000)
		}
	}
	for cluster, h := range hours {
		err := a.db.Tenant(context.Background(), a.tenant.ID, func(tx *store.Tx) error { return store.SaveCosting(context.Background(), tx, cluster, h) })
		if err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func nilTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// raw reads an answer that is not JSON.
func (a *accounts) raw(path string) (status int, header http.Header, body []byte) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, a.url+path, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+a.viewer)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if body, err = io.ReadAll(resp.Body); err != nil {
		a.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, body
}

// The export through the door breaks no rule and adds up to the ledger, and so do its days.
func TestFocusExportThroughTheDoor(t *testing.T) {
	t.Parallel()
	a := openAccounts(t)
	span := func(from, to time.Time) string {
		return "/api/v1/exports/focus?from=" + from.Format(time.RFC3339) + "&to=" + to.Format(time.RFC3339)
	}
	status, header, body := a.raw(span(accountsFrom, accountsTo))
	if status != 200 || header.Get("Content-Type") != "text/csv; charset=utf-8; header=present" || header.Get("Plimsoll-Open-Hours") != "2" ||
		header.Get("Plimsoll-Unpriced-Node-Seconds") != fmt.Sprint(72*3600) || header.Get("Plimsoll-Ledger-Total") != a.total.String() {
		t.Fatalf("%d %v %.300s", status, header, body)
	}
	report, err := focus.Check(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		t.Errorf("line %d, %d times: %s: %s", f.Line, f.Count, f.Rule.ID, f.Detail)
	}
	if want := fmt.Sprintf("%d.%09d", a.total/fleet.NanosPerUnit, a.total%fleet.NanosPerUnit); report.Effect != want {
		t.Errorf("EffectiveCost %s, ledger %s", report.Effect, want)
	}
	var days fleet.Money
	kinds, committed, bought := map[string]int{}, fleet.Money(0), fleet.Money(0)
	for at := accountsFrom; at.Before(accountsTo); at = at.AddDate(0, 0, 1) {
		_, _, body := a.raw(span(at, at.AddDate(0, 0, 1)))
		in, err := focus.NewReader(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for row, err := in.Read(); !errors.Is(err, io.EOF); row, err = in.Read() {
			if err != nil {
				t.Fatal(err)
			}
			m, err := fleet.ParseMoney(row[focus.EffectiveCost])
			if err != nil {
				t.Fatal(err)
			}
			days += m
			kinds[row[focus.XCostKind]]++
			if row[focus.CommitmentDiscountID] == "sp-1" {
				committed += m
			}
			if row[focus.ChargeCategory] == "Purchase" {
				fee, err := fleet.ParseMoney(row[focus.BilledCost])
				if err != nil {
					t.Fatal(err)
				}
				bought += fee
			}
		}
	}
	if days != a.total {
		t.Errorf("the days add up to %s, the ledger to %s", days, a.total)
	}
	if want := fleet.Money(71 * 100_000_000); committed != want || bought != want {
		t.Errorf("used and unused of the plan %s, purchases %s, bought %s", committed, bought, want)
	}
	for _, k := range []string{"workload", "idle", "overhead", "residual", "commitment_unused"} {
		if kinds[k] == 0 {
			t.Errorf("no row of kind %s in %v", k, kinds)
		}
	}
	t.Logf("%d rules over %d rows, %d split charges, EffectiveCost %s", report.Rules, report.Rows, report.Origins, report.Effect)
	for _, bad := range []string{"?from=2026-03-01T00:30:00Z&to=2026-03-02T00:00:00Z", "?from=2026-03-02T00:00:00Z&to=2026-03-01T00:00:00Z", "?from=2020-03-02T00:00:00Z&to=2026-03-01T00:00:00Z", "?from=2026-03-01T00:00:00Z",
		"?from=2026-03-01T00:00:00Z&to=2026-03-02T00:00:00Z&format=xml"} {
		if status, _, body := a.raw("/api/v1/exports/focus" + bad); status != 422 {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
	a.call("GET", span(accountsFrom, accountsTo), nil).want(t, 401)
	other, _ := a.newTenant("Other", "other@harbour.test")
	a.viewer = a.key(other.ID, auth.RoleViewer)
	if _, _, body := a.raw(span(accountsFrom, accountsTo)); bytes.Count(body, []byte("\n")) != 1 {
		t.Errorf("another tenant sees %.300s", body)
	}
}

// Parquet holds what the CSV holds, row for row.
func TestFocusExportAsParquet(t *testing.T) {
	t.Parallel()
	a := openAccounts(t)
	path := "/api/v1/exports/focus?from=" + accountsFrom.Format(time.RFC3339) + "&to=" + accountsTo.Format(time.RFC3339)
	_, _, asCSV := a.raw(path)
	status, header, file := a.raw(path + "&format=parquet")
	if status != 200 || header.Get("Content-Type") != "application/vnd.apache.parquet" || header.Get("Plimsoll-Ledger-Total") != a.total.String() {
		t.Fatalf("%d %v", status, header)
	}
	var back bytes.Buffer
	w := csv.NewWriter(&back)
	if err := focus.ReadParquet(bytes.NewReader(file), int64(len(file)), w.Write, w.Write); err != nil {
		t.Fatal(err)
	}
	w.Flush()
	want, err := focus.Check(bytes.NewReader(asCSV))
	if err != nil {
		t.Fatal(err)
	}
	got, err := focus.Check(&back)
	if err != nil {
		t.Fatal(err)
	}
	if !got.OK() || got.Rows != want.Rows || got.Effect != want.Effect || got.Billed != want.Billed || got.Listed != want.Listed {
		t.Errorf("Parquet %d rows of %s, CSV %d of %s; %+v", got.Rows, got.Effect, want.Rows, want.Effect, got.Findings)
	}
}
