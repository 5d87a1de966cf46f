package notify_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/services/notify"
)

// relay is a mail server on the loopback that takes one mail.
type relay struct {
	cert     tls.Certificate
	pool     *x509.CertPool
	listener net.Listener
	startTLS bool
	refuse   string // answer to RCPT
	mail     chan string
}

func newRelay(t *testing.T, startTLS bool, refuse string) *relay {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "relay"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r := &relay{cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool: x509.NewCertPool(), listener: l, startTLS: startTLS, refuse: refuse, mail: make(chan string, 1)}
	r.pool.AddCert(leaf)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r.talk(conn)
		}
	}()
	return r
}

func (r *relay) talk(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	in := bufio.NewReader(conn)
	say := func(s string) { _, _ = conn.Write([]byte(s + "\r\n")) }
	say("220 relay")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		switch verb := strings.ToUpper(strings.Fields(line + " x")[0]); verb {
		case "EHLO":
			if r.startTLS {
				say("250-relay\r\n250-STARTTLS\r\n250 AUTH PLAIN")
			} else {
				say("250 relay")
			}
		case "STARTTLS":
			say("220 go on")
			secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{r.cert}, MinVersion: tls.VersionTLS12})
			conn, in = secure, bufio.NewReader(secure)
		case "RCPT":
			if r.refuse != "" {
				say(r.refuse)
				continue
			}
			say("250 ok")
		case "AUTH":
			say("235 welcome")
		case "DATA":
			say("354 go on")
			var text strings.Builder
			for {
				l, err := in.ReadString('\n')
				if err != nil || l == ".\r\n" {
					break
				}
				text.WriteString(l)
			}
			r.mail <- text.String()
			say("250 taken")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func (r *relay) mailer(t *testing.T, cfg notify.SMTPConfig) *notify.Mailer {
	t.Helper()
	addr, ok := r.listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatal("no TCP address")
	}
	cfg.Host, cfg.Port, cfg.From, cfg.Timeout = "127.0.0.1", addr.Port, "Plimsoll <alerts@example.com>", 5*time.Second
	cfg.Trust = &tls.Config{RootCAs: r.pool, MinVersion: tls.VersionTLS12}
	m, err := notify.NewMailer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var greeting = notify.Mail{To: []string{"ops@example.com"}, ID: "018f", At: time.Unix(0, 0), Letter: notify.Letter{Subject: "预算\r\nBcc: thief@example.com", Text: "80 % 已用\n.\nend"}}

func TestAMailGoesOutOverStartTLSAndKeepsItsHeaders(t *testing.T) {
	t.Parallel()
	r := newRelay(t, true, "")
	status, err := r.mailer(t, notify.SMTPConfig{User: "plimsoll", Password: "secret"}).Send(context.Background(), greeting)
	if err != nil || status != 250 {
		t.Fatalf("status %d: %v", status, err)
	}
	text := <-r.mail
	head, body, _ := strings.Cut(text, "\r\n\r\n")
	for _, want := range []string{"From: \"Plimsoll\" <alerts@example.com>", "To: ops@example.com", "Subject: =?utf-8?q?", "Message-ID: <018f@example.com>", "Auto-Submitted: auto-generated"} {
		if !strings.Contains(head, want) {
			t.Errorf("no %q in %s", want, head)
		}
	}
	if strings.Contains(head, "\r\nBcc:") {
		t.Errorf("a subject made a header of its own: %s", head)
	}
	if !strings.Contains(body, "80 %") || !strings.Contains(body, "end") {
		t.Errorf("body: %q", body)
	}
}

func TestAMailIsNotSentInTheClearAndFinalAnswersAreFinal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		startTLS bool
		refuse   string
		status   int
		final    bool
	}{
		{"a server without STARTTLS gets nothing", false, "", 0, true},
		{"an unknown address is final", true, "550 no such user", 550, true},
		{"a full mailbox is tried again", true, "452 later", 452, false},
	} {
		r := newRelay(t, c.startTLS, c.refuse)
		status, err := r.mailer(t, notify.SMTPConfig{}).Send(context.Background(), greeting)
		if err == nil || status != c.status || errors.Is(err, notify.ErrRefused) != c.final {
			t.Errorf("%s: status %d, %v", c.name, status, err)
		}
	}
	var none *notify.Mailer
	if _, err := none.Send(context.Background(), greeting); !errors.Is(err, notify.ErrRefused) {
		t.Errorf("a service without a mail server: %v", err)
	}
	if _, err := notify.NewMailer(notify.SMTPConfig{Host: "relay", From: "a@example.com", TLS: notify.TLSNone, User: "u"}); err == nil {
		t.Error("a password would be sent in the clear")
	}
}

func TestNoticesHaveTheShapesOfTheirReceivers(t *testing.T) {
	t.Parallel()
	n := notify.Notice{Event: "alert.opened", Kind: "budget_threshold", Severity: "critical", Subject: "budget/x/actual/100", OpenedAt: time.Unix(0, 0), Link: "https://plimsoll.example.com/alerts",
		Detail: map[string]any{"name": "<b>&{x}", "percent": 100.0, "figure": "12.50", "limit": "10.00", "currency": "USD", "basis": "actual", "budget_id": "id", "list": []any{1}}}
	var slack struct {
		Text   string
		Blocks []struct {
			Type   string
			Text   struct{ Type, Text string }
			Fields []struct{ Type, Text string }
		}
	}
	raw, err := n.Slack(notify.English)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &slack); err != nil {
		t.Fatal(err)
	}
	if want := "*Critical* · Budget &lt;b&gt;&amp;(x): 100 % reached, 12.50 of 10.00 USD"; slack.Blocks[0].Text.Text != want {
		t.Errorf("Slack says %q, want %q", slack.Blocks[0].Text.Text, want)
	}
	var teams struct {
		Type        string
		Attachments []struct {
			ContentType string
			Content     struct {
				Type, Version string
				Body          []struct{ Type, Text, Color string }
				Actions       []struct{ URL string }
			}
		}
	}
	if raw, err = n.Teams(notify.Chinese); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &teams); err != nil {
		t.Fatal(err)
	}
	card := teams.Attachments[0].Content
	if teams.Type != "message" || card.Type != "AdaptiveCard" || card.Body[0].Color != "Attention" || card.Body[0].Text != "严重" || len(card.Actions) != 1 {
		t.Errorf("Teams gets %s", raw)
	}
	n.Detail["basis"], n.Detail["figure"] = "forecast", nil
	if got := n.Headline(notify.English); got != "Budget <b>&(x): 100 % expected by the end of the period, – of 10.00 USD" {
		t.Errorf("headline %q", got)
	}
	if got := (notify.Notice{Kind: "new_kind", Subject: "cluster/x"}).Headline(notify.Chinese); got != "new_kind: cluster/x" {
		t.Errorf("an unknown kind reads %q", got)
	}
}

func TestRecipientsAreRead(t *testing.T) {
	t.Parallel()
	if got, err := notify.ParseRecipients("Ops <ops@example.com>, b@example.com"); err != nil || strings.Join(got, " ") != "ops@example.com b@example.com" {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "nobody", "a@example.com\r\nBcc: c@example.com", strings.Repeat("a@example.com,", 20) + "a@example.com", strings.Repeat("x", 3000)} {
		if got, err := notify.ParseRecipients(bad); err == nil {
			t.Errorf("%.40q was read as %v", bad, got)
		}
	}
}
