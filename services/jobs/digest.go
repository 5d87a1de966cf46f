package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/ledger"
	"plimsoll.dev/services/notify"
	"plimsoll.dev/services/store"
)

// DigestsArgs asks to send the summaries whose hour has come.
type DigestsArgs struct{}

// Kind implements river.JobArgs.
func (DigestsArgs) Kind() string { return "digests" }

// InsertOpts implements river.JobArgsWithInsertOpts: one waits or runs at a time.
func (DigestsArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueBulk, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 1}
}

const digestsEvery = time.Minute

// Digests sends each channel that asked for it a summary of the day or the week that is over, at an hour of the tenant's zone, once.
type Digests struct {
	river.WorkerDefaults[DigestsArgs]
	DB        *store.DB
	Currency  string
	PublicURL string
	Log       *slog.Logger
}

// Timeout of one run over all tenants.
func (*Digests) Timeout(*river.Job[DigestsArgs]) time.Duration { return 5 * time.Minute }

// Work implements river.Worker.
func (w *Digests) Work(ctx context.Context, _ *river.Job[DigestsArgs]) error {
	return eachTenant(ctx, w.DB, func(tx *store.Tx) error {
		deliveries, err := w.Send(ctx, tx, tx.Now)
		if err != nil {
			return err
		}
		return deliverAll(ctx, tx, deliveries)
	})
}

// Send records the digests that are due at a time and returns their deliveries.
func (w *Digests) Send(ctx context.Context, tx *store.Tx, now time.Time) (deliveries []string, err error) {
	digests, err := store.Digests(ctx, tx)
	if err != nil || len(digests) == 0 {
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
	for _, d := range digests {
		span, err := calendar.Span(ledger.Period(d.Every), now, -1) // the period that is over
		if err != nil {
			return nil, err
		}
		if now.In(calendar.Zone).Hour() < d.Hour && now.Sub(span.To) < 24*time.Hour {
			continue // its hour has not come yet
		}
		if claimed, err := store.ClaimDigest(ctx, tx, d, span.To); err != nil || !claimed {
			if err != nil {
				return nil, err
			}
			continue
		}
		hook, err := store.LoadWebhook(ctx, tx, d.Channel)
		if err != nil {
			return nil, err
		}
		id, err := w.record(ctx, tx, hook, d, span, calendar)
		if err != nil {
			return nil, err
		}
		deliveries = append(deliveries, id)
		w.Log.InfoContext(ctx, "digest", "tenant", tx.Tenant, "channel", hook.ID, "every", d.Every)
	}
	return deliveries, nil
}

// digestWords are the names of a digest's lines.
var digestWords = map[notify.Language]map[string]string{
	notify.English: {"day": "Plimsoll: %s", "week": "Plimsoll: week from %s", "spent": "Spent", "before": "The period before", "idle": "Of it idle", "team": "Team %s", "budget": "Budget %s",
		"budgetOf": "%s of %s (%d %%), expected %s", "alerts": "Open alerts", "anomalies": "Anomalies", "none": "No costs are known for this period"},
	notify.Chinese: {"day": "Plimsoll：%s", "week": "Plimsoll：%s 起的一周", "spent": "费用", "before": "上一周期", "idle": "其中空闲", "team": "团队 %s", "budget": "预算 %s",
		"budgetOf": "%s / %s（%d %%），预计 %s", "alerts": "未恢复的告警", "anomalies": "费用异常", "none": "该周期没有费用数据"},
}

func (w *Digests) record(ctx context.Context, tx *store.Tx, hook store.Webhook, d store.Digest, span fleet.Interval, calendar ledger.Calendar) (string, error) {
	word := digestWords[notify.Language(hook.Language)]
	before, err := calendar.Span(ledger.Period(d.Every), span.From.Add(time.Hour), -1)
	if err != nil {
		return "", err
	}
	n := notify.Notice{Event: "digest", ID: uuid.Must(uuid.NewV7()).String(), At: tx.Now, Severity: string(store.SeverityInfo),
		Title: fmt.Sprintf(word[d.Every], span.From.In(calendar.Zone).Format(time.DateOnly)), Lines: []notify.Line{}}
	if w.PublicURL != "" {
		n.Link = w.PublicURL + "/cost"
	}
	line := func(name, value string) { n.Lines = append(n.Lines, notify.Line{Name: name, Value: value}) }
	total, idle, teams, err := store.SpentBetween(ctx, tx, span.From, span.To)
	if err != nil {
		return "", err
	}
	was, _, _, err := store.SpentBetween(ctx, tx, before.From, before.To)
	if err != nil {
		return "", err
	}
	if total == 0 {
		line(word["spent"], word["none"])
	} else {
		line(word["spent"], total.String()+" "+w.Currency)
		line(word["before"], was.String()+" "+w.Currency)
		line(word["idle"], idle.String()+" "+w.Currency)
	}
	const mostTeams = 5
	for _, t := range teams[:min(len(teams), mostTeams)] {
		line(fmt.Sprintf(word["team"], t.Key), t.Amount.String()+" "+w.Currency)
	}
	if err := w.standing(ctx, tx, word, line); err != nil {
		return "", err
	}
	body, err := Render(hook, n)
	if err != nil {
		return "", err
	}
	return store.InsertDelivery(ctx, tx, store.Delivery{Webhook: hook.ID, EventID: n.ID, Event: n.Event, Payload: string(body)})
}

// standing adds how budgets stand, and what is open.
func (w *Digests) standing(ctx context.Context, tx *store.Tx, word map[string]string, line func(name, value string)) error {
	budgets, err := store.Budgets(ctx, tx)
	if err != nil {
		return err
	}
	standings, err := store.BudgetStandings(ctx, tx)
	if err != nil {
		return err
	}
	const mostBudgets = 10
	for _, b := range budgets[:min(len(budgets), mostBudgets)] {
		s, ok := standings[b.ID]
		if !ok {
			continue
		}
		expected := "–"
		if s.Forecast.Known {
			expected = s.Forecast.Total.String()
		}
		line(fmt.Sprintf(word["budget"], b.Name), fmt.Sprintf(word["budgetOf"], s.Spent, b.Amount, int(100*s.Spent.Float()/b.Amount.Float()), expected))
	}
	const most = 1000
	alerts, err := store.Alerts(ctx, tx, store.AlertFilter{OnlyOpen: true, Limit: most})
	if err != nil {
		return err
	}
	anomalies, err := store.Anomalies(ctx, tx, store.AnomalyFilter{Open: true, Limit: most})
	if err != nil {
		return err
	}
	line(word["alerts"], fmt.Sprint(len(alerts)))
	line(word["anomalies"], fmt.Sprint(len(anomalies)))
	return nil
}
