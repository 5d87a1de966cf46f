package act

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	simTimeout  = 10 * time.Second
	simMaxBytes = 64 << 20
)

// Sim scales the workloads of a simulated cluster through its door.
type Sim struct {
	url    string
	client *http.Client
}

// NewSim makes the actuator for the door at a base URL.
func NewSim(url string) *Sim {
	return &Sim{url: strings.TrimRight(url, "/"), client: &http.Client{Timeout: simTimeout}}
}

// Read implements Actuator.
func (s *Sim) Read(ctx context.Context, workload string) (Scale, error) {
	var state struct {
		Inventory struct {
			Workloads []struct {
				Key      string `json:"key"`
				Replicas int32  `json:"replicas"`
			} `json:"workloads"`
		} `json:"inventory"`
	}
	if err := s.call(ctx, http.MethodGet, "/sim/v1/state", nil, &state); err != nil {
		return Scale{}, err
	}
	for _, w := range state.Inventory.Workloads {
		if w.Key == workload {
			return Scale{Replicas: w.Replicas}, nil
		}
	}
	return Scale{}, fmt.Errorf("%s: %w", workload, ErrNotFound)
}

// Set implements Actuator. The door compares "from" with what is there and answers 409 when it differs.
func (s *Sim) Set(ctx context.Context, workload string, from Scale, to int32) (Scale, error) {
	req := struct {
		Workload string `json:"workload"`
		Replicas int32  `json:"replicas"`
		From     int32  `json:"from"`
	}{workload, to, from.Replicas}
	var res struct {
		Before int32 `json:"before"`
		After  int32 `json:"after"`
	}
	if err := s.call(ctx, http.MethodPost, "/sim/v1/scale", req, &res); err != nil {
		return Scale{}, err
	}
	return Scale{Replicas: res.After}, nil
}

func (s *Sim) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("simulated cluster: %w", err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, simMaxBytes))
	switch {
	case err != nil:
		return fmt.Errorf("simulated cluster: %w", err)
	case res.StatusCode == http.StatusNotFound:
		return ErrNotFound
	case res.StatusCode == http.StatusUnprocessableEntity || res.StatusCode == http.StatusForbidden:
		return fmt.Errorf("simulated cluster: %w", ErrForbidden)
	case res.StatusCode == http.StatusConflict:
		return ErrConflict
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("simulated cluster answered %s", res.Status)
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("simulated cluster: %w", err)
	}
	return nil
}
