package collect

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Bounds of what is kept between two looks and of what one look tells.
const (
	maxSupplyPending   = 1000
	maxSupplySeen      = 8192
	maxSupplyClaims    = 2048
	maxSupplyEvents    = 300
	maxSupplyOfferings = 8          // that one failure is told of
	supplyPauseMS      = 60_000     // the same failure is told once in this time
	supplyOldMS        = 2 * 60_000 // what is older at the first look was told by a former life of the agent
)

// supplyLog hears from watches what autoscalers and clouds say about the supply of machines, and tells it at the next look.
type supplyLog struct {
	mu      sync.Mutex
	pending []*corev1.Event
	blocked []*nodeClaim        // whose launch failed
	seen    map[types.UID]int32 // events by their count, claims by -1
	claims  map[string]*nodeClaim
	order   []string         // of claims, oldest first
	told    map[string]int64 // object and message, when
	sinceMS int64            // events older than this are not news; 0 before the first look
	notices map[string]int64 // nodes by name, when somebody gave notice that the cloud takes them back
	first   map[string]int64 // nodes by uid, when a sign of the same was seen first
}

const (
	noticeOldMS = 10 * 60_000 // after which a notice is forgotten
	maxNotices  = 4096
)

// heard returns the notices that events gave, by node, with their time.
func (l *supplyLog) heard(nowMS int64) map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.notices, func(_ string, at int64) bool { return nowMS-at > noticeOldMS })
	return maps.Clone(l.notices)
}

// since is when this was asked first of a node.
func (l *supplyLog) since(uid string, nowMS int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil || len(l.first) >= maxNotices {
		l.first = map[string]int64{}
	}
	if _, ok := l.first[uid]; !ok {
		l.first[uid] = nowMS
	}
	return l.first[uid]
}

// nodeClaim is what we read of Karpenter's request for a machine.
type nodeClaim struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Requirements []struct {
			Key      string   `json:"key"`
			Operator string   `json:"operator"`
			Values   []string `json:"values"`
		} `json:"requirements"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// claimObject turns what the API serves into what is kept.
func claimObject(x any) (any, error) {
	u, ok := x.(*unstructured.Unstructured)
	if !ok {
		return x, nil
	}
	c := &nodeClaim{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, c) != nil {
		return x, nil //nolint:nilerr // nobody reads an object of another type
	}
	c.ManagedFields, c.Annotations = nil, nil
	return c, nil
}

func (c *nodeClaim) pool() string { return c.Labels["karpenter.sh/nodepool"] }

// values are what a requirement allows; nil when it excludes or is not there.
func (c *nodeClaim) values(key string) []string {
	for _, r := range c.Spec.Requirements {
		if r.Key == key && r.Operator == "In" {
			return r.Values
		}
	}
	return nil
}

// failedLaunch is the condition that says that there was no machine.
func (c *nodeClaim) failedLaunch() *metav1.Condition {
	for i := range c.Status.Conditions {
		if x := &c.Status.Conditions[i]; x.Type == "Launched" && x.Status != metav1.ConditionTrue &&
			(strings.Contains(x.Reason, "InsufficientCapacity") || isStockOut(x.Message)) {
			return x
		}
	}
	return nil
}

// claim remembers a claim: the event about it comes when it is gone.
func (l *supplyLog) claim(c *nodeClaim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.claims == nil {
		l.claims = map[string]*nodeClaim{}
	}
	if l.claims[c.Name] == nil {
		if len(l.order) >= maxSupplyClaims {
			delete(l.claims, l.order[0])
			l.order = l.order[1:]
		}
		l.order = append(l.order, c.Name)
	}
	l.claims[c.Name] = c
	if c.failedLaunch() != nil && len(l.blocked) < maxSupplyPending && l.fresh(c.UID, 1) {
		l.blocked = append(l.blocked, c)
	}
}

// event takes an event that concerns supply, each occurrence once.
func (l *supplyLog) event(e *corev1.Event) {
	if supplyKind(e) == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if supplyKind(e) == "interruption_notice" && len(l.notices) < maxNotices {
		if l.notices == nil {
			l.notices = map[string]int64{}
		}
		l.notices[e.InvolvedObject.Name] = eventMS(e)
	}
	if len(l.pending) < maxSupplyPending && l.fresh(e.UID, eventCount(e)) {
		l.pending = append(l.pending, e)
	}
}

// fresh says whether the object was not seen with this count yet. The caller holds mu.
func (l *supplyLog) fresh(uid types.UID, count int32) bool {
	if l.seen == nil || len(l.seen) >= maxSupplySeen { // forgetting everything costs a repetition at most
		l.seen = map[types.UID]int32{}
	}
	if l.seen[uid] >= count {
		return false
	}
	l.seen[uid] = count
	return true
}

func eventCount(e *corev1.Event) int32 {
	if e.Series != nil {
		return max(e.Series.Count, 1)
	}
	return max(e.Count, 1)
}

func eventMS(e *corev1.Event) int64 {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return e.Series.LastObservedTime.UnixMilli()
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.UnixMilli()
	case !e.EventTime.IsZero():
		return e.EventTime.UnixMilli()
	}
	return e.CreationTimestamp.UnixMilli()
}

// noticeReasons are those of events about a node that the cloud takes back: of Karpenter, of the AWS termination handler and
// of Azure's node watch. A node that an autoscaler gives back is none of them.
var noticeReasons = map[string]string{
	"SpotInterrupted": "spot interruption notice", "InstanceSpotInterrupted": "spot interruption notice",
	"SpotInterruption": "spot interruption notice", "PreemptScheduled": "the cloud will take the machine back",
}

// supplyKind is the kind of our event that one of the cluster's becomes; empty for most.
func supplyKind(e *corev1.Event) string {
	kind := e.InvolvedObject.Kind
	switch {
	case kind == "Node" && noticeReasons[e.Reason] != "":
		return "interruption_notice"
	case e.Reason == "InsufficientCapacityError":
		return "capacity_failure"
	case kind == "Pod" && e.Reason != "FailedScaleUp" && e.Reason != "NotTriggerScaleUp":
		return ""
	case (kind == "Pod" || e.Type == corev1.EventTypeWarning) && isStockOut(e.Message):
		return "capacity_failure"
	}
	return ""
}

// stockOutWords mean that the cloud has no machine, in lower case. A quota that is used up is not among them: that is an
// agreement, not supply.
var stockOutWords = []string{
	"out of resources", "out_of_resources", "insufficient capacity", "insufficientcapacity", "insufficient instance capacity", "insufficientinstancecapacity",
	"resource_pool_exhausted", "stockout", "allocationfailed", "skunotavailable", "unfulfillablecapacity", "no spot capacity", "insufficientreservedinstancecapacity",
}

var doNotHave = regexp.MustCompile(`not have sufficient .{0,60}capacity`)

func isStockOut(message string) bool {
	m := strings.ToLower(message)
	return slices.ContainsFunc(stockOutWords, func(w string) bool { return strings.Contains(m, w) }) || doNotHave.MatchString(m)
}

// slimEvent drops what nobody reads; an event that tells nothing of supply keeps its name only.
func slimEvent(e *corev1.Event) {
	e.ManagedFields, e.Annotations, e.Labels, e.OwnerReferences = nil, nil, nil, nil
	if supplyKind(e) == "" {
		*e = corev1.Event{TypeMeta: e.TypeMeta, ObjectMeta: metav1.ObjectMeta{Name: e.Name, Namespace: e.Namespace, UID: e.UID, ResourceVersion: e.ResourceVersion}}
	}
}

// look tells what was heard since the last look, in order.
func (l *supplyLog) look(v *view, nowMS int64) []*agentv1.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sinceMS == 0 {
		l.sinceMS, l.told = nowMS-supplyOldMS, map[string]int64{}
	}
	for key, at := range l.told {
		if nowMS-at >= supplyPauseMS || at > nowMS {
			delete(l.told, key)
		}
	}
	slices.SortStableFunc(l.pending, func(a, b *corev1.Event) int {
		return cmp.Or(cmp.Compare(eventMS(a), eventMS(b)), cmp.Compare(a.UID, b.UID))
	})
	slices.SortFunc(l.blocked, func(a, b *nodeClaim) int { return cmp.Compare(a.Name, b.Name) })
	var out []*agentv1.Event
	tell := func(e *agentv1.Event) {
		key := e.GetKind() + "\x00" + e.GetObject() + "\x00" + e.GetMessage()
		if _, ok := l.told[key]; !ok && len(out) < maxSupplyEvents {
			l.told[key] = nowMS
			e.AtMs = nowMS
			out = append(out, e)
		}
	}
	for _, c := range l.blocked {
		failed := c.failedLaunch()
		if failed.LastTransitionTime.UnixMilli() >= l.sinceMS {
			tellFailure(tell, failure{object: "NodePool/" + c.pool(), reason: failed.Reason, message: failed.Message, claim: c})
		}
	}
	for _, e := range l.pending {
		switch {
		case eventMS(e) < l.sinceMS:
		case supplyKind(e) == "interruption_notice":
			tell(&agentv1.Event{Kind: "interruption_notice", Object: "Node/" + e.InvolvedObject.Name, Reason: e.Reason, Message: noticeReasons[e.Reason]})
		default:
			tellFailure(tell, l.failure(v, e))
		}
	}
	l.pending, l.blocked = nil, nil
	return out
}
