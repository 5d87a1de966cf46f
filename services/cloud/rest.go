package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// Retry says how often and how patiently a call is made again after the cloud said "later" or broke off.
type Retry struct {
	Attempts int           // all in all; default 6
	Base     time.Duration // wait before the second attempt, doubled each time; default 500 ms
	Max      time.Duration // longest wait, and the longest that a cloud may ask for; default 30 s
}

// WithDefaults fills in what is zero.
func (r Retry) WithDefaults() Retry {
	if r.Attempts <= 0 {
		r.Attempts = 6
	}
	if r.Base <= 0 {
		r.Base = 500 * time.Millisecond
	}
	if r.Max <= 0 {
		r.Max = 30 * time.Second
	}
	return r
}

// Bounds of one call.
const (
	callTimeout  = time.Minute
	maxBodyBytes = 32 << 20
	maxErrorText = 64 << 10
)

// REST speaks JSON with one host of a cloud.
type REST struct {
	Base  string                                         // scheme and host, with a path or without
	Token func(ctx context.Context) (string, error)      // for the Authorization header; nil: none
	HTTP  *http.Client                                   // nil: one of its own
	Retry Retry                                          //
	Error func(status int, body []byte) (string, string) // code and message of an error's body; nil: none
}

// Get fetches address, a path below Base or a whole URL on the same host, into out. It tries again when the cloud is busy, broken or
// breaks off. Errors are *fleet.Error with a message that people may see.
func (c *REST) Get(ctx context.Context, address string, out any) error {
	return c.call(ctx, http.MethodGet, address, nil, out)
}

// Post sends in and reads the answer into out.
func (c *REST) Post(ctx context.Context, address string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	return c.call(ctx, http.MethodPost, address, body, out)
}

// Resolve gives the URL of address; a link to another host is refused, so that a token never goes there.
func (c *REST) Resolve(address string) (string, error) {
	base, err := url.Parse(c.Base)
	if err != nil {
		return "", fmt.Errorf("parse base address: %w", err)
	}
	if strings.HasPrefix(address, "/") {
		return strings.TrimRight(c.Base, "/") + address, nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", &fleet.Error{Code: fleet.CodeUnavailable, Message: "the cloud gave a link that is none", Err: err}
	}
	host := func(u *url.URL) string { // a port that the scheme implies is none
		port := u.Port()
		if port == "" && u.Scheme == "https" {
			port = "443"
		}
		return strings.ToLower(u.Hostname()) + ":" + port
	}
	if u.Scheme != base.Scheme || host(u) != host(base) || u.User != nil {
		return "", fleet.Errorf(fleet.CodeUnavailable, "the cloud gave a link to another host, %q", u.Host)
	}
	return u.String(), nil
}

func (c *REST) call(ctx context.Context, method, address string, body []byte, out any) error {
	target, err := c.Resolve(address)
	if err != nil {
		return err
	}
	retry := c.Retry.WithDefaults()
	wait := retry.Base
	for attempt := 1; ; attempt++ {
		after, again, err := c.once(ctx, method, target, body, out)
		if err == nil {
			return nil
		}
		if !again || attempt >= retry.Attempts || after > retry.Max {
			return err
		}
		if Sleep(ctx, min(max(wait, after), retry.Max)) != nil {
			return err // what kept us waiting says more than that time ran out
		}
		wait *= 2
	}
}

// Sleep waits, or returns earlier with the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return context.DeadlineExceeded // it would not be in time
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// once makes one attempt. again says whether another may succeed, after how long the cloud asks to wait.
func (c *REST) once(ctx context.Context, method, target string, body []byte, out any) (after time.Duration, again bool, err error) {
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return 0, false, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Token != nil {
		token, err := c.Token(ctx)
		if err != nil {
			return 0, false, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := c.HTTP
	if client == nil {
		client = plain
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, caller.Err() == nil, unreachable(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorText))
		return retryAfter(resp.Header), busy(resp.StatusCode), c.refused(resp.StatusCode, text)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxBodyBytes+1))
	switch {
	case err != nil:
		return 0, caller.Err() == nil, unreachable(err)
	case len(answer) > maxBodyBytes:
		return 0, false, fleet.Errorf(fleet.CodeUnavailable, "the cloud's answer is larger than %d MiB", maxBodyBytes>>20)
	}
	if err := json.Unmarshal(answer, out); err != nil {
		// A page that ends early is worth another attempt; one that says something else is not.
		var syntax *json.SyntaxError
		return 0, errors.As(err, &syntax), &fleet.Error{Code: fleet.CodeUnavailable, Message: "the cloud's answer cannot be read", Err: err}
	}
	return 0, false, nil
}

// plain follows no redirect: a token must not go where an answer points.
var plain = &http.Client{Timeout: callTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func busy(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// retryAfter reads both forms of the header; a date counts from the answer's own.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if n, err := strconv.Atoi(text); err == nil && n > 0 && n < 1<<20 {
		return time.Duration(n) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return max(at.Sub(now), 0)
}

func unreachable(err error) error {
	return &fleet.Error{Code: fleet.CodeUnavailable, Message: "the cloud cannot be reached", Err: err}
}

func (c *REST) refused(status int, body []byte) error {
	code, message := "", ""
	if c.Error != nil {
		code, message = c.Error(status, body)
	}
	return Refused(status, code, message)
}

// Refused makes the error of an answer that is none: a code that says what to do, and a message for people with the cloud's own words.
func Refused(status int, code, message string) error {
	words := strings.TrimSpace(code + " " + Clip(message))
	if words == "" {
		words = "HTTP " + strconv.Itoa(status)
	}
	switch {
	case status == http.StatusTooManyRequests:
		return fleet.Errorf(fleet.CodeRateLimited, "the cloud wants fewer requests: %s", words)
	case status == http.StatusUnauthorized:
		return fleet.Errorf(fleet.CodeUnauthorized, "the cloud does not accept the credentials: %s", words)
	case status == http.StatusForbidden:
		return fleet.Errorf(fleet.CodeForbidden, "the credentials lack a permission: %s", words)
	case status == http.StatusNotFound:
		return fleet.Errorf(fleet.CodeNotFound, "the cloud does not know it: %s", words)
	case status >= 400 && status < 500:
		return fleet.Errorf(fleet.CodeInvalid, "the cloud refused the request: %s", words)
	}
	return fleet.Errorf(fleet.CodeUnavailable, "the cloud is not available: %s", words)
}

// Clip shortens a cloud's message to one line that can be shown and kept.
func Clip(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " ")
	if r := []rune(s); len(r) > 300 {
		return string(r[:300]) + "..."
	}
	return s
}

// Problem is what of an error may be shown to people.
func Problem(err error) string {
	var known *fleet.Error
	if errors.As(err, &known) {
		return known.Message
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "the cloud took too long"
	}
	return "something went wrong here, not in the cloud; the log tells what"
}
