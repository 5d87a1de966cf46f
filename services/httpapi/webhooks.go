package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/notify"
	"plimsoll.dev/services/store"
)

// Webhook is an address that events are sent to, signed with a secret that was shown once.
type Webhook struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	URL       string    `json:"url"`
	CreatedAt time.Time `json:"created_at"`
}

// NewWebhook is a webhook just made.
type NewWebhook struct {
	Webhook
	Secret string `json:"secret" doc:"shown only now; the whole text is the key of the HMAC-SHA256 over \"<t>.<body>\" in header Plimsoll-Signature: t=<unix seconds>,v1=<hex>"`
}

// Delivery is one sending of an event to a webhook, with all its attempts.
type Delivery struct {
	ID         string          `json:"id"`
	Webhook    string          `json:"webhook_id"`
	Alert      string          `json:"alert_id,omitempty"`
	EventID    string          `json:"event_id" doc:"header Plimsoll-Event-Id; a redelivery has the same one"`
	Event      string          `json:"event" doc:"alert.opened, alert.resolved or test"`
	Payload    json.RawMessage `json:"payload"`
	State      string          `json:"state" enum:"pending,delivered,failed"`
	Attempts   int             `json:"attempts"`
	LastStatus *int            `json:"last_status" doc:"HTTP status of the newest attempt; null: no answer"`
	LastError  string          `json:"last_error,omitempty"`
	CreatedAt  time.Time       `json:"created_at"`
	FinishedAt *time.Time      `json:"finished_at"`
}

// AddressChecker says whether a webhook's address may be used; notify.Sender is one.
type AddressChecker interface {
	Check(rawURL string) error
}

// WebhookPath names a webhook. Exported because huma passes over embedded types that are not.
type WebhookPath struct {
	ID string `path:"id" format:"uuid"`
}

type deliveryAnswer struct{ Body Delivery }

const maxWebhooks = 50

func (s *Server) registerWebhooks() {
	tags := []string{"webhooks"}
	op(s, huma.Operation{OperationID: "list-webhooks", Method: http.MethodGet, Path: "/api/v1/webhooks", Summary: "List webhooks", Tags: tags},
		auth.RoleViewer, s.listWebhooks)
	op(s, huma.Operation{OperationID: "create-webhook", Method: http.MethodPost, Path: "/api/v1/webhooks", Summary: "Create a webhook; the answer shows its secret once", Tags: tags, DefaultStatus: http.StatusCreated, Errors: []int{409, 422}},
		auth.RoleFinance, s.createWebhook)
	op(s, huma.Operation{OperationID: "delete-webhook", Method: http.MethodDelete, Path: "/api/v1/webhooks/{id}", Summary: "Remove a webhook", Tags: tags, DefaultStatus: http.StatusNoContent, Errors: []int{404}},
		auth.RoleFinance, s.deleteWebhook)
	op(s, huma.Operation{OperationID: "test-webhook", Method: http.MethodPost, Path: "/api/v1/webhooks/{id}/test", Summary: "Send a test event", Tags: tags, DefaultStatus: http.StatusAccepted, Errors: []int{404}},
		auth.RoleFinance, s.testWebhook)
	op(s, huma.Operation{OperationID: "list-webhook-deliveries", Method: http.MethodGet, Path: "/api/v1/webhooks/{id}/deliveries", Summary: "Delivery log, newest first", Tags: tags},
		auth.RoleViewer, s.listDeliveries)
	op(s, huma.Operation{OperationID: "redeliver-webhook", Method: http.MethodPost, Path: "/api/v1/webhooks/{id}/deliveries/{delivery}/redeliver", Summary: "Send an event again", Tags: tags, DefaultStatus: http.StatusAccepted, Errors: []int{404}},
		auth.RoleFinance, s.redeliver)
	s.registerChannels()
}

func (s *Server) listWebhooks(ctx context.Context, p auth.Principal, _ *struct{}) (*struct {
	Body struct {
		Items []Webhook `json:"items"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items []Webhook `json:"items"`
		}
	}{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		hooks, err := store.Webhooks(ctx, tx)
		out.Body.Items = make([]Webhook, 0, len(hooks))
		for _, h := range hooks {
			if h.Kind != store.ChannelWebhook {
				continue
			}
			out.Body.Items = append(out.Body.Items, Webhook{ID: h.ID, Name: h.Name, URL: h.URL, CreatedAt: h.CreatedAt.UTC()})
		}
		return err
	})
	return out, err
}

func (s *Server) createWebhook(ctx context.Context, p auth.Principal, in *struct {
	Body struct {
		Name string `json:"name" minLength:"1" maxLength:"100"`
		URL  string `json:"url" minLength:"1" maxLength:"2000" doc:"https; addresses in private networks are refused unless the operator allows them"`
	}
}) (*struct{ Body NewWebhook }, error) {
	if err := s.webhookAddress(in.Body.URL); err != nil {
		return nil, err
	}
	secret, id := notify.NewSecret(), uuid.Must(uuid.NewV7()).String()
	hook := store.Webhook{ID: id, Name: in.Body.Name, URL: in.Body.URL, SealedSecret: s.deps.Sealer.Seal(notify.SecretPurpose(p.Tenant, id), []byte(secret))}
	out := &struct{ Body NewWebhook }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		all, err := store.Webhooks(ctx, tx)
		if err != nil {
			return err
		}
		if len(all) >= maxWebhooks {
			return fleet.Errorf(fleet.CodeConflict, "a tenant has at most %d webhooks", maxWebhooks)
		}
		if err := store.InsertWebhook(ctx, tx, hook); err != nil {
			return err
		}
		out.Body = NewWebhook{Webhook: Webhook{ID: id, Name: hook.Name, URL: hook.URL, CreatedAt: tx.Now}, Secret: secret}
		return store.Audit(ctx, tx, p.Actor(), "webhook.create", "webhook/"+id, map[string]string{"name": hook.Name})
	})
	return out, err
}

func (s *Server) webhookAddress(rawURL string) error {
	if s.deps.Addresses != nil {
		return s.deps.Addresses.Check(rawURL)
	}
	return notify.New(notify.Config{}).Check(rawURL)
}

func (s *Server) deleteWebhook(ctx context.Context, p auth.Principal, in *WebhookPath) (*struct{}, error) {
	return nil, s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.DisableWebhook(ctx, tx, in.ID); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "webhook.delete", "webhook/"+in.ID, nil)
	})
}

func (s *Server) testWebhook(ctx context.Context, p auth.Principal, in *WebhookPath) (*deliveryAnswer, error) {
	return s.send(ctx, p, func(tx *store.Tx) (store.Delivery, error) {
		hook, err := store.LoadWebhook(ctx, tx, in.ID)
		if err != nil {
			return store.Delivery{}, err
		}
		body, err := testPayload(hook, tx.Now, s.cfg.PublicURL)
		return store.Delivery{Webhook: hook.ID, Event: "test", Payload: body}, err
	})
}

func (s *Server) redeliver(ctx context.Context, p auth.Principal, in *struct {
	WebhookPath
	Delivery string `path:"delivery" format:"uuid"`
}) (*deliveryAnswer, error) {
	return s.send(ctx, p, func(tx *store.Tx) (store.Delivery, error) {
		if _, err := store.LoadWebhook(ctx, tx, in.ID); err != nil {
			return store.Delivery{}, err
		}
		d, err := store.LoadDelivery(ctx, tx, in.Delivery)
		if err == nil && d.Webhook != in.ID {
			err = fleet.Errorf(fleet.CodeNotFound, "no such delivery")
		}
		return store.Delivery{Webhook: d.Webhook, Alert: d.Alert, EventID: d.EventID, Event: d.Event, Payload: d.Payload}, err
	})
}

// send records a new delivery and queues it in one transaction.
func (s *Server) send(ctx context.Context, p auth.Principal, make func(*store.Tx) (store.Delivery, error)) (*deliveryAnswer, error) {
	out := &deliveryAnswer{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		d, err := make(tx)
		if err != nil {
			return err
		}
		id, err := store.InsertDelivery(ctx, tx, d)
		if err != nil {
			return err
		}
		if err := s.deps.Queue.DeliverSoon(ctx, tx, id); err != nil {
			return err
		}
		d, err = store.LoadDelivery(ctx, tx, id)
		out.Body = showDelivery(d)
		return err
	})
	return out, err
}

func (s *Server) listDeliveries(ctx context.Context, p auth.Principal, in *struct {
	WebhookPath
	Cursor string `query:"cursor" maxLength:"200"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}) (*struct {
	Body struct {
		Items      []Delivery `json:"items"`
		NextCursor string     `json:"next_cursor,omitempty"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items      []Delivery `json:"items"`
			NextCursor string     `json:"next_cursor,omitempty"`
		}
	}{}
	after, err := positionOf(in.Cursor)
	if err != nil {
		return nil, err
	}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		list, err := store.Deliveries(ctx, tx, in.ID, after, in.Limit+1)
		if len(list) > in.Limit {
			list = list[:in.Limit]
			last := list[len(list)-1]
			out.Body.NextCursor = encodeCursor(store.Position{At: last.CreatedAt, ID: last.ID})
		}
		out.Body.Items = make([]Delivery, 0, len(list))
		for _, d := range list {
			out.Body.Items = append(out.Body.Items, showDelivery(d))
		}
		return err
	})
	return out, err
}

func showDelivery(d store.Delivery) Delivery {
	return Delivery{ID: d.ID, Webhook: d.Webhook, Alert: d.Alert, EventID: d.EventID, Event: d.Event, Payload: json.RawMessage(d.Payload), State: d.State,
		Attempts: d.Attempts, LastStatus: d.LastStatus, LastError: d.LastError, CreatedAt: d.CreatedAt.UTC(), FinishedAt: d.FinishedAt}
}
