package main

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/replay"
)

// demoDoor is the small HTTP door through which the agent's sim source reads the World and scales in it. It listens on loopback only.
type demoDoor struct {
	demo   *demo
	url    string
	server *http.Server
	failed chan error
}

// simState is the answer of GET /sim/v1/state.
type simState struct {
	NowMS       int64             `json:"now_ms"`
	Speed       float64           `json:"speed"`
	Inventory   json.RawMessage   `json:"inventory"`   // agent.v1.Inventory, a snapshot; what ended within the last hour is in it, ended
	Observation json.RawMessage   `json:"observation"` // agent.v1.Observation, newest tick
	Series      []replay.Series   `json:"series"`
	Events      []json.RawMessage `json:"events"` // agent.v1.Event since ?since=
	Cursor      int64             `json:"cursor"`
}

func openDoor(ctx context.Context, d *demo, listen string) (*demoDoor, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, err
	}
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		_ = l.Close()
		return nil, fleet.Errorf(fleet.CodeInvalid, "the demo's door listens on loopback only, not on %s", listen)
	}
	door := &demoDoor{demo: d, url: "http://" + l.Addr().String(), failed: make(chan error, 1)}
	door.server = &http.Server{Handler: door.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 20 * time.Second, MaxHeaderBytes: 16 << 10}
	go func() {
		if err := door.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			door.failed <- err
		}
	}()
	return door, nil
}

func (door *demoDoor) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return door.server.Shutdown(ctx)
}

func (door *demoDoor) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sim/v1/state", door.state)
	mux.HandleFunc("POST /sim/v1/scale", door.scale)
	mux.HandleFunc("GET /sim/v1/speed", door.speed)
	mux.HandleFunc("PUT /sim/v1/speed", door.setSpeed)
	return mux
}

func (door *demoDoor) state(w http.ResponseWriter, r *http.Request) {
	since := int64(math.MaxInt64) // a first call learns the cursor; what happened before is history
	if text := r.URL.Query().Get("since"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			refuse(w, http.StatusUnprocessableEntity, "since is the cursor of an earlier answer")
			return
		}
		since = n
	}
	state, err := door.demo.state(since)
	if err != nil {
		door.demo.cfg.Log.Error("demo state", "error", err)
		refuse(w, http.StatusInternalServerError, "the simulated cluster failed")
		return
	}
	answer(w, state)
}

// state reads the World at its present.
func (d *demo) state(since int64) (*simState, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.world.AdvanceTo(d.clock.at(d.cfg.now())); err != nil {
		return nil, err
	}
	s := &simState{NowMS: d.world.Now().UnixMilli(), Speed: d.clock.speed, Series: d.world.Series(), Events: []json.RawMessage{}}
	inventory, _ := wireInventory(d.world, 0, true)
	tick := d.world.Now().Truncate(replay.SampleMillis * time.Millisecond)
	observation := wireObservation(d.world.States(2*replay.SampleMillis*time.Millisecond), tick, d.clock.speed)
	var err error
	if s.Inventory, err = protojson.Marshal(inventory); err != nil {
		return nil, err
	}
	if s.Observation, err = protojson.Marshal(observation); err != nil {
		return nil, err
	}
	events, cursor := d.world.Events(since)
	for _, e := range events {
		doc, err := protojson.Marshal(wireEvent(e))
		if err != nil {
			return nil, err
		}
		s.Events = append(s.Events, doc)
	}
	s.Cursor = cursor
	return s, nil
}

func (door *demoDoor) scale(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Workload string `json:"workload"`
		Replicas *int   `json:"replicas"`
		From     *int   `json:"from"` // if it is there, only from this count
	}
	if !read(w, r, &in) {
		return
	}
	if in.Replicas == nil {
		refuse(w, http.StatusUnprocessableEntity, "say how many replicas")
		return
	}
	d := door.demo
	d.mu.Lock()
	defer d.mu.Unlock()
	if in.From != nil {
		list, replicas := d.world.Workloads()
		for i, l := range list {
			if l.Key == in.Workload && replicas[i] != *in.From && replicas[i] != *in.Replicas {
				refuse(w, http.StatusConflict, "it has "+strconv.Itoa(replicas[i])+" replicas meanwhile")
				return
			}
		}
	}
	before, after, err := d.world.Scale(in.Workload, *in.Replicas)
	var coded *fleet.Error
	switch {
	case errors.As(err, &coded) && coded.Code == fleet.CodeNotFound:
		refuse(w, http.StatusNotFound, coded.Message)
	case err != nil:
		refuse(w, http.StatusUnprocessableEntity, err.Error())
	default:
		answer(w, map[string]int{"before": before, "after": after})
	}
}

func (door *demoDoor) speed(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]float64{"speed": door.demo.Speed()})
}

func (door *demoDoor) setSpeed(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Speed float64 `json:"speed"`
	}
	if !read(w, r, &in) {
		return
	}
	if err := door.demo.SetSpeed(in.Speed); err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	door.speed(w, r)
}

// read takes a small JSON body with known fields only. The content type keeps forms of foreign web pages out.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		refuse(w, http.StatusUnsupportedMediaType, "the body is application/json")
		return false
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 16<<10))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		refuse(w, http.StatusUnprocessableEntity, "the body is not what is expected: "+err.Error())
		return false
	}
	return true
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client is gone; nothing is left to do
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": message}) // as above
}
