package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/store"
)

// AnomaliesArgs asks to hold every day that is over against what it should have cost.
type AnomaliesArgs struct{}

// Kind implements river.JobArgs.
func (AnomaliesArgs) Kind() string { return "find_anomalies" }

// InsertOpts implements river.JobArgsWithInsertOpts: one waits or runs at a time.
func (AnomaliesArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueBulk, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 1}
}

const (
	anomaliesEvery = 5 * time.Minute
	// anomalySettle is how long after its end a day is looked at: its last hours close until then.
	anomalySettle = 75 * time.Minute
	// anomalyBack is how many days a tenant that was never looked over is looked over at first; the days before are what it learns from.
	anomalyBack  = 14
	anomalyLearn = 42
	// anomalyLeast is what a difference must come to: this many thousandths of what the tenant costs on a usual day, or one unit of currency.
	anomalyLeastMilli = 5
	mostContributors  = 8
	mostNamed         = 12
	mostAnomalies     = 50 // of one day; the largest
)

// AlertAnomaly is the kind of alert of a day that cost other than expected.
const AlertAnomaly = "cost_anomaly"

// FindAnomalies looks over the days that are over, each once.
type FindAnomalies struct {
	river.WorkerDefaults[AnomaliesArgs]
	DB       *store.DB
	Currency string
	Log      *slog.Logger
}

// Timeout of one run over all tenants.
func (*FindAnomalies) Timeout(*river.Job[AnomaliesArgs]) time.Duration { return 10 * time.Minute }

// Work implements river.Worker.
func (w *FindAnomalies) Work(ctx context.Context, _ *river.Job[AnomaliesArgs]) error {
	return eachTenant(ctx, w.DB, func(tx *store.Tx) error { return w.Find(ctx, tx) })
}

// Find looks over the tenant's days up to its data time.
func (w *FindAnomalies) Find(ctx context.Context, tx *store.Tx) error {
	now, err := store.DataNow(ctx, tx)
	if err != nil {
		return err
	}
	last := now.Add(-anomalySettle).Truncate(24*time.Hour).AddDate(0, 0, -1) // the newest day that is over and settled
	done, err := store.AnomalyDay(ctx, tx)
	if err != nil {
		return err
	}
	first := last.AddDate(0, 0, 1-anomalyBack)
	if done != nil && !done.UTC().Before(first) {
		first = done.UTC().AddDate(0, 0, 1)
	}
	if first.After(last) {
		return nil
	}
	rows, err := store.ScopeDays(ctx, tx, first.AddDate(0, 0, -anomalyLearn), last.AddDate(0, 0, 1))
	if err != nil {
		return err
	}
	scopes := gatherScopes(rows)
	for day := first; !day.After(last); day = day.AddDate(0, 0, 1) {
		if err := w.day(ctx, tx, scopes, day, day.Equal(last)); err != nil {
			return err
		}
	}
	return store.SetAnomalyDay(ctx, tx, last)
}

// scopeDays is a scope with its days.
type scopeDays struct {
	scope, key string
	days       []ledger.Spend
}

func gatherScopes(rows []store.ScopeDay) (out []scopeDays) {
	for _, r := range rows { // by scope, key and day
		if n := len(out); n == 0 || out[n-1].scope != r.Scope || out[n-1].key != r.Key {
			out = append(out, scopeDays{scope: r.Scope, key: r.Key})
		}
		s := &out[len(out)-1]
		s.days = append(s.days, ledger.Spend{Day: r.Day.UTC(), Amount: r.Amount})
	}
	return out
}

func (s scopeDays) on(day time.Time) fleet.Money {
	for _, d := range s.days {
		if d.Day.Equal(day) {
			return d.Amount
		}
	}
	return 0
}

// day judges one day of all scopes, keeps what is odd, and when it is the newest opens and resolves alerts.
func (w *FindAnomalies) day(ctx context.Context, tx *store.Tx, scopes []scopeDays, day time.Time, newest bool) error {
	least := fleet.Money(fleet.NanosPerUnit)
	for _, s := range scopes {
		if e, ok := ledger.Expect(s.days, day); ok && s.scope == "tenant" {
			least = max(least, e.Expected.MulDiv(anomalyLeastMilli, 1000))
		}
	}
	var found []store.Anomaly
	for _, s := range scopes {
		e, ok := ledger.Expect(s.days, day)
		if !ok {
			continue
		}
		actual := s.on(day)
		direction, odd := e.Judge(actual, least)
		if !odd {
			continue
		}
		found = append(found, store.Anomaly{Scope: s.scope, Key: s.key, Day: day, Direction: direction, Actual: actual, Expected: e.Expected, Low: e.Low, High: e.High,
			Score: e.Score(actual), Days: e.Days})
	}
	slices.SortStableFunc(found, func(a, b store.Anomaly) int {
		da, db := a.Actual-a.Expected, b.Actual-b.Expected
		return int(min(max(max(db, -db)-max(da, -da), -1), 1))
	})
	subjects := map[string]bool{}
	for _, a := range found[:min(len(found), mostAnomalies)] {
		if err := w.keep(ctx, tx, a, newest, subjects); err != nil {
			return err
		}
	}
	if !newest {
		return nil
	}
	return w.settle(ctx, tx, subjects)
}

// keep explains an anomaly and writes it.
func (w *FindAnomalies) keep(ctx context.Context, tx *store.Tx, a store.Anomaly, newest bool, subjects map[string]bool) error {
	parts, workloads, err := w.contributors(ctx, tx, a)
	if err != nil {
		return err
	}
	decisions, err := store.ActedOn(ctx, tx, workloads, a.Day, a.Day.AddDate(0, 0, 1), mostNamed)
	if err != nil {
		return err
	}
	if decisions == nil {
		decisions = []store.AnomalyDecision{}
	}
	if a.Contributors, err = json.Marshal(parts); err != nil {
		return fmt.Errorf("encode contributors: %w", err)
	}
	if a.Decisions, err = json.Marshal(decisions); err != nil {
		return fmt.Errorf("encode decisions: %w", err)
	}
	id, err := store.SaveAnomaly(ctx, tx, a)
	if err != nil || !newest {
		return err
	}
	subject := "anomaly/" + a.Scope + "/" + a.Key
	subjects[subject] = true
	name := a.Key
	detail := map[string]any{"anomaly_id": id, "scope": a.Scope, "day": a.Day.Format(time.DateOnly), "direction": a.Direction, "actual": a.Actual.String(),
		"expected": a.Expected.String(), "currency": w.Currency}
	switch a.Scope {
	case "team":
		detail["team"] = a.Key
	case "cluster", "workload":
		names, err := namesOf(ctx, tx, a.Scope, a.Key)
		if err != nil {
			return err
		}
		name = names
		detail[a.Scope+"_id"] = a.Key
	}
	detail["name"] = name
	if len(parts) > 0 {
		detail["largest"] = parts[0].Name
	}
	return openAlert(ctx, tx, w.Log, AlertAnomaly, subject, store.SeverityWarning, a.Day.AddDate(0, 0, 1), detail)
}

func namesOf(ctx context.Context, tx *store.Tx, scope, id string) (string, error) {
	find := store.WorkloadKeys
	if scope == "cluster" {
		find = store.ClusterNames
	}
	names, err := find(ctx, tx, []string{id})
	if names[id] == "" {
		return id, err
	}
	return names[id], err
}

// contributors says which workloads make the difference, and by what: price, quantity or mix, against the mean of up to four of the same
// day of the week before. workloads are their ids.
func (w *FindAnomalies) contributors(ctx context.Context, tx *store.Tx, a store.Anomaly) (parts []store.AnomalyPart, workloads []string, err error) {
	const weeks = 4
	var days []time.Time
	for i := range weeks {
		days = append(days, a.Day.AddDate(0, 0, -7*(i+1)))
	}
	after, err := store.ScopeCells(ctx, tx, a.Scope, a.Key, []time.Time{a.Day})
	if err != nil {
		return nil, nil, err
	}
	before, err := store.ScopeCells(ctx, tx, a.Scope, a.Key, days)
	if err != nil {
		return nil, nil, err
	}
	n := int64(min(weeks, max(a.Days/7, 1))) // of those days that were there
	for i := range before {
		before[i].Amount, before[i].Quantity = before[i].Amount.MulDiv(1, n), before[i].Quantity/float64(n)
	}
	changes := ledger.Compare(before, after)
	parts = []store.AnomalyPart{}
	for _, c := range changes {
		delta := c.After - c.Before
		if delta == 0 || len(parts) >= mostContributors || (delta > 0) != (a.Direction == ledger.DirectionUp) {
			continue
		}
		p := store.AnomalyPart{Name: c.Group, Delta: delta.String(), Price: c.Price.String(), Quantity: c.Quantity.String(), Mix: c.Mix.String()}
		if uuid.Validate(c.Group) == nil {
			p.Workload = fleet.WorkloadID(c.Group)
			workloads = append(workloads, c.Group)
		}
		parts = append(parts, p)
	}
	keys, err := store.WorkloadKeys(ctx, tx, workloads)
	for i := range parts {
		if key := keys[parts[i].Name]; key != "" {
			parts[i].Name = key
		}
	}
	return parts, workloads, err
}

// settle resolves the alerts of scopes whose newest day is as expected again.
func (w *FindAnomalies) settle(ctx context.Context, tx *store.Tx, odd map[string]bool) error {
	open, err := store.Alerts(ctx, tx, store.AlertFilter{OnlyOpen: true, Kind: AlertAnomaly, Limit: maxOpenAlerts})
	if err != nil {
		return err
	}
	for _, a := range open {
		if strings.HasPrefix(a.Subject, "anomaly/") && !odd[a.Subject] {
			if err := resolveAlert(ctx, tx, w.Log, AlertAnomaly, a.Subject, tx.Now); err != nil {
				return err
			}
		}
	}
	return nil
}
