// Package notify sends signed events to addresses that customers name, and to nothing else: no private network, no redirect, no
// waiting without an end. It keeps nothing and decides nothing; when to try again is the job queue's business.
package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"plimsoll.dev/services/fleet"
)

// Config of a Sender.
type Config struct {
	// Allow names networks of the operator's own that may be sent to although they are not public, also over plain HTTP. Default: none.
	Allow []netip.Prefix
	// Timeout of one attempt, connection to last byte. Default 10 s.
	Timeout time.Duration
	// Agent is the User-Agent. Default "Plimsoll-Webhook/1".
	Agent string
}

// Sender delivers messages. Safe for concurrent use.
type Sender struct {
	cfg          Config
	https, plain *http.Client
}

// New makes a Sender.
func New(cfg Config) *Sender {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Agent == "" {
		cfg.Agent = "Plimsoll-Webhook/1"
	}
	s := &Sender{cfg: cfg}
	s.https = s.client(func(a netip.Addr) bool { return public(a) || s.allowed(a) })
	s.plain = s.client(s.allowed)
	return s
}

// maxAnswerBytes is how much of an answer is read; the rest is not worth a connection.
const maxAnswerBytes = 2 << 10

func (s *Sender) client(may func(netip.Addr) bool) *http.Client {
	dialer := &net.Dialer{Timeout: s.cfg.Timeout, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		// This runs with the address that is about to be connected to, after every look-up: a name cannot point elsewhere later.
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %s", ErrRefused, address)
		}
		if !may(at.Addr().Unmap()) {
			return fmt.Errorf("%w: %s", ErrRefused, at.Addr())
		}
		return nil
	}}
	return &http.Client{
		Timeout: s.cfg.Timeout,
		Transport: &http.Transport{ // without a proxy: it would connect for us
			DialContext: dialer.DialContext, TLSHandshakeTimeout: s.cfg.Timeout, ResponseHeaderTimeout: s.cfg.Timeout,
			MaxResponseHeaderBytes: 16 << 10, DisableKeepAlives: true, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ErrRefused says that an address may not be sent to: it is private, local, reserved, or the address is no plain web address. Trying
// again does not help.
var ErrRefused = errors.New("this address may not be sent to")

// Message is one event for one address.
type Message struct {
	URL    string
	Secret []byte // nil: not signed, for receivers whose address is the secret
	Old    []byte // signs too while a secret is exchanged; nil: none
	// Authorization is the header of that name, for receivers that know us by a key; empty: none.
	Authorization string
	EventID       string
	Event         string
	Body          []byte
	At            time.Time // becomes part of the signature
}

// Answer is what the receiver said.
type Answer struct {
	Status int    // 0: no answer
	Text   string // its first bytes
}

// Send makes one attempt. Anything but a 2xx answer is an error; the answer is returned as far as there is one.
func (s *Sender) Send(ctx context.Context, m Message) (Answer, error) {
	u, err := s.check(m.URL)
	if err != nil {
		return Answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(m.Body))
	if err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", s.cfg.Agent)
	if m.Authorization != "" {
		req.Header.Set("Authorization", m.Authorization)
	}
	if m.Secret != nil {
		req.Header.Set("Plimsoll-Event-Id", m.EventID)
		req.Header.Set("Plimsoll-Event", m.Event)
		secrets := [][]byte{m.Secret}
		if m.Old != nil {
			secrets = append(secrets, m.Old)
		}
		req.Header.Set("Plimsoll-Signature", Sign(m.At, m.Body, secrets...))
	}
	client := s.https
	if u.Scheme == "http" {
		client = s.plain
	}
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, reason(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes)) // a broken answer is still an answer
	a := Answer{Status: resp.StatusCode, Text: strings.ToValidUTF8(strings.ReplaceAll(string(text), "\x00", ""), "?")}
	switch {
	case a.Status >= 200 && a.Status < 300:
		return a, nil
	case a.Status >= 300 && a.Status < 400:
		return a, fmt.Errorf("answered %d, and redirects are not followed", a.Status)
	}
	return a, fmt.Errorf("answered %d", a.Status)
}

// Check says whether an address can be sent to as far as its text tells; networks are checked when connecting.
func (s *Sender) Check(rawURL string) error {
	_, err := s.check(rawURL)
	return err
}

func (s *Sender) check(raw string) (*url.URL, error) {
	refuse := func(why string) (*url.URL, error) {
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: "the address " + why, Field: "body.url", Err: ErrRefused}
	}
	if len(raw) > 2000 {
		return refuse("is longer than 2000 characters")
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.Opaque != "" {
		return refuse("is not a web address")
	}
	switch {
	case u.Scheme != "https" && (u.Scheme != "http" || len(s.cfg.Allow) == 0):
		return refuse("must begin with https://")
	case u.User != nil:
		return refuse("must not carry a user or password")
	case u.Fragment != "":
		return refuse("must not have a fragment")
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && !public(ip.Unmap()) && !s.allowed(ip.Unmap()) {
		return refuse("lies in a private or reserved network")
	}
	return u, nil
}

func (s *Sender) allowed(a netip.Addr) bool {
	for _, p := range s.cfg.Allow {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// reserved are networks that are not the public internet beyond those that netip knows by name.
var reserved = func() (all []netip.Prefix) {
	for _, p := range []string{"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"240.0.0.0/4", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "fec0::/10", "::/96"} {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}()

// public says whether an address is one of the public internet. a is unmapped.
func public(a netip.Addr) bool {
	if !a.IsValid() || !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.Zone() != "" {
		return false
	}
	for _, p := range reserved {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// reason makes a short sentence of a transport error: the URL in it may hold a token, and is left out.
func reason(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("no answer in time: %w", err)
	}
	return err
}
