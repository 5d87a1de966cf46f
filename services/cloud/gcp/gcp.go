// Package gcp reads prices, machines, commitments and reservations from Google's billing and compute APIs, as a service account that a
// tenant gave. Google prices vCPUs, memory, GPUs and local disks apart; a machine's price here is their sum, and is unknown as soon as one
// part is. It sets the size of managed instance groups where it is told to. It returns numbers and names; it decides nothing and changes
// nothing else.
package gcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
)

// Config of a Source.
type Config struct {
	Access  cloud.GCPAccess
	Regions []string // whose machines, commitments and reservations are read
	// Ambient gives tokens of the installation's own identity, which takes the tenant's service account; nil: such accounts are refused.
	Ambient oauth2.TokenSource
	// Endpoints for tests; empty: Google's.
	Billing, Compute, Credentials, Token string
	HTTP                                 *http.Client
	Retry                                cloud.Retry
	Deadline                             time.Duration // of one list; default 10 minutes

	scope string // what tokens allow; empty: to read
}

// Google's doors.
const (
	billingHost     = "https://cloudbilling.googleapis.com"
	computeHost     = "https://compute.googleapis.com"
	credentialsHost = "https://iamcredentials.googleapis.com"
	tokenURL        = "https://oauth2.googleapis.com/token"
	readOnly        = "https://www.googleapis.com/auth/cloud-platform.read-only"
)

const tokenTimeout = 30 * time.Second

// Source reads one project. Safe for concurrent use.
type Source struct {
	cfg              Config
	billing, compute cloud.REST
	mu               sync.Mutex // guards the list of SKUs, which is long and the same for all regions
	skus             []sku
}

// New makes a Source; no call is made before the first list.
func New(cfg Config) (*Source, error) {
	if cfg.Deadline <= 0 {
		cfg.Deadline = 10 * time.Minute
	}
	tokens, err := newTokens(cfg)
	if err != nil {
		return nil, err
	}
	rest := func(base, host string) cloud.REST {
		return cloud.REST{Base: or(base, host), HTTP: cfg.HTTP, Retry: cfg.Retry, Error: words, Token: tokens}
	}
	return &Source{cfg: cfg, billing: rest(cfg.Billing, billingHost), compute: rest(cfg.Compute, computeHost)}, nil
}

// newTokens signs in with the key, or takes the service account with the installation's own identity.
func newTokens(cfg Config) (func(ctx context.Context) (string, error), error) {
	if cfg.Access.Key == "" {
		return impersonate(cfg)
	}
	var key struct {
		Type     string `json:"type"`
		TokenURI string `json:"token_uri"`
	}
	// A key file says where to go for a token, and some kinds say what to read or run for it: only plain keys with Google's own address.
	if err := json.Unmarshal([]byte(cfg.Access.Key), &key); err != nil || key.Type != "service_account" || key.TokenURI != "" && key.TokenURI != tokenURL {
		return nil, badKey()
	}
	config, err := google.JWTConfigFromJSON([]byte(cfg.Access.Key), or(cfg.scope, readOnly))
	if err != nil {
		return nil, badKey()
	}
	config.TokenURL = or(cfg.Token, tokenURL)
	var mu sync.Mutex // guards the token
	var token *oauth2.Token
	return func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if token.Valid() {
			return token.AccessToken, nil
		}
		client := cfg.HTTP
		if client == nil {
			client = &http.Client{Timeout: tokenTimeout} // the library asks without the context's deadline
		}
		fresh, err := config.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, client)).Token()
		if err != nil {
			return "", refusedToken(err)
		}
		token = fresh
		return token.AccessToken, nil
	}, nil
}

func badKey() error {
	return &fleet.Error{Code: fleet.CodeInvalid, Field: "gcp.key", Message: "this is no JSON key of a service account as Google makes them"}
}

func refusedToken(err error) error {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) && refused.Response != nil && refused.Response.StatusCode < 500 {
		return &fleet.Error{Code: fleet.CodeUnauthorized, Message: "Google does not accept the service account's key: " + cloud.Clip(refused.ErrorCode+" "+refused.ErrorDescription), Err: err}
	}
	var key *fleet.Error
	if errors.As(err, &key) {
		return err
	}
	return &fleet.Error{Code: fleet.CodeUnavailable, Message: "Google gave no token", Err: err}
}

// impersonate takes the tenant's service account with the installation's own identity.
func impersonate(cfg Config) (func(ctx context.Context) (string, error), error) {
	if cfg.Ambient == nil {
		return nil, fleet.Errorf(fleet.CodeInvalid, "this installation has no identity at Google: give a service account's key")
	}
	rest := cloud.REST{Base: or(cfg.Credentials, credentialsHost), HTTP: cfg.HTTP, Retry: cfg.Retry, Error: words, Token: func(context.Context) (string, error) {
		token, err := cfg.Ambient.Token()
		if err != nil {
			return "", refusedToken(err)
		}
		return token.AccessToken, nil
	}}
	address := "/v1/projects/-/serviceAccounts/" + cfg.Access.ServiceAccount + ":generateAccessToken"
	var mu sync.Mutex // guards the token
	var token oauth2.Token
	return func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if token.Valid() {
			return token.AccessToken, nil
		}
		var answer struct {
			AccessToken string    `json:"accessToken"`
			ExpireTime  time.Time `json:"expireTime"`
		}
		if err := rest.Post(ctx, address, map[string]any{"scope": []string{or(cfg.scope, readOnly)}, "lifetime": "3600s"}, &answer); err != nil {
			return "", fmt.Errorf("take the service account: %w", err)
		}
		token = oauth2.Token{AccessToken: answer.AccessToken, Expiry: answer.ExpireTime}
		return token.AccessToken, nil
	}, nil
}

// words are the reason and message of Google's errors.
func words(_ int, body []byte) (code, message string) {
	var e struct {
		Error struct {
			Status, Message string
			Errors          []struct{ Reason string }
		}
	}
	_ = json.Unmarshal(body, &e)
	if e.Error.Status == "" && len(e.Error.Errors) > 0 {
		e.Error.Status = e.Error.Errors[0].Reason
	}
	return e.Error.Status, e.Error.Message
}

// list bounds one list in time and names it in errors.
func (s *Source) list(ctx context.Context, what string, fetch func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Deadline)
	defer cancel()
	if err := fetch(ctx); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Check tries each list's first page.
func (s *Source) Check(ctx context.Context) []cloud.Check {
	var out []cloud.Check
	for _, t := range []struct {
		name    string
		rest    *cloud.REST
		address string
	}{
		{"cloudbilling.skus.list", &s.billing, skuList("", 1)},
		{"compute.machineTypes.list", &s.compute, s.aggregated("machineTypes", "", 1)},
		{"compute.commitments.list", &s.compute, s.aggregated("commitments", "", 1)},
		{"compute.reservations.list", &s.compute, s.aggregated("reservations", "", 1)},
	} {
		c := cloud.Check{Name: t.name}
		if err := s.list(ctx, t.name, func(ctx context.Context) error { return t.rest.Get(ctx, t.address, &struct{}{}) }); err != nil {
			c.Problem = cloud.Problem(err)
		}
		out = append(out, c)
	}
	return out
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
