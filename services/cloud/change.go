package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"plimsoll.dev/services/fleet"
)

// Refusal is an answer that is none, with the cloud's own code, for callers that branch on it. It unwraps to a *fleet.Error.
type Refusal struct {
	Status  int
	Code    string
	Message string
	Err     error
}

// Error implements error.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap implements errors.
func (r *Refusal) Unwrap() error { return r.Err }

// Change sends a change that may be sent again without harm, and reads the answer into out when there is one; out may be nil. header goes
// along. It tries again when the cloud is busy or broken, like Get. It returns the answer's headers. Refusals are *Refusal; an object that
// changed meanwhile is CodeConflict.
func (c *REST) Change(ctx context.Context, method, address string, header http.Header, in, out any) (http.Header, error) {
	target, err := c.Resolve(address)
	if err != nil {
		return nil, err
	}
	var body []byte
	if in != nil {
		if body, err = json.Marshal(in); err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
	}
	retry := c.Retry.WithDefaults()
	wait := retry.Base
	for attempt := 1; ; attempt++ {
		got, after, again, err := c.change(ctx, method, target, header, body, out)
		if err == nil || !again || attempt >= retry.Attempts || after > retry.Max || Sleep(ctx, min(max(wait, after), retry.Max)) != nil {
			return got, err
		}
		wait *= 2
	}
}

func (c *REST) change(ctx context.Context, method, target string, header http.Header, body []byte, out any) (got http.Header, after time.Duration, again bool, err error) {
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, 0, false, fmt.Errorf("make request: %w", err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Token != nil {
		token, err := c.Token(ctx)
		if err != nil {
			return nil, 0, false, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := c.HTTP
	if client == nil {
		client = plain
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, 0, caller.Err() == nil, unreachable(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxBodyBytes+1))
	switch {
	case resp.StatusCode >= 300:
		return nil, retryAfter(resp.Header), busy(resp.StatusCode), c.refusal(resp.StatusCode, answer[:min(len(answer), maxErrorText)])
	case err != nil:
		return nil, 0, caller.Err() == nil, unreachable(err)
	case len(answer) > maxBodyBytes:
		return nil, 0, false, fleet.Errorf(fleet.CodeUnavailable, "the cloud's answer is larger than %d MiB", maxBodyBytes>>20)
	case out == nil || len(answer) == 0:
		return resp.Header, 0, false, nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return nil, 0, false, &fleet.Error{Code: fleet.CodeUnavailable, Message: "the cloud's answer cannot be read", Err: err}
	}
	return resp.Header, 0, false, nil
}

func (c *REST) refusal(status int, body []byte) error {
	code, message := "", ""
	if c.Error != nil {
		code, message = c.Error(status, body)
	}
	err := Refused(status, code, message)
	if status == http.StatusConflict || status == http.StatusPreconditionFailed {
		err = fleet.Errorf(fleet.CodeConflict, "the cloud says that something else changes it: %s %s", code, Clip(message))
	}
	return &Refusal{Status: status, Code: code, Message: message, Err: err}
}
