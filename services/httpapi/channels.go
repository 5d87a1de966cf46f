package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/notify"
	"plimsoll.dev/services/store"
)

// Channel is where alerts and digests go.
type Channel struct {
	ID        string            `json:"id"`
	Kind      store.ChannelKind `json:"kind" enum:"webhook,slack,teams,email,pagerduty,opsgenie"`
	Name      string            `json:"name"`
	Address   string            `json:"address" doc:"of Slack and Teams the host only: the whole address is a secret"`
	Language  string            `json:"language" enum:"en,zh"`
	CreatedAt time.Time         `json:"created_at"`
	OldUntil  *time.Time        `json:"old_secret_until" doc:"until when the secret before signs too"`
}

// NewChannel is a channel just made, or whose secret was exchanged.
type NewChannel struct {
	Channel
	Secret string `json:"secret,omitempty" doc:"of a webhook, shown only now: the key of the HMAC-SHA256 in header Plimsoll-Signature"`
}

// Attempt is one attempt of a delivery.
type Attempt struct {
	N       int       `json:"n"`
	At      time.Time `json:"at"`
	Status  *int      `json:"status" doc:"HTTP or SMTP status; null: no answer"`
	Problem string    `json:"problem,omitempty" doc:"empty: delivered"`
	TookMS  int       `json:"took_ms"`
}

func (s *Server) registerChannels() {
	tags := []string{"channels"}
	op(s, huma.Operation{OperationID: "list-channels", Method: http.MethodGet, Path: "/api/v1/channels", Summary: "List channels", Tags: tags},
		auth.RoleViewer, s.listChannels)
	op(s, huma.Operation{OperationID: "create-channel", Method: http.MethodPost, Path: "/api/v1/channels", Summary: "Create a channel; of a webhook the answer shows its secret once", Tags: tags, DefaultStatus: http.StatusCreated, Errors: []int{409, 422}},
		auth.RoleFinance, s.createChannel)
	op(s, huma.Operation{OperationID: "delete-channel", Method: http.MethodDelete, Path: "/api/v1/channels/{id}", Summary: "Remove a channel with its routes and digests", Tags: tags, DefaultStatus: http.StatusNoContent, Errors: []int{404}},
		auth.RoleFinance, s.deleteWebhook)
	op(s, huma.Operation{OperationID: "test-channel", Method: http.MethodPost, Path: "/api/v1/channels/{id}/test", Summary: "Send a test", Tags: tags, DefaultStatus: http.StatusAccepted, Errors: []int{404}},
		auth.RoleFinance, s.testWebhook)
	op(s, huma.Operation{OperationID: "rotate-channel-secret", Method: http.MethodPost, Path: "/api/v1/channels/{id}/rotate", Summary: "Exchange the secret of a webhook; both sign for a while", Tags: tags, Errors: []int{404, 422}},
		auth.RoleFinance, s.rotateChannel)
	op(s, huma.Operation{OperationID: "list-channel-deliveries", Method: http.MethodGet, Path: "/api/v1/channels/{id}/deliveries", Summary: "Delivery log, newest first", Tags: tags},
		auth.RoleViewer, s.listDeliveries)
	op(s, huma.Operation{OperationID: "list-delivery-attempts", Method: http.MethodGet, Path: "/api/v1/channels/{id}/deliveries/{delivery}/attempts", Summary: "Every attempt of a delivery", Tags: tags, Errors: []int{404}},
		auth.RoleViewer, s.listAttempts)
	op(s, huma.Operation{OperationID: "redeliver-channel", Method: http.MethodPost, Path: "/api/v1/channels/{id}/deliveries/{delivery}/redeliver", Summary: "Send an event again", Tags: tags, DefaultStatus: http.StatusAccepted, Errors: []int{404}},
		auth.RoleFinance, s.redeliver)
	s.registerRoutes()
}

func showChannel(h store.Webhook) Channel {
	return Channel{ID: h.ID, Kind: h.Kind, Name: h.Name, Address: strings.TrimPrefix(h.URL, "mailto:"), Language: h.Language, CreatedAt: h.CreatedAt.UTC(), OldUntil: h.OldUntil}
}

func (s *Server) listChannels(ctx context.Context, p auth.Principal, _ *struct{}) (*struct {
	Body struct {
		Items []Channel `json:"items"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items []Channel `json:"items"`
		}
	}{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		hooks, err := store.Webhooks(ctx, tx)
		out.Body.Items = make([]Channel, 0, len(hooks))
		for _, h := range hooks {
			out.Body.Items = append(out.Body.Items, showChannel(h))
		}
		return err
	})
	return out, err
}

type channelBody struct {
	Kind     store.ChannelKind `json:"kind" enum:"webhook,slack,teams,email,pagerduty,opsgenie"`
	Name     string            `json:"name" minLength:"1" maxLength:"100"`
	Address  string            `json:"address,omitempty" maxLength:"2000" doc:"https, of email addresses separated by commas; addresses in private networks are refused unless the operator allows them. Of pagerduty and opsgenie the API's, default that of the US"`
	Key      string            `json:"key,omitempty" maxLength:"200" doc:"of pagerduty the routing key of an Events API v2 integration, of opsgenie an API key; it is never shown"`
	Language string            `json:"language,omitempty" enum:"en,zh" doc:"of texts; default en"`
}

// read checks a new channel and seals what is secret of it. secret is shown once.
func (s *Server) readChannel(tenant fleet.TenantID, b channelBody) (hook store.Webhook, secret string, err error) {
	hook = store.Webhook{ID: uuid.Must(uuid.NewV7()).String(), Name: b.Name, Kind: b.Kind, Language: b.Language}
	if hook.Language == "" {
		hook.Language = string(notify.English)
	}
	seal := func(text string) []byte {
		return s.deps.Sealer.Seal(notify.SecretPurpose(tenant, hook.ID), []byte(text))
	}
	if b.Key != "" && !b.Kind.Pager() {
		return hook, "", &fleet.Error{Code: fleet.CodeInvalid, Message: "a channel of this kind has no key", Field: "body.key"}
	}
	inAddress := func(err error) error {
		return &fleet.Error{Code: fleet.CodeInvalid, Message: messageOf(err), Field: "body.address"}
	}
	switch b.Kind {
	case store.ChannelEmail:
		to, err := notify.ParseRecipients(b.Address)
		if err != nil {
			return hook, "", inAddress(err)
		}
		hook.URL, hook.SealedSecret = "mailto:"+strings.Join(to, ","), seal("")
		return hook, "", nil
	case store.ChannelWebhook, store.ChannelSlack, store.ChannelTeams:
		if err := s.webhookAddress(b.Address); err != nil {
			return hook, "", inAddress(err)
		}
	case store.ChannelPagerDuty, store.ChannelOpsgenie:
		hook.URL = map[store.ChannelKind]string{store.ChannelPagerDuty: notify.PagerDutyURL, store.ChannelOpsgenie: notify.OpsgenieURL}[b.Kind]
		if b.Address != "" {
			hook.URL = b.Address
		}
		if err := s.webhookAddress(hook.URL); err != nil {
			return hook, "", inAddress(err)
		}
		if key := strings.TrimSpace(b.Key); key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return hook, "", &fleet.Error{Code: fleet.CodeInvalid, Message: "the key is missing or has characters that no key has", Field: "body.key"}
		}
		hook.SealedSecret = seal(strings.TrimSpace(b.Key))
		return hook, "", nil
	default:
		return hook, "", &fleet.Error{Code: fleet.CodeInvalid, Message: "there is no such kind of channel", Field: "body.kind"}
	}
	if b.Kind == store.ChannelWebhook {
		secret = notify.NewSecret()
		hook.URL, hook.SealedSecret = b.Address, seal(secret)
		return hook, secret, nil
	}
	u, err := url.Parse(b.Address)
	if err != nil {
		return hook, "", inAddress(err)
	}
	hook.URL, hook.SealedSecret = u.Scheme+"://"+u.Host+"/…", seal(b.Address)
	return hook, "", nil
}

// messageOf is what may be shown of an error.
func messageOf(err error) string {
	_, message, _ := explain(err)
	return message
}

func (s *Server) createChannel(ctx context.Context, p auth.Principal, in *struct{ Body channelBody }) (*struct{ Body NewChannel }, error) {
	hook, secret, err := s.readChannel(p.Tenant, in.Body)
	if err != nil {
		return nil, err
	}
	out := &struct{ Body NewChannel }{}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		all, err := store.Webhooks(ctx, tx)
		if err != nil {
			return err
		}
		if len(all) >= maxWebhooks {
			return fleet.Errorf(fleet.CodeConflict, "a tenant has at most %d channels", maxWebhooks)
		}
		if err := store.InsertWebhook(ctx, tx, hook); err != nil {
			return err
		}
		hook.CreatedAt = tx.Now
		out.Body = NewChannel{Channel: showChannel(hook), Secret: secret}
		return store.Audit(ctx, tx, p.Actor(), "channel.create", "channel/"+hook.ID, map[string]string{"name": hook.Name, "kind": string(hook.Kind)})
	})
	return out, err
}

func (s *Server) rotateChannel(ctx context.Context, p auth.Principal, in *struct {
	WebhookPath
	Body struct {
		OverlapHours int `json:"overlap_hours,omitempty" minimum:"0" maximum:"168" doc:"for how long the secret before signs too; default 24"`
	}
}) (*struct{ Body NewChannel }, error) {
	hours := in.Body.OverlapHours
	if hours == 0 {
		hours = 24
	}
	secret := notify.NewSecret()
	out := &struct{ Body NewChannel }{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		sealed := s.deps.Sealer.Seal(notify.SecretPurpose(p.Tenant, in.ID), []byte(secret))
		if err := store.RotateWebhook(ctx, tx, in.ID, sealed, tx.Now.Add(time.Duration(hours)*time.Hour)); err != nil {
			return err
		}
		hook, err := store.LoadWebhook(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		out.Body = NewChannel{Channel: showChannel(hook), Secret: secret}
		return store.Audit(ctx, tx, p.Actor(), "channel.rotate", "channel/"+in.ID, map[string]string{"name": hook.Name})
	})
	return out, err
}

func (s *Server) listAttempts(ctx context.Context, p auth.Principal, in *struct {
	WebhookPath
	Delivery string `path:"delivery" format:"uuid"`
}) (*struct {
	Body struct {
		Items []Attempt `json:"items"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items []Attempt `json:"items"`
		}
	}{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		d, err := store.LoadDelivery(ctx, tx, in.Delivery)
		if err != nil {
			return err
		}
		if d.Webhook != in.ID {
			return fleet.Errorf(fleet.CodeNotFound, "no such delivery")
		}
		list, err := store.Attempts(ctx, tx, in.Delivery)
		out.Body.Items = make([]Attempt, 0, len(list))
		for _, a := range list {
			out.Body.Items = append(out.Body.Items, Attempt{N: a.N, At: a.At.UTC(), Status: a.Status, Problem: a.Problem, TookMS: a.TookMS})
		}
		return err
	})
	return out, err
}

// testPayload is the body of a test for a channel.
func testPayload(hook store.Webhook, at time.Time, link string) (string, error) {
	n := notify.Notice{Event: "test", ID: uuid.NewString(), Severity: string(store.SeverityInfo), At: at, Lines: []notify.Line{}, Link: link}
	lang := notify.Language(hook.Language)
	var body []byte
	var err error
	switch hook.Kind {
	case store.ChannelSlack:
		body, err = n.Slack(lang)
	case store.ChannelTeams:
		body, err = n.Teams(lang)
	case store.ChannelEmail:
		body, err = json.Marshal(n.Mail(lang))
	case store.ChannelPagerDuty:
		body, err = n.PagerDuty(lang)
	case store.ChannelOpsgenie:
		body, err = n.Opsgenie(lang)
	default:
		body, err = json.Marshal(map[string]any{"event": "test", "at": at.UTC(), "webhook": hook.Name})
	}
	return string(body), err
}
