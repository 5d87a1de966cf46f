package act

import (
	"fmt"
	"strings"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// eventsAtOnce bounds the events of one report; the service takes a thousand.
const eventsAtOnce = 500

// settle writes down how a leave ended, then tells it, then writes down that it is told. Whatever of this fails, or does not happen since the
// agent dies, is done again, by this life or the next: an end may be told twice, with the same times and ids, and is never lost.
func (d *Drainer) settle(x Drain) {
	err := d.settleOnce(x)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		delete(d.ended, x.ID)
		return
	}
	if _, again := d.ended[x.ID]; !again {
		d.env.Log.Error("the end of a drain cannot be told yet", "drain", x.ID, "error", err)
	}
	d.ended[x.ID] = x
}

func (d *Drainer) settleOnce(x Drain) error {
	if err := d.log.Put(x); err != nil { // what is not written down is not told: the next life would say something else
		return fmt.Errorf("write drain log: %w", err)
	}
	if err := d.tellEnd(x); err != nil {
		return err
	}
	x.Owes = false
	if err := d.log.Put(x); err != nil {
		return fmt.Errorf("write drain log: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.log.ToldOf(x.ID) {
		delete(d.said, t.ID)
	}
	return nil
}

// settleAll tries again what could not be told.
func (d *Drainer) settleAll() {
	d.mu.Lock()
	var all []Drain
	for _, x := range d.ended {
		all = append(all, x)
	}
	d.mu.Unlock()
	for _, x := range all {
		d.settle(x)
	}
}

// tellEnd reports how a leave ended, and what its pods were told, as far as no event of this life did: to everybody who asked for it.
func (d *Drainer) tellEnd(x Drain) error {
	told := d.log.ToldOf(x.ID)
	if d.env.Events != nil {
		var events []*agentv1.Event
		for _, t := range told {
			d.mu.Lock()
			said := d.said[t.ID]
			d.mu.Unlock()
			if t.Owes && t.Outcome != "" && !said {
				events = append(events, toldEvent(x, t))
			}
		}
		events = append(events, &agentv1.Event{AtMs: x.EndMS, Kind: "drain", Object: "Node/" + x.Node, Reason: x.Ended,
			Message: strings.TrimSuffix(fmt.Sprintf("%s, %.1f s: %s", x.Cause, float64(x.EndMS-x.StartMS)/1000, x.Detail), ": ")})
		for len(events) > 0 {
			n := min(len(events), eventsAtOnce)
			if err := d.env.Events(events[:n]); err != nil {
				return fmt.Errorf("tell how a drain ended: %w", err)
			}
			events = events[n:]
		}
	}
	if d.env.Result == nil {
		return nil
	}
	for _, a := range d.log.askers(x) {
		r := &agentv1.ActionResult{ActionId: a.Action, PlanId: a.Plan, Generation: a.Generation, Outcome: "applied", AtMs: x.EndMS}
		if x.Ended != "done" {
			r.Outcome, r.ErrorCode, r.Error = "failed", "precondition", x.Detail
		}
		for _, t := range told {
			r.Checkpoints = append(r.Checkpoints, wireTold(x, t))
		}
		if err := d.env.Result(r); err != nil {
			return fmt.Errorf("tell a plan how its drain ended: %w", err)
		}
	}
	return nil
}

// toldEvent is the same however often it is made.
func toldEvent(x Drain, t Told) *agentv1.Event {
	return &agentv1.Event{AtMs: t.AtMS + t.TookMS, Kind: "checkpoint", Object: "Pod/" + t.Pod, Workload: t.Workload, Reason: t.Outcome, Message: sentence(t), Checkpoint: wireTold(x, t)}
}
