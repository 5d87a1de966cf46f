package notify_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/notify"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func message(url string) notify.Message {
	return notify.Message{URL: url, Secret: []byte("plw_test"), EventID: "e-1", Event: "test", Body: []byte(`{"a":1}`), At: time.Now()}
}

func TestSendSignsWhatItSends(t *testing.T) {
	t.Parallel()
	got := make(chan error, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		err := notify.Verify([]byte("plw_test"), r.Header.Get("Plimsoll-Signature"), body, time.Now(), time.Minute)
		if r.Header.Get("Plimsoll-Event-Id") != "e-1" || r.Header.Get("Content-Type") != "application/json" {
			err = errors.Join(err, errors.New("headers are missing"))
		}
		got <- err
	}))
	defer s.Close()
	answer, err := notify.New(notify.Config{Allow: loopback}).Send(context.Background(), message(s.URL))
	if err != nil || answer.Status != 200 {
		t.Fatalf("answer %+v, %v", answer, err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	secret, body := []byte("s"), []byte("body")
	good := notify.Sign(at, body, secret)
	if err := notify.Verify(secret, "v1=00,"+good, body, at.Add(time.Minute), 5*time.Minute); err != nil {
		t.Errorf("one of two signatures fits: %v", err)
	}
	for name, err := range map[string]error{
		"another secret":     notify.Verify([]byte("other"), good, body, at, time.Minute),
		"another body":       notify.Verify(secret, good, []byte("bodx"), at, time.Minute),
		"another time":       notify.Verify(secret, strings.Replace(good, "t=1800000000", "t=1800000001", 1), body, at, time.Minute),
		"an old message":     notify.Verify(secret, good, body, at.Add(time.Hour), time.Minute),
		"a message to come":  notify.Verify(secret, good, body, at.Add(-time.Hour), time.Minute),
		"no signature":       notify.Verify(secret, "t=1800000000", body, at, time.Minute),
		"an empty header":    notify.Verify(secret, "", body, at, time.Minute),
		"a signature as hex": notify.Verify(secret, "t=1800000000,v1=zz", body, at, time.Minute),
	} {
		if err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// Whatever a name says, the address that is connected to decides.
func TestSendRefusesAddressesThatAreNotPublic(t *testing.T) {
	t.Parallel()
	hit := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hit <- struct{}{} }))
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	strict := notify.New(notify.Config{Timeout: 2 * time.Second})
	lax := notify.New(notify.Config{Timeout: 2 * time.Second, Allow: []netip.Prefix{netip.MustParsePrefix("10.11.12.0/24")}})
	for _, url := range []string{
		"https://localhost:" + port, "https://127.0.0.1:" + port, "https://[::1]:" + port, "https://[::ffff:127.0.0.1]:" + port, "https://0.0.0.0:" + port,
		"https://10.0.0.1/", "https://172.16.3.4/", "https://192.168.1.1/", "https://169.254.169.254/latest/meta-data", "https://[fe80::1]/", "https://[fd00::1]/",
		"https://100.64.0.1/", "https://198.18.0.1/", "https://224.0.0.1/", "https://255.255.255.255/", "https://[64:ff9b::7f00:1]/", "https://[2002:7f00:1::]/", "https://[::127.0.0.1]/",
		"https://[fec0::1]/", "https://192.0.0.8/",
	} {
		for _, s := range []*notify.Sender{strict, lax} {
			if _, err := s.Send(context.Background(), message(url)); !errors.Is(err, notify.ErrRefused) {
				t.Errorf("%s: %v, want refused", url, err)
			}
		}
	}
	if _, err := lax.Send(context.Background(), message("http://localhost:"+port)); !errors.Is(err, notify.ErrRefused) {
		t.Errorf("plain http to a network that is not allowed: %v", err)
	}
	select {
	case <-hit:
		t.Error("a request reached a private address")
	default:
	}
}

func TestCheckReadsTheAddress(t *testing.T) {
	t.Parallel()
	strict, lax := notify.New(notify.Config{}), notify.New(notify.Config{Allow: loopback})
	for url, want := range map[string]struct{ strict, lax bool }{
		"https://hooks.example.com/a?b=c":        {true, true},
		"http://hooks.example.com/":              {false, true}, // the connection is refused later unless it leads into an allowed network
		"http://127.0.0.1:9000/":                 {false, true},
		"https://8.8.8.8/":                       {true, true},
		"ftp://example.com/":                     {false, false},
		"https://":                               {false, false},
		"https://user:pass@example.com/":         {false, false},
		"https://example.com/#x":                 {false, false},
		"javascript:alert(1)":                    {false, false},
		"https://10.0.0.1/":                      {false, false},
		"https://a/" + strings.Repeat("x", 2000): {false, false},
		"https://[::1":                           {false, false},
	} {
		if got := strict.Check(url) == nil; got != want.strict {
			t.Errorf("%s: strict %v", url, got)
		}
		if got := lax.Check(url) == nil; got != want.lax {
			t.Errorf("%s: with an allowed network %v", url, got)
		}
	}
}

func TestSendFollowsNoRedirectAndBoundsAnswers(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("followed a redirect") }))
	defer target.Close()
	release := make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("/redirect", http.RedirectHandler(target.URL, http.StatusTemporaryRedirect))
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		for range 1000 {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	defer close(release)
	sender := notify.New(notify.Config{Allow: loopback, Timeout: 300 * time.Millisecond})
	if a, err := sender.Send(context.Background(), message(s.URL+"/redirect")); err == nil || a.Status != http.StatusTemporaryRedirect {
		t.Errorf("redirect: %+v, %v", a, err)
	}
	if a, err := sender.Send(context.Background(), message(s.URL+"/large")); err == nil || a.Status != http.StatusBadGateway || len(a.Text) > 2<<10 {
		t.Errorf("large answer: %d bytes kept, %v", len(a.Text), err)
	}
	if a, err := sender.Send(context.Background(), message(s.URL+"/slow")); err == nil || a.Status != 0 || !strings.Contains(err.Error(), "in time") {
		t.Errorf("slow answer: %+v, %v", a, err)
	}
}
