package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

const (
	heartbeat    = 15 * time.Second
	maxListeners = 2000             // dashboards of one process
	listenerLife = 15 * time.Minute // then it comes back and shows again that it may listen
)

// events streams what changes in the tenant: server-sent events of the types cluster, decision, cost and alert, and resync when some
// were missed. The data names what changed; the listener loads it.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	p := who(r.Context())
	if p.Tenant == "" {
		writeProblem(w, r, fleet.Errorf(fleet.CodeUnauthorized, "sign in, or send an API key"))
		return
	}
	if s.listeners.Add(1) > maxListeners {
		s.listeners.Add(-1)
		writeProblem(w, r, fleet.Errorf(fleet.CodeUnavailable, "too many live views are open"))
		return
	}
	defer s.listeners.Add(-1)
	sub := s.broker.subscribe(p.Tenant, "")
	defer s.broker.unsubscribe(sub)
	out := sse{w: w, control: http.NewResponseController(w), limit: s.cfg.SendDeadline}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	err := out.write("retry: 2000\n: connected\n\n")
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	life := time.NewTimer(listenerLife)
	defer life.Stop()
	for err == nil {
		select {
		case <-r.Context().Done():
			return
		case <-s.closing.Done():
			return
		case <-life.C:
			return
		case <-beat.C:
			err = out.write(": still here\n\n")
		case <-sub.resync:
			err = out.write("event: resync\ndata: {}\n\n")
		case e := <-sub.events:
			err = out.event(e)
		}
	}
}

type sse struct {
	w       http.ResponseWriter
	control *http.ResponseController
	limit   time.Duration
}

func (s sse) write(text string) error {
	return within(s.control, s.limit, func() error {
		if _, err := s.w.Write([]byte(text)); err != nil {
			return err
		}
		return s.control.Flush()
	})
}

// event writes one event. What only agents need to hear is left out.
func (s sse) event(e store.Event) error {
	data := map[string]string{}
	if e.Cluster != "" {
		data["cluster_id"] = string(e.Cluster)
	}
	name := string(e.Kind)
	switch e.Kind {
	case store.EventCluster, store.EventCost:
	case store.EventConfig:
		name = string(store.EventCluster)
	case store.EventPlan:
		name, data["plan_id"] = string(store.EventDecision), e.ID
	case store.EventDecision:
		data["decision_id"] = e.ID
	case store.EventAlert:
		data["alert_id"] = e.ID
	default: // of a newer replica
		return nil
	}
	body, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return s.write(fmt.Sprintf("event: %s\ndata: %s\n\n", name, body))
}
