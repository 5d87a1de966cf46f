package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/store"
)

// waiting are the job states in which a job that is asked for again is the same job.
var waiting = []rivertype.JobState{rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning, rivertype.JobStateRetryable, rivertype.JobStateScheduled}

// CheckBudgetsArgs asks to hold a tenant's budgets against what was spent.
type CheckBudgetsArgs struct {
	Tenant fleet.TenantID `json:"tenant" river:"unique"`
}

// Kind implements river.JobArgs.
func (CheckBudgetsArgs) Kind() string { return "check_budgets" }

// InsertOpts implements river.JobArgsWithInsertOpts. A check that already runs may have read older costs, so that asking during it
// makes another one.
func (CheckBudgetsArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueBulk, MaxAttempts: 5}
}

// CheckBudgets opens and resolves the alerts of budgets and of machines without a price, once per change of state, and queues what
// their webhooks are told in the same transaction.
type CheckBudgets struct {
	river.WorkerDefaults[CheckBudgetsArgs]
	DB       *store.DB
	Currency string // of all amounts
	Log      *slog.Logger
}

// Timeout of one check.
func (*CheckBudgets) Timeout(*river.Job[CheckBudgetsArgs]) time.Duration { return time.Minute }

// Work implements river.Worker.
func (w *CheckBudgets) Work(ctx context.Context, job *river.Job[CheckBudgetsArgs]) error {
	return w.DB.Tenant(ctx, job.Args.Tenant, func(tx *store.Tx) error {
		deliveries, err := w.Check(ctx, tx)
		if err != nil {
			return err
		}
		client := river.ClientFromContext[pgx.Tx](ctx)
		for _, id := range deliveries {
			if _, err := client.InsertTx(ctx, tx.PGX(), DeliverArgs{Tenant: tx.Tenant, Delivery: id}, nil); err != nil {
				return fmt.Errorf("queue delivery: %w", err)
			}
		}
		return nil
	})
}

// AlertBudget and AlertUnpriced are the kinds of alert that costing opens.
const (
	AlertBudget   = "budget_threshold"
	AlertUnpriced = "unknown_price"
)

// Check brings alerts in line with the costs and returns the deliveries that it recorded.
func (w *CheckBudgets) Check(ctx context.Context, tx *store.Tx) (deliveries []string, err error) {
	now, err := store.DataNow(ctx, tx)
	if err != nil {
		return nil, err
	}
	budgets, err := store.Budgets(ctx, tx)
	if err != nil {
		return nil, err
	}
	open, err := store.Alerts(ctx, tx, store.AlertFilter{OnlyOpen: true, Kind: AlertBudget, Limit: maxOpenAlerts})
	if err != nil {
		return nil, err
	}
	stale := map[string]bool{} // subjects that are open and were not seen again
	for _, a := range open {
		stale[a.Subject] = true
	}
	hooks := map[string]string{} // subject prefix -> webhook
	for _, b := range budgets {
		hooks[subjectOf(b)] = b.Webhook
		days, err := store.DailySpend(ctx, tx, b, now.AddDate(0, 0, -38), now.AddDate(0, 0, 1))
		if err != nil {
			return nil, err
		}
		outlook := ledger.Look(days, now)
		for _, c := range ledger.Crossed(b.Amount, b.Thresholds, outlook) {
			subject := fmt.Sprintf("%s/%s/%d", subjectOf(b), c.Basis, c.Percent)
			delete(stale, subject)
			a, opened, err := store.OpenAlert(ctx, tx, AlertBudget, subject, severityOf(c), now, w.budgetDetail(b, c, outlook))
			if err != nil {
				return nil, err
			}
			if opened {
				if deliveries, err = w.tell(ctx, tx, deliveries, b.Webhook, "alert.opened", a); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, a := range open {
		if !stale[a.Subject] {
			continue
		}
		resolved, ok, err := store.ResolveAlert(ctx, tx, a.Kind, a.Subject, now)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if deliveries, err = w.tell(ctx, tx, deliveries, hooks[budgetPart(a.Subject)], "alert.resolved", resolved); err != nil {
			return nil, err
		}
	}
	return deliveries, w.checkPrices(ctx, tx, now)
}

// maxOpenAlerts is more than a tenant's budgets can have open at once: 200 budgets of 10 thresholds on two bases.
const maxOpenAlerts = 4000

// checkPrices opens an alert for every cluster that had machines without a price in the last day.
func (w *CheckBudgets) checkPrices(ctx context.Context, tx *store.Tx, now time.Time) error {
	clusters, err := store.UnpricedClusters(ctx, tx, now.Add(-24*time.Hour))
	if err != nil {
		return err
	}
	for _, c := range clusters {
		subject := "cluster/" + string(c.Cluster)
		if c.Unpriced == 0 {
			a, resolved, err := store.ResolveAlert(ctx, tx, AlertUnpriced, subject, now)
			if err == nil && resolved {
				_, err = w.tell(ctx, tx, nil, "", "alert.resolved", a)
			}
			if err != nil {
				return err
			}
			continue
		}
		detail := map[string]any{"cluster_id": c.Cluster, "cluster": c.Name, "unpriced_share": float64(c.Unpriced) / float64(c.All), "instance_types": c.Types}
		a, opened, err := store.OpenAlert(ctx, tx, AlertUnpriced, subject, store.SeverityWarning, now, detail)
		if err == nil && opened {
			_, err = w.tell(ctx, tx, nil, "", "alert.opened", a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func subjectOf(b store.Budget) string { return "budget/" + string(b.ID) }

// budgetPart is the part of a subject that names the budget.
func budgetPart(subject string) string {
	parts := strings.SplitN(subject, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

func severityOf(c ledger.Crossing) store.Severity {
	if c.Basis == ledger.BasisActual && c.Percent >= 100 {
		return store.SeverityCritical
	}
	return store.SeverityWarning
}

// BudgetDetail is what a budget's alert says.
type BudgetDetail struct {
	BudgetID  fleet.BudgetID   `json:"budget_id"`
	Name      string           `json:"name"`
	Basis     ledger.Basis     `json:"basis"`
	Percent   int              `json:"percent"`
	Limit     string           `json:"limit"`
	Figure    string           `json:"figure"` // what reached the threshold
	ToDate    string           `json:"to_date"`
	Forecast  string           `json:"forecast"`
	Currency  string           `json:"currency"`
	Month     string           `json:"month"`
	Cluster   fleet.ClusterID  `json:"cluster_id,omitempty"`
	Namespace string           `json:"namespace,omitempty"`
	Team      string           `json:"team,omitempty"`
	Workload  fleet.WorkloadID `json:"workload_id,omitempty"`
}

func (w *CheckBudgets) budgetDetail(b store.Budget, c ledger.Crossing, o ledger.Outlook) BudgetDetail {
	return BudgetDetail{BudgetID: b.ID, Name: b.Name, Basis: c.Basis, Percent: c.Percent, Limit: b.Amount.String(), Figure: c.Figure.String(),
		ToDate: o.ToDate.String(), Forecast: o.Forecast.String(), Currency: w.Currency, Month: o.From.Format("2006-01"),
		Cluster: b.Cluster, Namespace: b.Namespace, Team: b.Team, Workload: b.Workload}
}

// event is the body of a webhook.
type event struct {
	Event string     `json:"event"` // alert.opened, alert.resolved
	At    time.Time  `json:"at"`    // our clock
	Alert alertEvent `json:"alert"`
}

type alertEvent struct {
	ID         string          `json:"id"`
	Kind       string          `json:"kind"`
	Subject    string          `json:"subject"`
	Severity   store.Severity  `json:"severity"`
	OpenedAt   time.Time       `json:"opened_at"`
	ResolvedAt *time.Time      `json:"resolved_at,omitempty"`
	Detail     json.RawMessage `json:"detail"`
}

// tell announces a change of an alert to live views, and records that the webhook is to be told of it: the delivery's id is added.
// Without a webhook nothing is sent.
func (w *CheckBudgets) tell(ctx context.Context, tx *store.Tx, deliveries []string, webhook, name string, a store.Alert) ([]string, error) {
	w.Log.InfoContext(ctx, name, "tenant", tx.Tenant, "kind", a.Kind, "subject", a.Subject)
	if err := store.Notify(ctx, tx, store.EventAlert, "", a.ID); err != nil {
		return nil, err
	}
	if webhook == "" {
		return deliveries, nil
	}
	body, err := json.Marshal(event{Event: name, At: tx.Now, Alert: alertEvent{ID: a.ID, Kind: a.Kind, Subject: a.Subject, Severity: a.Severity,
		OpenedAt: a.OpenedAt.UTC(), ResolvedAt: a.ResolvedAt, Detail: a.Detail}})
	if err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	id, err := store.InsertDelivery(ctx, tx, store.Delivery{Webhook: webhook, Alert: a.ID, Event: name, Payload: string(body)})
	if err != nil {
		return nil, err
	}
	return append(deliveries, id), nil
}
