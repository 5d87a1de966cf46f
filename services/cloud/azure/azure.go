// Package azure reads prices, machines, reservations and savings plans from Azure's REST APIs: the retail prices that everybody may read,
// and the resource manager as an application that a tenant gave. It sets the capacity of scale sets where it is told to. It returns numbers
// and names; it decides nothing and changes nothing else.
package azure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azurecloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
)

// Config of a Source.
type Config struct {
	Access  cloud.AzureAccess // zero: only the retail prices can be read
	Regions []string          // whose machines and commitments are read
	// Assertion gives the installation's federated token, for accounts without a secret; nil: they are refused.
	Assertion func(ctx context.Context) (string, error)
	// Endpoints for tests; empty: Azure's.
	Retail, Manager, Login string
	HTTP                   *http.Client
	Retry                  cloud.Retry
	Deadline               time.Duration // of one list; default 10 minutes
}

// Azure's doors.
const (
	retailHost  = "https://prices.azure.com"
	managerHost = "https://management.azure.com"
	scope       = "https://management.azure.com/.default"
)

// Source reads one account. Safe for concurrent use.
type Source struct {
	cfg     Config
	retail  cloud.REST
	manager cloud.REST
}

// New makes a Source; no call is made before the first list.
func New(cfg Config) (*Source, error) {
	if cfg.Deadline <= 0 {
		cfg.Deadline = 10 * time.Minute
	}
	s := &Source{cfg: cfg,
		retail:  cloud.REST{Base: or(cfg.Retail, retailHost), HTTP: cfg.HTTP, Retry: cfg.Retry, Error: words},
		manager: cloud.REST{Base: or(cfg.Manager, managerHost), HTTP: cfg.HTTP, Retry: cfg.Retry, Error: words},
	}
	credential, err := newCredential(cfg)
	if err != nil {
		return nil, err
	}
	s.manager.Token = func(ctx context.Context) (string, error) {
		if credential == nil {
			return "", fleet.Errorf(fleet.CodeUnauthorized, "this needs an application in the tenant's directory")
		}
		token, err := credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{scope}})
		if err != nil {
			return "", refusedToken(err)
		}
		return token.Token, nil
	}
	return s, nil
}

func newCredential(cfg Config) (azcore.TokenCredential, error) {
	a := cfg.Access
	if a.ClientID == "" {
		return nil, nil //nolint:nilnil // the retail prices need none
	}
	options := azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: 2, MaxRetryDelay: cfg.Retry.WithDefaults().Max}}
	discovery := cfg.Login == ""
	if !discovery {
		options.Cloud = azurecloud.Configuration{ActiveDirectoryAuthorityHost: cfg.Login}
	}
	if cfg.HTTP != nil {
		options.Transport = cfg.HTTP
	}
	var credential azcore.TokenCredential
	var err error
	switch {
	case a.ClientSecret != "":
		credential, err = azidentity.NewClientSecretCredential(a.DirectoryID, a.ClientID, a.ClientSecret,
			&azidentity.ClientSecretCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: !discovery})
	case cfg.Assertion != nil:
		credential, err = azidentity.NewClientAssertionCredential(a.DirectoryID, a.ClientID, cfg.Assertion,
			&azidentity.ClientAssertionCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: !discovery})
	default:
		return nil, fleet.Errorf(fleet.CodeInvalid, "this installation has no federated token for Azure: give a client secret")
	}
	if err != nil {
		return nil, fmt.Errorf("configure Azure: %w", err)
	}
	return credential, nil
}

// refusedToken tells a directory that says no from one that does not answer.
func refusedToken(err error) error {
	var failed *azidentity.AuthenticationFailedError
	if errors.As(err, &failed) && failed.RawResponse != nil && failed.RawResponse.StatusCode < 500 {
		return &fleet.Error{Code: fleet.CodeUnauthorized, Message: "the directory does not accept the credentials; look at its id, the application's id and the secret", Err: err}
	}
	return &fleet.Error{Code: fleet.CodeUnavailable, Message: "the directory gave no token", Err: err}
}

// words are the code and message of the resource manager's and the retail prices' errors.
func words(_ int, body []byte) (code, message string) {
	var e struct {
		Error struct{ Code, Message string }
	}
	_ = json.Unmarshal(body, &e)
	return e.Error.Code, e.Error.Message
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

// pages reads the resource manager's lists, whose pages name the next one by a link.
func pages[T any](ctx context.Context, rest *cloud.REST, first string, each func(*T)) error {
	rows := 0
	return cloud.Pages(ctx, func(link string) (string, error) {
		var page struct {
			Value    []T
			NextLink string
		}
		if err := rest.Get(ctx, or(link, first), &page); err != nil {
			return "", err
		}
		for i := range page.Value {
			each(&page.Value[i])
		}
		rows += len(page.Value)
		return page.NextLink, cloud.Room(rows)
	})
}

// Check tries each list's first page.
func (s *Source) Check(ctx context.Context) []cloud.Check {
	if len(s.cfg.Regions) == 0 {
		return []cloud.Check{{Name: "regions", Problem: "name the regions of the account"}}
	}
	region := s.cfg.Regions[0]
	var out []cloud.Check
	for _, t := range []struct {
		name    string
		rest    *cloud.REST
		address string
	}{
		{"Retail Prices", &s.retail, retailQuery(region, "and armSkuName eq 'Standard_D2s_v3'")},
		{"Microsoft.Compute/skus/read", &s.manager, s.skus(region)},
		{"Microsoft.Compute/capacityReservationGroups/read", &s.manager, s.groups()},
		{"Microsoft.Capacity/reservations/read", &s.manager, reservations},
		{"Microsoft.BillingBenefits/savingsPlans/read", &s.manager, savingsPlans},
	} {
		c := cloud.Check{Name: t.name}
		if err := s.list(ctx, t.name, func(ctx context.Context) error { return t.rest.Get(ctx, t.address, &struct{}{}) }); err != nil {
			c.Problem = cloud.Problem(err)
		}
		out = append(out, c)
	}
	return out
}

// query makes the path of a call; OData filters hold blanks and quotes.
func query(path, version string, more ...string) string {
	q := url.Values{"api-version": {version}}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return path + "?" + strings.ReplaceAll(q.Encode(), "+", "%20")
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
