package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
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

// Deliver sends webhook deliveries and keeps the log of attempts.
type Deliver struct {
	river.WorkerDefaults[DeliverArgs]
	DB      *store.DB
	Secrets Opener
	Sender  Sender
	Log     *slog.Logger
}

// Timeout of one attempt, transactions included.
func (*Deliver) Timeout(*river.Job[DeliverArgs]) time.Duration { return 30 * time.Second }

// Work implements river.Worker: load, send outside any transaction, record. A crash after the send sends again, with the same event id.
func (w *Deliver) Work(ctx context.Context, job *river.Job[DeliverArgs]) error {
	m, pending, err := w.load(ctx, job.Args)
	if err != nil {
		return err
	}
	if !pending {
		return nil
	}
	answer, sendErr := w.Sender.Send(ctx, m)
	state := outcome(answer, sendErr, job.Attempt >= job.MaxAttempts)
	err = w.DB.Tenant(ctx, job.Args.Tenant, func(tx *store.Tx) error {
		var status *int
		if answer.Status != 0 {
			status = &answer.Status
		}
		if err := store.RecordAttempt(ctx, tx, job.Args.Delivery, state, status, problem(sendErr)); err != nil {
			return err
		}
		if state == store.DeliveryPending {
			return nil // the error below makes River try again
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

// load makes the message of a delivery that is still pending. A webhook that was removed meanwhile ends its deliveries.
func (w *Deliver) load(ctx context.Context, args DeliverArgs) (m notify.Message, pending bool, err error) {
	err = w.DB.Tenant(ctx, args.Tenant, func(tx *store.Tx) error {
		d, err := store.LoadDelivery(ctx, tx, args.Delivery)
		if err != nil {
			return err
		}
		if d.State != store.DeliveryPending {
			return nil
		}
		hook, err := store.LoadWebhook(ctx, tx, d.Webhook)
		var coded *fleet.Error
		if errors.As(err, &coded) && coded.Code == fleet.CodeNotFound {
			return store.RecordAttempt(ctx, tx, d.ID, store.DeliveryFailed, nil, "the webhook was removed")
		}
		if err != nil {
			return err
		}
		secret, err := w.Secrets.Open(notify.SecretPurpose(args.Tenant, hook.ID), hook.SealedSecret)
		if err != nil {
			return fmt.Errorf("open webhook secret: %w", err)
		}
		pending = true
		m = notify.Message{URL: hook.URL, Secret: secret, EventID: d.EventID, Event: d.Event, Body: []byte(d.Payload), At: tx.Now}
		return nil
	})
	return m, pending, err
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
