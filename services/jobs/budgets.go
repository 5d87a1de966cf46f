package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
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

// InsertOpts implements river.JobArgsWithInsertOpts. Not unique: who changes a budget and asks in the same transaction waits for no check,
// which may wait for the budget.
func (CheckBudgetsArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueBulk, MaxAttempts: 5}
}

// oneCheck per tenant waits or runs of those that are asked for so. Asking waits for a check that is ending, so that whoever does it must hold
// nothing that the check needs.
func oneCheck() *river.InsertOpts {
	return &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}}
}

// checkBudgetsOnce asks for a check of all clusters of the tenant, unless one waits that will see what was committed until now.
func checkBudgetsOnce(ctx context.Context, tx *store.Tx) error {
	if _, err := river.ClientFromContext[pgx.Tx](ctx).InsertTx(ctx, tx.PGX(), CheckBudgetsArgs{Tenant: tx.Tenant}, oneCheck()); err != nil {
		return fmt.Errorf("ask for a check of budgets: %w", err)
	}
	return nil
}

// CheckBudgets opens and resolves the alerts of budgets, of their breakers and of machines without a price, once per change of state, and
// tells of them in the same transaction.
type CheckBudgets struct {
	river.WorkerDefaults[CheckBudgetsArgs]
	DB        *store.DB
	Currency  string // of all amounts
	PublicURL string // of the dashboard, for links; empty: none
	Log       *slog.Logger
}

// Timeout of one check.
func (*CheckBudgets) Timeout(*river.Job[CheckBudgetsArgs]) time.Duration { return 2 * time.Minute }

// Work implements river.Worker. The job ends in the transaction of the check and before it looks: whoever asked until then has costs that
// the check sees, and whoever asks from then on waits for its end and makes another job. No change of costs is left to the next tick.
func (w *CheckBudgets) Work(ctx context.Context, job *river.Job[CheckBudgetsArgs]) error {
	return w.DB.Tenant(ctx, job.Args.Tenant, func(tx *store.Tx) error {
		if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx.PGX(), job); err != nil {
			return fmt.Errorf("end the check with its transaction: %w", err)
		}
		deliveries, err := w.Check(ctx, tx)
		if err != nil {
			return err
		}
		return deliverAll(ctx, tx, deliveries)
	})
}

// Kinds of alert that costing opens.
const (
	AlertBudget   = "budget_threshold"
	AlertUnpriced = "unknown_price"
	AlertBreaker  = "spend_breaker"
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
	counting, err := store.LoadCounting(ctx, tx)
	if err != nil {
		return nil, err
	}
	calendar, err := counting.Calendar()
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
	for _, b := range budgets {
		standing, err := store.StandBudget(ctx, tx, b, calendar, now)
		if err != nil {
			return nil, err
		}
		for _, c := range standing.Crossed(b) {
			subject := fmt.Sprintf("%s/%s/%d", subjectOf(b), c.Basis, c.Percent)
			delete(stale, subject)
			if err := w.open(ctx, tx, AlertBudget, subject, severityOf(c), now, w.budgetDetail(b, c, standing)); err != nil {
				return nil, err
			}
		}
		if err := w.checkBreaker(ctx, tx, b, now); err != nil {
			return nil, err
		}
	}
	for subject := range stale {
		if err := w.resolve(ctx, tx, AlertBudget, subject, now); err != nil {
			return nil, err
		}
	}
	if err := w.forgetBreakers(ctx, tx, budgets, now); err != nil {
		return nil, err
	}
	if err := w.checkPrices(ctx, tx, now); err != nil {
		return nil, err
	}
	return announce(ctx, tx, w.PublicURL, w.Log)
}

// maxOpenAlerts is more than a tenant's budgets can have open at once: 200 budgets of 10 thresholds on two bases.
const maxOpenAlerts = 4000

// open opens an alert and tells live views.
func (w *CheckBudgets) open(ctx context.Context, tx *store.Tx, kind, subject string, severity store.Severity, at time.Time, detail any) error {
	return openAlert(ctx, tx, w.Log, kind, subject, severity, at, detail)
}

func (w *CheckBudgets) resolve(ctx context.Context, tx *store.Tx, kind, subject string, at time.Time) error {
	return resolveAlert(ctx, tx, w.Log, kind, subject, at)
}

// checkBreaker resolves the alert of a breaker that is closed again: reset by hand, or its time is over.
func (w *CheckBudgets) checkBreaker(ctx context.Context, tx *store.Tx, b store.Budget, now time.Time) error {
	if b.Tripped(now) {
		return nil
	}
	return w.resolve(ctx, tx, AlertBreaker, subjectOf(b), now)
}

// forgetBreakers resolves the alerts of breakers whose budget was deleted.
func (w *CheckBudgets) forgetBreakers(ctx context.Context, tx *store.Tx, budgets []store.Budget, now time.Time) error {
	open, err := store.Alerts(ctx, tx, store.AlertFilter{OnlyOpen: true, Kind: AlertBreaker, Limit: maxOpenAlerts})
	if err != nil {
		return err
	}
	for _, a := range open {
		if !slices.ContainsFunc(budgets, func(b store.Budget) bool { return subjectOf(b) == a.Subject }) {
			if err := w.resolve(ctx, tx, AlertBreaker, a.Subject, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkPrices opens an alert for every cluster that had machines without a price in the last day.
func (w *CheckBudgets) checkPrices(ctx context.Context, tx *store.Tx, now time.Time) error {
	clusters, err := store.UnpricedClusters(ctx, tx, now.Add(-24*time.Hour))
	if err != nil {
		return err
	}
	for _, c := range clusters {
		subject := "cluster/" + string(c.Cluster)
		if c.Unpriced == 0 {
			err = w.resolve(ctx, tx, AlertUnpriced, subject, now)
		} else {
			detail := map[string]any{"cluster_id": c.Cluster, "cluster": c.Name, "unpriced_share": float64(c.Unpriced) / float64(c.All), "instance_types": c.Types}
			err = w.open(ctx, tx, AlertUnpriced, subject, store.SeverityWarning, now, detail)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func subjectOf(b store.Budget) string { return "budget/" + string(b.ID) }

func severityOf(c ledger.Crossing) store.Severity {
	if c.Basis == ledger.BasisActual && c.Percent >= 100 {
		return store.SeverityCritical
	}
	return store.SeverityWarning
}

// BudgetDetail is what a budget's alert says.
type BudgetDetail struct {
	BudgetID fleet.BudgetID `json:"budget_id"`
	Name     string         `json:"name"`
	Basis    ledger.Basis   `json:"basis"`
	Percent  int            `json:"percent"`
	Limit    string         `json:"limit"`
	Figure   string         `json:"figure"` // what reached the threshold
	ToDate   string         `json:"to_date"`
	Forecast string         `json:"forecast"`
	Currency string         `json:"currency"`
	Month    string         `json:"month"` // in which the period begins
	Period   ledger.Period  `json:"period"`
	From     time.Time      `json:"period_start"`
	To       time.Time      `json:"period_end"`
	// ForecastLow and ForecastHigh hold eight of ten ends of the back-test; empty: no band is known.
	ForecastLow  string           `json:"forecast_low,omitempty"`
	ForecastHigh string           `json:"forecast_high,omitempty"`
	Enforced     bool             `json:"enforced,omitempty"`
	Cluster      fleet.ClusterID  `json:"cluster_id,omitempty"`
	Namespace    string           `json:"namespace,omitempty"`
	Team         string           `json:"team,omitempty"`
	Workload     fleet.WorkloadID `json:"workload_id,omitempty"`
}

func (w *CheckBudgets) budgetDetail(b store.Budget, c ledger.Crossing, s store.BudgetStanding) BudgetDetail {
	d := BudgetDetail{BudgetID: b.ID, Name: b.Name, Basis: c.Basis, Percent: c.Percent, Limit: b.Amount.String(), Figure: c.Figure.String(),
		ToDate: s.Spent.String(), Forecast: s.Forecast.Total.String(), Currency: w.Currency, Month: s.From.Format("2006-01"), Period: b.Period, From: s.From, To: s.To,
		Cluster: b.Cluster, Namespace: b.Namespace, Team: b.Team, Workload: b.Workload, Enforced: b.Enforced}
	if s.Forecast.HasBand {
		d.ForecastLow, d.ForecastHigh = s.Forecast.Low.String(), s.Forecast.High.String()
	}
	return d
}
