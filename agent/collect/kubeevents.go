package collect

import (
	"strings"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	corev1 "k8s.io/api/core/v1"
)

const maxEventMessage = 500

// eventLog turns states into events: each bad state is told once, when it begins. What is there at the first look is old news
// for nodes that vanished, and news for everything else.
type eventLog struct {
	told  map[string]bool // by kind, object and reason
	nodes map[string]bool // names seen at the last look; nil before the first
	leave map[string]bool // nodes that will be taken back, as was told
}

func newEventLog() eventLog { return eventLog{told: map[string]bool{}} }

// since returns the events of the states that began since the last look, and supply, what was heard. A node is given notice
// once, by whoever says so first.
func (l *eventLog) since(v *view, inv *agentv1.Inventory, supply []*agentv1.Event, nowMS int64) []*agentv1.Event {
	var out []*agentv1.Event
	leave := map[string]bool{}
	notice := func(e *agentv1.Event) {
		if !l.leave[e.GetObject()] && !leave[e.GetObject()] {
			e.AtMs = nowMS
			out = append(out, e)
		}
		leave[e.GetObject()] = true
	}
	now := map[string]bool{}
	tell := func(e *agentv1.Event) {
		key := e.GetKind() + "\x00" + e.GetObject() + "\x00" + e.GetReason()
		now[key] = true
		if !l.told[key] {
			e.AtMs, e.Message = nowMS, e.GetMessage()[:min(len(e.GetMessage()), maxEventMessage)]
			e.Message = strings.ToValidUTF8(e.Message, "")
			out = append(out, e)
		}
	}
	nodes := map[string]bool{}
	for _, n := range v.nodes {
		nodes[n.Name] = true
		if l.leave["Node/"+n.Name] {
			leave["Node/"+n.Name] = true
		}
		if reason, message := reclaimed(n); reason != "" {
			notice(&agentv1.Event{Kind: "interruption_notice", Object: "Node/" + n.Name, Reason: reason, Message: message})
		}
		nodeEvents(n, tell)
	}
	for _, e := range supply {
		if e.GetKind() == "interruption_notice" {
			notice(e)
		} else {
			out = append(out, e)
		}
	}
	for _, name := range sortedKeys(l.nodes) {
		if !nodes[name] {
			out = append(out, &agentv1.Event{AtMs: nowMS, Kind: "node_lost", Object: "Node/" + name, Reason: "Gone", Message: "the node left the cluster"})
		}
	}
	for _, p := range v.pods {
		podEvents(p, v.podWorkload[p], tell)
	}
	for _, w := range inv.GetWriters() {
		tell(&agentv1.Event{Kind: "conflict", Object: w.GetWorkload(), Workload: w.GetWorkload(), Reason: w.GetManager(),
			Message: w.GetManager() + " also writes " + w.GetField()})
	}
	l.told, l.nodes, l.leave = now, nodes, leave
	return out
}

// reclaimed says by what sign the cloud takes a node back; empty: by none. An autoscaler that gives a node back leaves other ones.
func reclaimed(n *corev1.Node) (reason, message string) {
	for _, t := range n.Spec.Taints {
		if what, ok := reclaimTaints[t.Key]; ok {
			return t.Key, what
		}
	}
	if strings.HasPrefix(n.Labels["aws-node-termination-handler/event-id"], "spot-itn") {
		return "aws-node-termination-handler/event-id", "spot interruption notice"
	}
	for _, c := range n.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		if c.Type == "PreemptScheduled" || (c.Type == "VMEventScheduled" && strings.Contains(c.Reason+c.Message, "Preempt")) {
			return "PreemptScheduled", noticeReasons["PreemptScheduled"]
		}
	}
	return "", ""
}

func nodeEvents(n *corev1.Node, tell func(*agentv1.Event)) {
	if phase, _ := nodePhase(n); phase == "not_ready" {
		tell(&agentv1.Event{Kind: "node_lost", Object: "Node/" + n.Name, Reason: "NotReady", Message: "the node is not ready"})
	}
}

func podEvents(p *corev1.Pod, workload string, tell func(*agentv1.Event)) {
	object := "Pod/" + p.Namespace + "/" + p.Name
	if c := condition(p, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
		tell(&agentv1.Event{Kind: "failed_scheduling", Object: object, Workload: workload, Reason: c.Reason, Message: c.Message})
	}
	for _, s := range containerStatuses(p) {
		if w := s.State.Waiting; w != nil && (strings.HasPrefix(w.Reason, "ErrImage") || w.Reason == "ImagePullBackOff" || w.Reason == "InvalidImageName") {
			tell(&agentv1.Event{Kind: "image_pull", Object: object, Workload: workload, Reason: "ImagePull", Message: w.Message})
		}
		for _, t := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
			if t != nil && t.Reason == "OOMKilled" {
				tell(&agentv1.Event{Kind: "oom", Object: object, Workload: workload, Reason: t.Reason, Message: "container " + s.Name + " used more memory than its limit"})
			}
		}
	}
}
