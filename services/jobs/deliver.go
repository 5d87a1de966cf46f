package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/notify"
	"plimsoll.dev/services/store"
)

// DeliverArgs asks to send one webhook delivery.
type DeliverArgs struct {
	Tenant   fleet.TenantID `json:"tenant" river:"unique"`
	Delivery string         `json:"delivery" river:"unique"`
}

// Kind implements river.JobArgs.
func (DeliverArgs) Kind() string { return "deliver" }

// InsertOpts implements river.JobArgsWithInsertOpts: with River's backoff of attempt^4 seconds, ten attempts take about seven hours.
func (DeliverArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: queueDeliver, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: waiting}, MaxAttempts: 10}
}

// Opener opens sealed secrets; auth.Sealer is one.
type Opener interface {
	Open(purpose string, sealed []byte) ([]byte, error)
}

// Sender makes one attempt to deliver; notify.Sender is one.
type Sender interface {
	Send(ctx context.Context, m notify.Message) (notify.Answer, error)
}

// Mailer makes one attempt to send a mail; notify.Mailer is one.
type Mailer interface {
	Send(ctx context.Context, m notify.Mail) (status int, err error)
}

// Deliver sends deliveries to channels and keeps the log of attempts.
type Deliver struct {
	river.WorkerDefaults[DeliverArgs]
	DB      *store.DB
	Secrets Opener
	Sender  Sender
	Mailer  Mailer
	Log     *slog.Logger
}

// parcel is a delivery ready to be sent one way or the other.
type parcel struct {
	channel store.Webhook
	event   string
	web     notify.Message
	mail    *notify.Mail
}

// Timeout of one attempt, transactions included.
func (*Deliver) Timeout(*river.Job[DeliverArgs]) time.Duration { return 30 * time.Second }

// Work implements river.Worker: load, send outside any transaction, record. A crash after the send sends again, with the same event id.
func (w *Deliver) Work(ctx context.Context, job *river.Job[DeliverArgs]) error {
	p, err := w.load(ctx, job.Args)
	if err != nil {
		return err
	}
	if p == nil {
		return nil
	}
	began := time.Now()
	answer, sendErr := w.send(ctx, p)
	took := time.Since(began)
	state := outcome(answer, sendErr, job.Attempt >= job.MaxAttempts)
	err = w.DB.Tenant(ctx, job.Args.Tenant, func(tx *store.Tx) error {
		var status *int
		if answer.Status != 0 {
			status = &answer.Status
		}
		if err := store.RecordAttempt(ctx, tx, job.Args.Delivery, state, status, problem(sendErr), took); err != nil {
			return err
		}
		if state == store.DeliveryPending {
			return nil // the error below makes River try again
		}
		if err := w.judge(ctx, tx, p, state, problem(sendErr)); err != nil {
			return err
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx.PGX(), job)
		return err
	})
	if err != nil {
		return err
	}
	if state == store.DeliveryPending {
		return sendErr
	}
	w.Log.InfoContext(ctx, "delivery finished", "tenant", job.Args.Tenant, "delivery", job.Args.Delivery, "state", state, "attempt", job.Attempt)
	return nil
}

func (w *Deliver) send(ctx context.Context, p *parcel) (notify.Answer, error) {
	if p.mail == nil {
		return w.Sender.Send(ctx, p.web)
	}
	if w.Mailer == nil {
		return notify.Answer{}, fmt.Errorf("%w: this service has no mail server", notify.ErrRefused)
	}
	status, err := w.Mailer.Send(ctx, *p.mail)
	return notify.Answer{Status: status}, err
}

// AlertDelivery is the kind of alert of a channel that cannot be reached.
const AlertDelivery = "delivery_failed"

// judge opens an alert about a channel whose delivery failed for good, and resolves it once one arrives. That of a channel never goes to
// the channel itself.
func (w *Deliver) judge(ctx context.Context, tx *store.Tx, p *parcel, state, problem string) error {
	subject := "channel/" + p.channel.ID
	if state == store.DeliveryDelivered {
		return resolveAlert(ctx, tx, w.Log, AlertDelivery, subject, tx.Now)
	}
	if p.event == "test" { // whoever tests a channel looks at the answer
		return nil
	}
	return openAlert(ctx, tx, w.Log, AlertDelivery, subject, store.SeverityWarning, tx.Now, map[string]any{"name": p.channel.Name, "channel_kind": p.channel.Kind, "problem": problem})
}

// load makes the parcel of a delivery that is still pending; nil: it is not. A channel that was removed meanwhile ends its deliveries.
func (w *Deliver) load(ctx context.Context, args DeliverArgs) (p *parcel, err error) {
	err = w.DB.Tenant(ctx, args.Tenant, func(tx *store.Tx) error {
		d, err := store.LoadDelivery(ctx, tx, args.Delivery)
		if err != nil {
			return err
		}
		if d.State != store.DeliveryPending {
			return nil
		}
		hook, err := store.LoadWebhook(ctx, tx, d.Webhook)
		if store.IsNotFound(err) {
			return store.RecordAttempt(ctx, tx, d.ID, store.DeliveryFailed, nil, "the channel was removed", 0)
		}
		if err != nil {
			return err
		}
		if hook.Kind.Pager() && d.Event == store.EventOpened {
			// Its end may have been told already: an incident that opens after it would never close.
			if over, err := store.AlertOver(ctx, tx, d.Alert); err != nil || over {
				return errors.Join(err, skip(ctx, tx, d, over))
			}
		}
		p, err = w.pack(tx, hook, d)
		return err
	})
	return p, err
}

// skip ends the delivery of an opening that came too late.
func skip(ctx context.Context, tx *store.Tx, d store.Delivery, over bool) error {
	if !over {
		return nil
	}
	return store.RecordAttempt(ctx, tx, d.ID, store.DeliveryFailed, nil, "it was over before it could be told", 0)
}

// pack makes the parcel: what is signed, with which secrets, and where it goes.
func (w *Deliver) pack(tx *store.Tx, hook store.Webhook, d store.Delivery) (*parcel, error) {
	p := &parcel{channel: hook, event: d.Event, web: notify.Message{URL: hook.URL, EventID: d.EventID, Event: d.Event, Body: []byte(d.Payload), At: tx.Now}}
	if hook.Kind == store.ChannelEmail {
		to, err := notify.ParseRecipients(strings.TrimPrefix(hook.URL, "mailto:"))
		if err != nil {
			return nil, err
		}
		p.mail = &notify.Mail{To: to, ID: d.EventID, At: tx.Now}
		if err := json.Unmarshal([]byte(d.Payload), &p.mail.Letter); err != nil {
			return nil, fmt.Errorf("read letter: %w", err)
		}
		return p, nil
	}
	secret, err := w.Secrets.Open(notify.SecretPurpose(tx.Tenant, hook.ID), hook.SealedSecret)
	if err != nil {
		return nil, fmt.Errorf("open webhook secret: %w", err)
	}
	switch hook.Kind {
	case store.ChannelWebhook:
	case store.ChannelPagerDuty:
		p.web.Body, err = notify.WithRoutingKey(p.web.Body, string(secret))
		return p, err
	case store.ChannelOpsgenie:
		p.web.Authorization = "GenieKey " + string(secret)
		p.web.URL, err = notify.OpsgenieAddress(hook.URL, d.Event, p.web.Body)
		return p, err
	default: // the address is the secret
		p.web.URL = string(secret)
		return p, nil
	}
	p.web.Secret = secret
	if hook.OldUntil != nil && tx.Now.Before(*hook.OldUntil) {
		if p.web.Old, err = w.Secrets.Open(notify.SecretPurpose(tx.Tenant, hook.ID), hook.SealedOld); err != nil {
			w.Log.Warn("a webhook's old secret cannot be opened", "tenant", tx.Tenant, "channel", hook.ID, "error", err)
		}
	}
	return p, nil
}

// outcome is the state of a delivery after an attempt.
func outcome(answer notify.Answer, err error, last bool) string {
	switch {
	case err == nil:
		return store.DeliveryDelivered
	case last, errors.Is(err, notify.ErrRefused), answer.Status == http.StatusGone:
		return store.DeliveryFailed
	}
	return store.DeliveryPending
}

// problem is what the delivery log says of a failed attempt.
func problem(err error) string {
	if err == nil {
		return ""
	}
	const most = 500
	text := []rune(err.Error())
	return string(text[:min(len(text), most)])
}
