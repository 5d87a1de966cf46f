package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"testing"

	"connectrpc.com/connect"

	"plimsoll.dev/services/auth"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
	"plimsoll.dev/services/wire/plimsoll/agent/v1/agentv1connect"
)

// A key that is not ours costs a look into the database. Who sends many is told to wait, whatever comes next; who has a session, or
// none, is not meant.
func TestManyStrangeKeysAreSlowedDown(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	good, session := d.key(d.tenant.ID, auth.RoleViewer), d.login("owner@harbour.test", testPassword)
	strange, err := auth.NewAPIKey(d.tenant.ID)
	if err != nil {
		t.Fatal(err)
	}
	d.with(good, "GET", "/api/v1/me", nil).want(t, 200)
	refused := 0
	for range 130 {
		got := d.with(strange.Token, "GET", "/api/v1/me", nil)
		if got.status == http.StatusTooManyRequests {
			refused++
			if got.header.Get("Retry-After") == "" {
				t.Fatal("no Retry-After")
			}
		} else if got.status != http.StatusUnauthorized {
			t.Fatalf("status %d", got.status)
		}
	}
	if refused == 0 {
		t.Error("130 strange keys in a row were all looked up")
	}
	d.call("GET", "/api/v1/me", nil, "Cookie", session).want(t, 200)
	d.call("GET", "/api/v1/me", nil).want(t, 401)
}

func TestAClientIsWhoATrustedProxySaysItIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		trusted  []string
		forwards [2]string // of two requests
		apart    bool      // they are counted apart
	}{
		{"nobody is trusted: what the header says is worth nothing", nil, [2]string{"203.0.113.1", "203.0.113.2"}, false},
		{"a trusted proxy tells two clients apart", []string{"127.0.0.0/8"}, [2]string{"203.0.113.1", "203.0.113.2"}, true},
		{"what a client writes before it changes nothing", []string{"127.0.0.0/8"}, [2]string{"198.51.100.1, 203.0.113.1", "198.51.100.2, 203.0.113.1"}, false},
		{"a chain of trusted proxies is followed", []string{"127.0.0.0/8", "10.0.0.0/8"}, [2]string{"203.0.113.1, 10.1.1.1", "203.0.113.2, 10.1.1.1"}, true},
		{"addresses of one IPv6 site are one source", []string{"127.0.0.0/8"}, [2]string{"2001:db8:1:1::1", "2001:db8:1:1::2"}, false},
		{"IPv6 sites are told apart", []string{"127.0.0.0/8"}, [2]string{"2001:db8:1:1::1", "2001:db8:2:2::1"}, true},
		{"no address at all is the proxy's", []string{"127.0.0.0/8"}, [2]string{"unknown", ""}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			opt := doorOptions{requestsPerMinute: 3}
			for _, p := range c.trusted {
				opt.trustedProxies = append(opt.trustedProxies, netip.MustParsePrefix(p))
			}
			d := openDoor(t, opt)
			for range 3 {
				d.call("GET", "/api/v1/me", nil, "X-Forwarded-For", c.forwards[0]).want(t, 401)
			}
			d.call("GET", "/api/v1/me", nil, "X-Forwarded-For", c.forwards[0]).want(t, 429)
			want := 429
			if c.apart {
				want = 401
			}
			d.call("GET", "/api/v1/me", nil, "X-Forwarded-For", c.forwards[1]).want(t, want)
		})
	}
}

func TestEnrolmentsOfOneAddressAreLimited(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	client := agentv1connect.NewAgentServiceClient(http.DefaultClient, d.url)
	codes := map[connect.Code]int{}
	for i := range 70 {
		_, err := client.Enrol(context.Background(), connect.NewRequest(&agentv1.EnrolRequest{EnrolmentToken: fmt.Sprintf("guess-%d", i), InstallId: "x"}))
		codes[connect.CodeOf(err)]++
	}
	if codes[connect.CodeResourceExhausted] == 0 || codes[connect.CodeUnauthenticated]+codes[connect.CodeInvalidArgument] != 60 || len(codes) != 2 {
		t.Errorf("70 guesses ended as %v", codes)
	}
	// An agent that has a credential is not kept from refreshing it.
	if _, err := client.Refresh(context.Background(), connect.NewRequest(&agentv1.RefreshRequest{})); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("refresh without a credential: %v", err)
	}
}
