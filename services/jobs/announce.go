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

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/notify"
	"plimsoll.dev/services/store"
)

// AnnounceArgs asks to tell of every alert that nobody was told of.
type AnnounceArgs struct{}

// Kind implements river.JobArgs.
func (AnnounceArgs) Kind() string { return "announce" }

// InsertOpts implements river.JobArgsWithInsertOpts: one waits or runs at a time.
func (AnnounceArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueDeliver, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 1}
}

const (
	announceEvery = 10 * time.Second
	announceMost  = 500 // events of one tenant in one transaction
	keepEvents    = 90 * 24 * time.Hour
)

// Announce looks over all tenants for changes of alerts that were not told: those that costing opens are told at once, all others here.
type Announce struct {
	river.WorkerDefaults[AnnounceArgs]
	DB        *store.DB
	PublicURL string
	Log       *slog.Logger
}

// Timeout of one run over all tenants.
func (*Announce) Timeout(*river.Job[AnnounceArgs]) time.Duration { return 2 * time.Minute }

// Work implements river.Worker.
func (w *Announce) Work(ctx context.Context, _ *river.Job[AnnounceArgs]) error {
	return eachTenant(ctx, w.DB, func(tx *store.Tx) error {
		deliveries, err := announce(ctx, tx, w.PublicURL, w.Log)
		if err != nil {
			return err
		}
		if err := store.PruneAlertEvents(ctx, tx, tx.Now.Add(-keepEvents), announceMost); err != nil {
			return err
		}
		return deliverAll(ctx, tx, deliveries)
	})
}

// deliverAll queues deliveries in the transaction that made them.
func deliverAll(ctx context.Context, tx *store.Tx, deliveries []string) error {
	if len(deliveries) == 0 {
		return nil
	}
	client := river.ClientFromContext[pgx.Tx](ctx)
	for _, id := range deliveries {
		if _, err := client.InsertTx(ctx, tx.PGX(), DeliverArgs{Tenant: tx.Tenant, Delivery: id}, nil); err != nil {
			return fmt.Errorf("queue delivery: %w", err)
		}
	}
	return nil
}

// openAlert opens an alert unless it is open, and tells live views when it is new.
func openAlert(ctx context.Context, tx *store.Tx, log *slog.Logger, kind, subject string, severity store.Severity, at time.Time, detail any) error {
	a, opened, err := store.OpenAlert(ctx, tx, kind, subject, severity, at, detail)
	if err != nil || !opened {
		return err
	}
	log.InfoContext(ctx, "alert opened", "tenant", tx.Tenant, "kind", kind, "subject", subject)
	return store.Notify(ctx, tx, store.EventAlert, "", a.ID)
}

// resolveAlert ends an alert if it is open, and tells live views.
func resolveAlert(ctx context.Context, tx *store.Tx, log *slog.Logger, kind, subject string, at time.Time) error {
	a, resolved, err := store.ResolveAlert(ctx, tx, kind, subject, at)
	if err != nil || !resolved {
		return err
	}
	log.InfoContext(ctx, "alert resolved", "tenant", tx.Tenant, "kind", kind, "subject", subject)
	return store.Notify(ctx, tx, store.EventAlert, "", a.ID)
}

// event is the body of a webhook.
type event struct {
	ID    string     `json:"id"`    // Plimsoll-Event-Id: the same in every channel and every repetition
	Event string     `json:"event"` // alert.opened, alert.resolved
	At    time.Time  `json:"at"`    // our clock
	Alert alertEvent `json:"alert"`
	Link  string     `json:"link,omitempty"`
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

// announcer tells the channels of one tenant.
type announcer struct {
	tx       *store.Tx
	public   string
	routes   []store.Route
	silences []store.Silence
	channels map[string]store.Webhook
	budgets  map[string]string // "budget/<id>" -> channel
}

// announce records a delivery for every channel that is to be told of a change of an alert, once per change. What a silence holds waits: it
// is told when the silence ends and the alert is open still, and never when it is over by then.
func announce(ctx context.Context, tx *store.Tx, publicURL string, log *slog.Logger) (deliveries []string, err error) {
	events, err := store.UntoldAlertEvents(ctx, tx, announceMost)
	if err != nil || len(events) == 0 {
		return nil, err
	}
	a, err := newAnnouncer(ctx, tx, publicURL)
	if err != nil {
		return nil, err
	}
	silenced := map[string]bool{} // alerts whose opening is silenced in this run
	for _, e := range events {
		switch silence := a.silence(e); {
		case e.Event == store.EventOpened && e.State == store.EventSilenced && e.Alert.ResolvedAt != nil:
			err = store.SettleAlertEvent(ctx, tx, e.ID, store.EventDropped, silence, 0)
		case e.Event == store.EventOpened && silence != "":
			silenced[e.Alert.ID] = true
			if e.State == store.EventPending {
				log.InfoContext(ctx, "alert silenced", "tenant", tx.Tenant, "kind", e.Alert.Kind, "subject", e.Alert.Subject, "silence", silence)
			}
			err = store.SettleAlertEvent(ctx, tx, e.ID, store.EventSilenced, silence, 0)
		case e.Event == store.EventResolved && (silenced[e.Alert.ID] || e.Opening == store.EventSilenced || e.Opening == store.EventDropped):
			if err = store.DropOpening(ctx, tx, e.Alert.ID); err == nil {
				err = store.SettleAlertEvent(ctx, tx, e.ID, store.EventDropped, "", 0)
			}
		default:
			var told []string
			if told, err = a.tell(ctx, e); err == nil {
				deliveries = append(deliveries, told...)
				err = store.SettleAlertEvent(ctx, tx, e.ID, store.EventTold, "", len(told))
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return deliveries, nil
}

func newAnnouncer(ctx context.Context, tx *store.Tx, publicURL string) (*announcer, error) {
	a := &announcer{tx: tx, public: publicURL, channels: map[string]store.Webhook{}, budgets: map[string]string{}}
	var err error
	if a.routes, err = store.Routes(ctx, tx); err != nil {
		return nil, err
	}
	const mostSilences = 1000
	if a.silences, err = store.Silences(ctx, tx, false, mostSilences); err != nil {
		return nil, err
	}
	hooks, err := store.Webhooks(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, h := range hooks {
		a.channels[h.ID] = h
	}
	budgets, err := store.Budgets(ctx, tx)
	for _, b := range budgets {
		a.budgets[subjectOf(b)] = b.Webhook
	}
	return a, err
}

// silence that holds an event, by our clock; empty: none.
func (a *announcer) silence(e store.AlertEvent) string {
	for _, s := range a.silences {
		if s.Holds(e.Alert, a.tx.Now) {
			return s.ID
		}
	}
	return ""
}

// tell records one delivery per channel: those of the routes that fit, and the one that the budget itself names.
func (a *announcer) tell(ctx context.Context, e store.AlertEvent) (deliveries []string, err error) {
	told := map[string]bool{"": true}
	if own := "channel/"; e.Alert.Kind == AlertDelivery {
		told[strings.TrimPrefix(e.Alert.Subject, own)] = true // a channel is not told of its own failure
	}
	send := func(channel string) error {
		hook, ok := a.channels[channel]
		if told[channel] || !ok {
			return nil
		}
		told[channel] = true
		id, err := a.record(ctx, hook, e)
		deliveries = append(deliveries, id)
		return err
	}
	parts := strings.SplitN(e.Alert.Subject, "/", 3)
	if err := send(a.budgets[strings.Join(parts[:min(2, len(parts))], "/")]); err != nil {
		return nil, err
	}
	for _, r := range a.routes {
		if r.Fits(e.Event, e.Alert) {
			if err := send(r.Channel); err != nil {
				return nil, err
			}
		}
	}
	return deliveries, nil
}

// record writes the delivery of an event to a channel, with its body as the channel's kind has it.
func (a *announcer) record(ctx context.Context, hook store.Webhook, e store.AlertEvent) (string, error) {
	link := ""
	if a.public != "" {
		link = a.public + "/alerts"
		if about, id, _ := strings.Cut(e.Alert.Subject, "/"); about == "service" {
			id, _, _ = strings.Cut(id, "/")
			link = a.public + "/services/" + id
		}
	}
	var body []byte
	var err error
	if hook.Kind == store.ChannelWebhook {
		al := e.Alert
		body, err = json.Marshal(event{ID: e.ID, Event: e.Event, At: a.tx.Now, Link: link, Alert: alertEvent{ID: al.ID, Kind: al.Kind, Subject: al.Subject, Severity: al.Severity,
			OpenedAt: al.OpenedAt.UTC(), ResolvedAt: al.ResolvedAt, Detail: al.Detail}})
	} else {
		n := notify.Notice{Event: e.Event, ID: e.ID, Alert: e.Alert.ID, Kind: e.Alert.Kind, Subject: e.Alert.Subject, Severity: string(e.Alert.Severity), At: a.tx.Now,
			OpenedAt: e.Alert.OpenedAt, ResolvedAt: e.Alert.ResolvedAt, Link: link}
		_ = json.Unmarshal(e.Alert.Detail, &n.Detail) // a detail of another shape is left out
		if e.Event == store.EventOpened {
			n.ResolvedAt = nil
		}
		body, err = Render(hook, n)
	}
	if err != nil {
		return "", fmt.Errorf("encode event: %w", err)
	}
	return store.InsertDelivery(ctx, a.tx, store.Delivery{Webhook: hook.ID, Alert: e.Alert.ID, EventID: e.ID, Event: e.Event, Payload: string(body)})
}

// Render makes the body that a channel's kind has for a notice. A webhook's notice is its fields.
func Render(hook store.Webhook, n notify.Notice) ([]byte, error) {
	lang := notify.Language(hook.Language)
	switch hook.Kind {
	case store.ChannelSlack:
		return n.Slack(lang)
	case store.ChannelTeams:
		return n.Teams(lang)
	case store.ChannelEmail:
		return json.Marshal(n.Mail(lang))
	case store.ChannelPagerDuty:
		return n.PagerDuty(lang)
	case store.ChannelOpsgenie:
		return n.Opsgenie(lang)
	case store.ChannelWebhook:
		lines := make(map[string]string, len(n.Lines))
		for _, l := range n.Lines {
			lines[l.Name] = l.Value
		}
		return json.Marshal(map[string]any{"id": n.ID, "event": n.Event, "at": n.At.UTC(), "title": n.Title, "lines": lines, "link": n.Link})
	default:
		return nil, fleet.Errorf(fleet.CodeInternal, "nobody knows how to speak to a %q", hook.Kind)
	}
}
