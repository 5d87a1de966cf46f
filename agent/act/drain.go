package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Causes of a leave.
const (
	CauseInterruption  = "interruption"  // the cloud takes the machine back, at a time
	CauseRebalance     = "rebalance"     // the cloud says that it may
	CauseConsolidation = "consolidation" // another controller of the cluster lets it go
	CausePlan          = "plan"          // a plan of the service lets it go
)

const (
	noteDrain = "plimsoll.dev/drain" // of a node that was cordoned here: id and cause

	kindDrain = "Drain"

	defaultDrainSeconds = 900
	maxDrainSeconds     = 6 * 3600
	drainsAtOnce        = 16 // machines
	podsAtOnce          = 8  // of one machine
	evictPause          = 2 * time.Second
	evictMargin         = 5 * time.Second // of a notice that evictions get at least
	drainPage           = 500
	maxDrainPods        = 2000
	tellAgain           = 5 * time.Second
)

// Leave is a machine that goes.
type Leave struct {
	Node       string
	UID        string // of the node; empty: the node of this name
	Cause      string
	DeadlineMS int64 // when it is gone; 0: nobody says
	Evict      bool  // cordon it and evict its pods; false: somebody else does, its pods are only told
	Plan       string
	Action     string
	Generation uint64
}

// DrainEnv is what a Drainer knows of the world, besides the cluster's API.
type DrainEnv struct {
	NowMS    func() int64
	Allowed  func() string                     // why nothing may be evicted or told now; empty: it may
	Workload func(pod string) string           // key of a pod's workload, by "namespace/name"; empty: none
	Events   func([]*agentv1.Event) error      // takes what is to be told, and returns when it is safe; nil: nobody
	Result   func(*agentv1.ActionResult) error // takes how a plan's drain ended, and returns when that is safe; nil: nobody
	Log      *slog.Logger
}

// Drainer lets machines go gently: it cordons them, tells their pods to save their work, and evicts them under their disruption budgets. Each
// pod is told under one id, however often the agent starts anew. What a plan lets go for money is given up, and uncordoned, when a pod does
// not save its work or may not be evicted; what the cloud takes back, or may take back, is evicted in any case.
type Drainer struct {
	client kubernetes.Interface
	log    *DrainLog
	env    DrainEnv
	ask    checkpointer
	pause  time.Duration // between two tries of an eviction
	again  time.Duration // between two tries of telling an end

	// mu guards running, ended and said.
	mu      sync.Mutex
	running map[string]context.CancelFunc // by drain id
	ended   map[string]Drain              // how drains ended that nobody could be told of yet, by id
	said    map[string]bool               // checkpoints that this life told, by id
	slots   chan struct{}
	wg      sync.WaitGroup
	ctx     context.Context //nolint:containedctx // the life of the goroutines that Run waits for
	stop    context.CancelFunc
}

// NewDrainer makes a Drainer; nothing happens before Run.
func NewDrainer(client kubernetes.Interface, log *DrainLog, env DrainEnv) *Drainer {
	ctx, stop := context.WithCancel(context.Background())
	return &Drainer{client: client, log: log, env: env, ask: checkpointer{client: client, address: addressOf, pause: checkpointPause, now: env.NowMS}, pause: evictPause, again: tellAgain,
		running: map[string]context.CancelFunc{}, ended: map[string]Drain{}, said: map[string]bool{}, slots: make(chan struct{}, drainsAtOnce), ctx: ctx, stop: stop}
}

// Run takes up what a former life left open, tells what it did not tell, and waits for all drains when ctx ends. A drain that is under way stays
// open in the log.
func (d *Drainer) Run(ctx context.Context) error {
	for _, x := range d.log.Owing() {
		d.settle(x)
	}
	for _, open := range d.log.Open() {
		d.start(open)
	}
	t := time.NewTicker(d.again)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			d.stop()
			d.wg.Wait()
			d.settleAll()
			return nil
		case <-t.C:
			d.settleAll()
		}
	}
}

// Begin starts a leave and returns at once. The same leave is begun once: again says that it was begun before.
func (d *Drainer) Begin(l Leave) (drain Drain, again bool, err error) {
	if why := d.env.Allowed(); why != "" {
		return Drain{}, false, fmt.Errorf("%s: %w", why, ErrForbidden)
	}
	now := d.env.NowMS()
	uid, err := d.uid(l)
	if err != nil {
		return Drain{}, false, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if old, ok := d.log.Of(uid, l.Cause); ok {
		switch {
		case l.Cause != CausePlan || old.Plan == l.Plan && old.Action == l.Action:
			return old, true, nil
		case old.Ended == "": // another plan asks for what is under way: it is told the end as well
			joined, err := d.log.join(asker{old.ID, l.Plan, l.Action, l.Generation})
			if err != nil {
				return Drain{}, false, fmt.Errorf("write drain log: %w", err)
			}
			if joined {
				return old, true, nil
			}
		}
	}
	x := Drain{ID: fmt.Sprintf("dr-%s-%d", checkpointID(l.Cause, uid)[3:15], now), Node: l.Node, UID: uid, Cause: l.Cause, Evict: l.Evict, StartMS: now, DeadlineMS: l.DeadlineMS,
		Plan: l.Plan, Action: l.Action, Generation: l.Generation}
	if x.DeadlineMS <= 0 {
		x.DeadlineMS = now + defaultDrainSeconds*1000
	}
	x.DeadlineMS = min(x.DeadlineMS, now+maxDrainSeconds*1000)
	if err := d.log.Put(x); err != nil {
		return Drain{}, false, fmt.Errorf("write drain log: %w", err)
	}
	d.startLocked(x)
	return x, false, nil
}

// Known says whether the newest drain of a node and cause is in the log, so that nobody need ask the API for what is begun.
func (d *Drainer) Known(uid, cause string) bool {
	_, ok := d.log.Of(uid, cause)
	return ok
}

func (d *Drainer) uid(l Leave) (string, error) {
	ctx, cancel := context.WithTimeout(d.ctx, kubeTimeout)
	defer cancel()
	n, err := d.client.CoreV1().Nodes().Get(ctx, l.Node, metav1.GetOptions{})
	switch {
	case err != nil:
		return "", kubeError("Node/"+l.Node, err)
	case l.UID != "" && string(n.UID) != l.UID:
		return "", fmt.Errorf("the node %s is another machine than the plan saw: %w", l.Node, ErrNotFound)
	}
	return string(n.UID), nil
}

func (d *Drainer) start(x Drain) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.startLocked(x)
}

// startLocked runs a drain in the background. The caller holds mu.
func (d *Drainer) startLocked(x Drain) {
	if d.running[x.ID] != nil || d.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(d.ctx)
	d.running[x.ID] = cancel
	d.wg.Go(func() {
		defer func() {
			cancel()
			d.mu.Lock()
			delete(d.running, x.ID)
			d.mu.Unlock()
		}()
		if x.Cause == CausePlan { // what the cloud takes waits for nobody
			select {
			case d.slots <- struct{}{}:
				defer func() { <-d.slots }()
			case <-ctx.Done():
				return
			}
		}
		d.run(ctx, x)
	})
}

// run carries one leave to its end, unless the agent stops before.
func (d *Drainer) run(parent context.Context, x Drain) {
	left := time.Duration(x.DeadlineMS-d.env.NowMS()) * time.Millisecond
	ctx, cancel := context.WithTimeout(parent, max(left, 0))
	defer cancel()
	ended, detail := "given_up", d.env.Allowed() // the mode may have changed while the agent was away
	switch {
	case detail != "":
	case left <= 0 && d.emptied(parent, x):
		ended = "done"
	default:
		ended, detail = d.empty(ctx, &x)
	}
	if parent.Err() != nil {
		return // the next life takes it up
	}
	if _, goes := d.log.Of(x.UID, CauseInterruption); x.Cordoned && x.Cause != CauseInterruption && ended != "done" && !goes {
		d.uncordon(x)
	}
	x.Ended, x.Detail, x.EndMS, x.Owes = ended, detail, d.env.NowMS(), true
	d.env.Log.Info("drain ended", "drain", x.ID, "node", x.Node, "cause", x.Cause, "outcome", ended, "detail", detail, "ms", x.EndMS-x.StartMS)
	d.settle(x)
}

// emptied says whether a machine that was cordoned here has no pods left that a drain is about: what a former life began may be done.
func (d *Drainer) emptied(ctx context.Context, x Drain) bool {
	if !x.Evict || !x.Cordoned {
		return false
	}
	pods, err := d.podsOf(ctx, x.Node)
	return err == nil && len(pods) == 0
}

// empty cordons the machine and brings its pods away; ended is done, late, refused or given_up.
func (d *Drainer) empty(ctx context.Context, x *Drain) (ended, detail string) {
	pods, err := d.podsOf(ctx, x.Node)
	if err != nil {
		return "given_up", err.Error()
	}
	if x.Cause == CausePlan {
		for _, p := range pods {
			if why := stays(p); why != "" {
				return "refused", fmt.Sprintf("%s/%s stays: %s", p.Namespace, p.Name, why)
			}
		}
	}
	if x.Cause == CausePlan && x.Cordoned { // by a former life, which may have given up and died before it wrote that down
		if err := d.holds(ctx, *x); err != nil {
			return "given_up", err.Error()
		}
	}
	if x.Evict && !x.Cordoned {
		was, err := d.cordon(ctx, *x)
		if err != nil {
			return "given_up", err.Error()
		}
		x.Cordoned = !was
		if err := d.log.Put(*x); err != nil {
			return "given_up", "write drain log: " + err.Error()
		}
		if pods, err = d.podsOf(ctx, x.Node); err != nil { // one may have come meanwhile
			return "given_up", err.Error()
		}
	}
	return d.each(ctx, *x, pods)
}

// each brings pods away, some at a time; a pod that must not lose its work ends the rest of a plan's drain.
func (d *Drainer) each(ctx context.Context, x Drain, pods []*corev1.Pod) (ended, detail string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slots, results := make(chan struct{}, podsAtOnce), make(chan string, len(pods))
	// All are told before one is evicted where money is the reason: a plan that is given up has then cost nothing.
	told := make(map[types.UID]string, len(pods))
	var mu sync.Mutex // guards told
	var asking sync.WaitGroup
	for _, p := range pods {
		asking.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			outcome := d.tell(ctx, x, p)
			mu.Lock()
			told[p.UID] = outcome
			mu.Unlock()
			if x.Evict && x.Cause != CausePlan {
				results <- d.evict(ctx, p)
			}
		})
	}
	asking.Wait()
	if !x.Evict {
		if ctx.Err() != nil {
			return "late", "not all pods answered in time"
		}
		return "done", ""
	}
	if x.Cause == CausePlan {
		for _, p := range pods {
			if o := told[p.UID]; o != "" && o != CheckpointDone {
				return "given_up", fmt.Sprintf("%s/%s did not save its work: %s", p.Namespace, p.Name, o)
			}
		}
		var going sync.WaitGroup
		for _, p := range pods {
			going.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				results <- d.evict(ctx, p)
			})
		}
		going.Wait()
	}
	close(results)
	n := 0
	for why := range results {
		if why != "" {
			n++
			detail = why
		}
	}
	if n > 0 {
		return "late", fmt.Sprintf("%d of %d pods are still there, one of them: %s", n, len(pods), detail)
	}
	return "done", ""
}

// tell asks a pod to save its work, once for a drain, and keeps how it answered; empty: it does not want to be told.
func (d *Drainer) tell(ctx context.Context, x Drain, p *corev1.Pod) string {
	hook, err := hookOf(p)
	if hook == nil && err == nil {
		return ""
	}
	key := p.Namespace + "/" + p.Name
	t := Told{Drain: x.ID, ID: checkpointID(x.ID, string(p.UID)), PodUID: string(p.UID), Pod: key, Workload: d.env.Workload(key), AtMS: d.env.NowMS()}
	if was, ok := d.log.Told(t.ID); ok {
		if was.Outcome != "" {
			return was.Outcome
		}
		t = was // a former life asked and did not hear
	}
	if err != nil {
		t.Outcome, t.Detail = CheckpointRefused, err.Error()
	} else {
		if err := d.log.Tell(t); err != nil { // what cannot be written down is not begun
			d.env.Log.Error("drain log cannot be written", "drain", x.ID, "error", err)
			return CheckpointFailed
		}
		t = d.call(ctx, x, p, hook, t)
		if t.Outcome == "" {
			return CheckpointLate // the agent stops: the next life asks again, under the same id
		}
	}
	t.Owes = true
	if err := d.log.Tell(t); err != nil {
		d.env.Log.Error("drain log cannot be written", "drain", x.ID, "error", err)
	}
	d.env.Log.Info("checkpoint", "drain", x.ID, "pod", key, "outcome", t.Outcome, "ms", t.TookMS, "detail", t.Detail)
	if d.env.Events != nil && d.env.Events([]*agentv1.Event{toldEvent(x, t)}) == nil { // or with the drain's end
		d.mu.Lock()
		d.said[t.ID] = true
		d.mu.Unlock()
	}
	return t.Outcome
}

// call asks within what the pod declares and what is left of the notice.
func (d *Drainer) call(ctx context.Context, x Drain, p *corev1.Pod, hook *hookSpec, t Told) Told {
	now := d.env.NowMS()
	until := min(t.AtMS+hook.seconds*1000, x.DeadlineMS-evictMargin.Milliseconds())
	fresh, err := d.podNow(ctx, p)
	switch {
	case err != nil:
		t.Outcome, t.Detail = CheckpointFailed, err.Error()
	case fresh == nil:
		t.Outcome, t.Detail = CheckpointFailed, "the pod is gone"
	case until <= now:
		t.Outcome, t.Detail = CheckpointLate, "no time was left"
	default:
		var tries int32
		ask, cancel := context.WithTimeout(ctx, time.Duration(until-now)*time.Millisecond)
		t.Outcome, t.Detail, tries = d.ask.tell(ask, &telling{id: t.ID, cause: x.Cause, node: x.Node, pod: fresh, hook: hook, atMS: t.AtMS})
		cancel()
		t.Tries += tries
	}
	if d.ctx.Err() != nil && t.Outcome != CheckpointDone {
		t.Outcome = ""
		return t
	}
	t.TookMS = max(d.env.NowMS()-t.AtMS, 0)
	return t
}

// podNow is the pod as it is, nil where it ended, was replaced or is not on its node any more: another pod may have its address by now.
func (d *Drainer) podNow(ctx context.Context, p *corev1.Pod) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeTimeout)
	defer cancel()
	now, err := d.client.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, kubeError(p.Name, err)
	case now.UID != p.UID || podOver(now) || now.Spec.NodeName != p.Spec.NodeName:
		return nil, nil
	}
	return now, nil
}

// evict asks for a pod's eviction until it is granted, and waits until the pod is gone; why it is still there, or nothing.
func (d *Drainer) evict(ctx context.Context, p *corev1.Pod) (why string) {
	uid := p.UID
	asked := p.DeletionTimestamp != nil
	for {
		if !asked {
			err := d.client.CoreV1().Pods(p.Namespace).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
				DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}})
			switch {
			case err == nil:
				asked = true
			case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
				return "" // gone, or another pod has its name
			case apierrors.IsTooManyRequests(err):
				why = p.Namespace + "/" + p.Name + ": its disruption budget allows no eviction"
			case apierrors.IsForbidden(err):
				return p.Namespace + "/" + p.Name + ": the cluster does not allow the eviction"
			default:
				why = p.Namespace + "/" + p.Name + ": " + err.Error()
			}
		}
		if asked {
			if now, err := d.podNow(ctx, p); err == nil && now == nil {
				return ""
			}
			why = p.Namespace + "/" + p.Name + ": it is ending"
		}
		select {
		case <-ctx.Done():
			return why
		case <-time.After(d.pause):
		}
	}
}

// podsOf lists the pods of a node that a leave is about: those of daemon sets, of the node itself and those that ended are left out.
func (d *Drainer) podsOf(ctx context.Context, node string) ([]*corev1.Pod, error) {
	var out []*corev1.Pod
	opts := metav1.ListOptions{FieldSelector: "spec.nodeName=" + node, Limit: drainPage}
	for range maxDrainPods / drainPage {
		call, cancel := context.WithTimeout(ctx, kubeTimeout)
		list, err := d.client.CoreV1().Pods("").List(call, opts)
		cancel()
		if err != nil {
			return nil, kubeError("pods of Node/"+node, err)
		}
		for i := range list.Items {
			p := &list.Items[i]
			if p.Spec.NodeName == node && !podOver(p) && !stuck(p) {
				out = append(out, p)
			}
		}
		if opts.Continue = list.Continue; opts.Continue == "" {
			return out, nil
		}
	}
	return nil, fmt.Errorf("the node %s has more than %d pods", node, maxDrainPods)
}

func podOver(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// stuck pods stay with their machine: of daemon sets and of the kubelet's own files.
func stuck(p *corev1.Pod) bool {
	ref := metav1.GetControllerOf(p)
	return ref != nil && (ref.Kind == "DaemonSet" || ref.Kind == "Node") || p.Annotations[corev1.MirrorPodAnnotationKey] != ""
}

// stays is why a pod is not moved for money; empty: it may be.
func stays(p *corev1.Pod) string {
	switch {
	case p.DeletionTimestamp != nil:
		return ""
	case metav1.GetControllerOf(p) == nil:
		return "nobody would make it again"
	case p.Labels["plimsoll.dev/protected"] == "true":
		return "it is protected"
	case p.Labels["karpenter.sh/do-not-disrupt"] == "true" || p.Annotations["karpenter.sh/do-not-disrupt"] == "true":
		return "it must not be disrupted"
	case p.Labels["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false" || p.Annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false":
		return "it must not be evicted"
	}
	return ""
}

// cordon keeps new pods off the machine; was says that somebody else had done so.
func (d *Drainer) cordon(ctx context.Context, x Drain) (was bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, kubeTimeout)
	defer cancel()
	n, err := d.client.CoreV1().Nodes().Get(ctx, x.Node, metav1.GetOptions{})
	switch {
	case err != nil:
		return false, kubeError("Node/"+x.Node, err)
	case string(n.UID) != x.UID:
		return false, fmt.Errorf("the node %s is another machine now: %w", x.Node, ErrNotFound)
	case n.Annotations[noteDrain] == x.ID+" "+x.Cause && n.Spec.Unschedulable:
		return false, nil // a former life did
	case n.Spec.Unschedulable:
		return true, nil
	}
	return false, d.mark(ctx, x, true)
}

// holds is an error unless a machine is cordoned as a former life left it: one that takes pods again is not emptied for money.
func (d *Drainer) holds(ctx context.Context, x Drain) error {
	ctx, cancel := context.WithTimeout(ctx, kubeTimeout)
	defer cancel()
	n, err := d.client.CoreV1().Nodes().Get(ctx, x.Node, metav1.GetOptions{})
	switch {
	case err != nil:
		return kubeError("Node/"+x.Node, err)
	case string(n.UID) != x.UID:
		return fmt.Errorf("the node %s is another machine now: %w", x.Node, ErrNotFound)
	case !n.Spec.Unschedulable || n.Annotations[noteDrain] != x.ID+" "+x.Cause:
		return errors.New("the machine takes pods again: it was given up, or somebody uncordoned it")
	}
	return nil
}

func (d *Drainer) uncordon(x Drain) {
	ctx, cancel := context.WithTimeout(d.ctx, kubeTimeout)
	defer cancel()
	if err := d.mark(ctx, x, false); err != nil && !errors.Is(err, ErrNotFound) {
		d.env.Log.Error("a machine stays cordoned", "node", x.Node, "drain", x.ID, "error", err)
	}
}

func (d *Drainer) mark(ctx context.Context, x Drain, cordoned bool) error {
	return mark(ctx, d.client, x.Node, x.UID, cordoned, x.ID+" "+x.Cause)
}

func mark(ctx context.Context, client kubernetes.Interface, node, uid string, cordoned bool, note string) error {
	var value any
	if cordoned {
		value = note
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "annotations": map[string]any{noteDrain: value}}, "spec": map[string]any{"unschedulable": cordoned}})
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager}); err != nil {
		return kubeError("Node/"+node, err)
	}
	return nil
}

func wireTold(x Drain, t Told) *agentv1.Checkpoint {
	return &agentv1.Checkpoint{Id: t.ID, Pod: t.Pod, PodUid: t.PodUID, Workload: t.Workload, Node: x.Node, Cause: x.Cause, Outcome: t.Outcome, AtMs: t.AtMS, TookMs: t.TookMS,
		Detail: t.Detail, Tries: t.Tries}
}

func sentence(t Told) string {
	s := fmt.Sprintf("told to save its work, %.1f s", float64(t.TookMS)/1000)
	if t.Detail != "" {
		s += ": " + t.Detail
	}
	return s
}

// ReleaseNodes undoes on an uninstall what drains left: machines that were cordoned take pods again. Those that the cloud takes back stay cordoned.
func ReleaseNodes(ctx context.Context, client kubernetes.Interface) (done int, err error) {
	opts := metav1.ListOptions{Limit: drainPage}
	for range karpenterMax / drainPage {
		call, cancel := context.WithTimeout(ctx, kubeTimeout)
		list, lerr := client.CoreV1().Nodes().List(call, opts)
		cancel()
		if lerr != nil {
			return done, kubeError("nodes", lerr)
		}
		for i := range list.Items {
			n := &list.Items[i]
			_, cause, ours := strings.Cut(n.Annotations[noteDrain], " ")
			if !ours || cause == CauseInterruption {
				continue
			}
			call, cancel := context.WithTimeout(ctx, kubeTimeout)
			merr := mark(call, client, n.Name, string(n.UID), false, "")
			cancel()
			if merr == nil {
				done++
			} else if err == nil && !errors.Is(merr, ErrNotFound) {
				err = merr
			}
		}
		if opts.Continue = list.Continue; opts.Continue == "" {
			return done, err
		}
	}
	return done, fmt.Errorf("more than %d nodes", karpenterMax)
}
