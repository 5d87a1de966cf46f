package collect

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

const simMaxBytes = 64 << 20

// Sim reads a simulated cluster through its door: inventory, observation, values and events in one answer, on its own clock.
type Sim struct {
	url    string
	cursor string
	client *http.Client
}

// NewSim makes the source for the door at a base URL.
func NewSim(url string) *Sim {
	return &Sim{url: strings.TrimRight(url, "/"), client: &http.Client{Timeout: sourceTime}}
}

// Name implements Source.
func (s *Sim) Name() string { return "sim" }

type simState struct {
	NowMS       int64             `json:"now_ms"`
	Speed       float64           `json:"speed"`
	Inventory   json.RawMessage   `json:"inventory"`
	Observation json.RawMessage   `json:"observation"`
	Series      []simValue        `json:"series"`
	Events      []json.RawMessage `json:"events"`
	Cursor      json.RawMessage   `json:"cursor"`
}

type simValue struct {
	Kind   string  `json:"kind"`
	Entity string  `json:"entity"`
	Field  string  `json:"field"`
	Value  float64 `json:"value"`
}

// Collect implements Source.
func (s *Sim) Collect(ctx context.Context, _ Input) (Batch, error) {
	target := s.url + "/sim/v1/state"
	if s.cursor != "" {
		target += "?since=" + url.QueryEscape(s.cursor)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return Batch{}, err
	}
	res, err := s.client.Do(req)
	if err != nil {
		return Batch{}, fmt.Errorf("read simulated cluster: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, simMaxBytes))
	if err != nil {
		return Batch{}, fmt.Errorf("read simulated cluster: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return Batch{}, fmt.Errorf("read simulated cluster: it answered %s", res.Status)
	}
	return s.parse(body)
}

func (s *Sim) parse(body []byte) (Batch, error) {
	var st simState
	if err := json.Unmarshal(body, &st); err != nil {
		return Batch{}, fmt.Errorf("read simulated cluster: %w", err)
	}
	b := Batch{AtMS: st.NowMS, Speed: st.Speed, Inventory: &agentv1.Inventory{}}
	if b.AtMS <= 0 {
		return Batch{}, fmt.Errorf("read simulated cluster: it has no time")
	}
	observation := &agentv1.Observation{}
	if err := unmarshal(st.Inventory, b.Inventory); err != nil {
		return Batch{}, fmt.Errorf("read simulated inventory: %w", err)
	}
	if err := unmarshal(st.Observation, observation); err != nil {
		return Batch{}, fmt.Errorf("read simulated observation: %w", err)
	}
	b.Workloads = observation.GetWorkloads()
	for _, raw := range st.Events {
		e := &agentv1.Event{}
		if err := unmarshal(raw, e); err != nil {
			return Batch{}, fmt.Errorf("read simulated event: %w", err)
		}
		b.Events = append(b.Events, e)
	}
	for _, v := range st.Series {
		b.Values = append(b.Values, Value(v))
	}
	s.cursor = strings.Trim(string(st.Cursor), `"`)
	if s.cursor == "null" {
		s.cursor = ""
	}
	return b, nil
}

func unmarshal(raw json.RawMessage, into proto.Message) error {
	if len(raw) == 0 {
		return nil
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(raw, into)
}
