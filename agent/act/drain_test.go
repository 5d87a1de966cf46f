package act

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktest "k8s.io/client-go/testing"
)

// drainWorld is a cluster in memory with one node, pods that serve checkpoints on loopback, and a drainer.
type drainWorld struct {
	t       *testing.T
	client  *fake.Clientset
	path    string
	log     *DrainLog
	drainer *Drainer
	stop    func()
	server  *httptest.Server

	mu      sync.Mutex
	blocked map[string]bool // pods whose budget allows no eviction
	evicted []string
	asked   []string // ids, in order
	answer  func(id string, n int) int
	events  chan *agentv1.Event
	results chan *agentv1.ActionResult
	stopped string // what Allowed says
	opened  func(*Drainer)
}

func newDrainWorld(t *testing.T, pods ...*corev1.Pod) *drainWorld {
	t.Helper()
	w := &drainWorld{t: t, path: filepath.Join(t.TempDir(), "drain.log"), blocked: map[string]bool{}, events: make(chan *agentv1.Event, 100), results: make(chan *agentv1.ActionResult, 10),
		answer: func(string, int) int { return http.StatusOK }}
	objects := []runtime.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-1"}}}
	for _, p := range pods {
		objects = append(objects, p)
	}
	w.client = fake.NewClientset(objects...)
	w.client.PrependReactor("create", "pods", func(a ktest.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		e, _ := a.(ktest.CreateAction).GetObject().(*policyv1.Eviction)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.blocked[e.Name] {
			return true, nil, apierrors.NewTooManyRequests("budget", 1)
		}
		w.evicted = append(w.evicted, e.Name)
		return true, nil, w.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), e.Namespace, e.Name)
	})
	w.server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		var body struct{ ID, Reason, Pod string }
		if b, err := io.ReadAll(in.Body); err != nil || json.Unmarshal(b, &body) != nil || body.ID == "" || body.ID != in.Header.Get("Idempotency-Key") || in.Method != http.MethodPost || in.URL.Path != "/save" {
			out.WriteHeader(http.StatusBadRequest)
			return
		}
		w.mu.Lock()
		w.asked = append(w.asked, body.ID)
		n := len(w.asked)
		w.mu.Unlock()
		out.WriteHeader(w.answer(body.ID, n))
	}))
	t.Cleanup(w.server.Close)
	w.open()
	t.Cleanup(func() { w.stop() })
	return w
}

// open starts a drainer on the log as a new life of the agent does.
func (w *drainWorld) open() {
	w.t.Helper()
	var err error
	if w.log, err = OpenDrainLog(w.path); err != nil {
		w.t.Fatal(err)
	}
	w.drainer = NewDrainer(w.client, w.log, DrainEnv{
		NowMS: func() int64 { return time.Now().UnixMilli() }, Workload: func(pod string) string { return strings.Replace(pod, "/", "/Job/", 1) }, Log: slog.New(slog.DiscardHandler),
		Allowed: func() string { w.mu.Lock(); defer w.mu.Unlock(); return w.stopped },
		Events: func(all []*agentv1.Event) error {
			for _, e := range all {
				w.events <- e
			}
			return nil
		}, Result: func(r *agentv1.ActionResult) error { w.results <- r; return nil }})
	w.drainer.ask.address = func(p *corev1.Pod) (netip.Addr, error) { return netip.MustParseAddr("127.0.0.1"), nil }
	w.drainer.ask.pause, w.drainer.pause = 5*time.Millisecond, 5*time.Millisecond
	if w.opened != nil {
		w.opened(w.drainer)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.drainer.Run(ctx) }()
	w.stop = sync.OnceFunc(func() { cancel(); <-done; w.log.Close() })
}

func (w *drainWorld) port() string {
	_, port, _ := net.SplitHostPort(w.server.Listener.Addr().String())
	return port
}

func (w *drainWorld) begin(l Leave) {
	w.t.Helper()
	if _, _, err := w.drainer.Begin(l); err != nil {
		w.t.Fatal(err)
	}
}

func (w *drainWorld) event(kind string) *agentv1.Event {
	w.t.Helper()
	for {
		select {
		case e := <-w.events:
			if e.GetKind() == kind {
				return e
			}
		case <-time.After(20 * time.Second):
			w.t.Fatalf("no event %s came", kind)
		}
	}
}

func (w *drainWorld) seen() (asked, evicted []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked), slices.Clone(w.evicted)
}

func (w *drainWorld) cordoned() bool {
	n, err := w.client.CoreV1().Nodes().Get(context.Background(), "n1", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return n.Spec.Unschedulable
}

func drainPod(name string, notes map[string]string) *corev1.Pod {
	yes := true
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "train", UID: types.UID("uid-" + name), Annotations: notes,
		OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: name, Controller: &yes}}},
		Spec: corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.1.2.3", HostIP: "10.0.0.1"}}
}

func (w *drainWorld) declare(name, seconds string) {
	p, err := w.client.CoreV1().Pods("train").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	p.Annotations = map[string]string{NoteCheckpoint: "http://:" + w.port() + "/save", NoteCheckpointSeconds: seconds}
	if _, err := w.client.CoreV1().Pods("train").Update(context.Background(), p, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func TestAPlanLetsAMachineGoAfterItsPodsSavedTheirWork(t *testing.T) {
	t.Parallel()
	w := newDrainWorld(t, drainPod("a", nil), drainPod("plain", nil))
	w.declare("a", "10")
	w.answer = func(_ string, n int) int { // busy at first
		if n == 1 {
			return http.StatusServiceUnavailable
		}
		return http.StatusNoContent
	}
	w.begin(Leave{Node: "n1", UID: "node-1", Cause: CausePlan, Evict: true, Plan: "p1", Action: "drain/n1", Generation: 7})
	cp := w.event("checkpoint").GetCheckpoint()
	if cp.GetOutcome() != CheckpointDone || cp.GetPod() != "train/a" || cp.GetWorkload() != "train/Job/a" || cp.GetTries() != 2 || cp.GetCause() != CausePlan || cp.GetNode() != "n1" {
		t.Errorf("told %v", cp)
	}
	if e := w.event("drain"); e.GetReason() != "done" {
		t.Errorf("the drain ended %v", e)
	}
	r := <-w.results
	if r.GetOutcome() != "applied" || r.GetPlanId() != "p1" || r.GetActionId() != "drain/n1" || len(r.GetCheckpoints()) != 1 || r.GetCheckpoints()[0].GetId() != cp.GetId() {
		t.Errorf("result %v", r)
	}
	asked, evicted := w.seen()
	slices.Sort(evicted)
	if len(asked) != 2 || asked[0] != asked[1] || !slices.Equal(evicted, []string{"a", "plain"}) || !w.cordoned() {
		t.Errorf("asked %v, evicted %v, cordoned %v", asked, evicted, w.cordoned())
	}
}

func TestAPlanIsGivenUpRatherThanLoseWork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer  int
		seconds string
		want    string
	}{
		"the workload says that it cannot":  {http.StatusConflict, "10", CheckpointFailed},
		"the workload never gets done":      {http.StatusServiceUnavailable, "1", CheckpointLate},
		"the workload declares a bad limit": {http.StatusOK, "forever", CheckpointRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newDrainWorld(t, drainPod("a", nil), drainPod("plain", nil))
			w.declare("a", c.seconds)
			w.answer = func(string, int) int { return c.answer }
			w.begin(Leave{Node: "n1", UID: "node-1", Cause: CausePlan, Evict: true, Plan: "p1", Action: "drain/n1"})
			if got := w.event("checkpoint").GetReason(); got != c.want {
				t.Errorf("the checkpoint is %s, want %s", got, c.want)
			}
			if e := w.event("drain"); e.GetReason() != "given_up" {
				t.Errorf("the drain ended %v", e)
			}
			if r := <-w.results; r.GetOutcome() != "failed" {
				t.Errorf("result %v", r)
			}
			if _, evicted := w.seen(); len(evicted) != 0 || w.cordoned() {
				t.Errorf("evicted %v, cordoned %v", evicted, w.cordoned())
			}
		})
	}
}

func TestWhatTheCloudTakesBackIsEvictedWhateverTheWorkloadSays(t *testing.T) {
	t.Parallel()
	w := newDrainWorld(t, drainPod("a", nil))
	w.declare("a", "600")
	w.answer = func(string, int) int { return http.StatusServiceUnavailable }
	w.begin(Leave{Node: "n1", Cause: CauseInterruption, Evict: true, DeadlineMS: time.Now().UnixMilli() + 6000}) // 5 s of it are for evictions
	cp := w.event("checkpoint").GetCheckpoint()
	if cp.GetOutcome() != CheckpointLate || cp.GetTookMs() > 5000 {
		t.Errorf("told %v", cp)
	}
	if e := w.event("drain"); e.GetReason() != "done" {
		t.Errorf("the drain ended %v", e)
	}
	if _, evicted := w.seen(); !slices.Equal(evicted, []string{"a"}) || !w.cordoned() {
		t.Errorf("evicted %v", evicted)
	}
}

func TestARestartAsksAgainUnderTheSameID(t *testing.T) {
	t.Parallel()
	w := newDrainWorld(t, drainPod("a", nil), drainPod("b", nil))
	w.declare("a", "30")
	w.declare("b", "30")
	first := make(chan string, 100)
	var mu sync.Mutex
	saved := map[string]bool{}
	w.answer = func(id string, n int) int {
		mu.Lock()
		defer mu.Unlock()
		if len(saved) == 0 {
			saved[id] = true
			return http.StatusOK
		}
		if saved[id] {
			return http.StatusOK
		}
		first <- id
		return http.StatusServiceUnavailable
	}
	w.begin(Leave{Node: "n1", Cause: CauseConsolidation, DeadlineMS: time.Now().UnixMilli() + 60_000})
	done := w.event("checkpoint").GetCheckpoint()
	waiting := <-first
	w.stop() // the agent ends while one pod is being asked
	mu.Lock()
	saved[waiting] = true
	mu.Unlock()
	before, _ := w.seen()
	w.open()
	again := w.event("checkpoint").GetCheckpoint()
	if again.GetId() != waiting || again.GetOutcome() != CheckpointDone || again.GetId() == done.GetId() {
		t.Errorf("after the restart %v, asked for before: %s", again, waiting)
	}
	if e := w.event("drain"); e.GetReason() != "done" {
		t.Errorf("the drain ended %v", e)
	}
	after, evicted := w.seen()
	for _, id := range after[len(before):] {
		if id == done.GetId() {
			t.Error("a pod that had saved its work was asked again")
		}
	}
	if len(evicted) != 0 || w.cordoned() {
		t.Errorf("evicted %v though somebody else drains", evicted)
	}
	if _, same, err := w.drainer.Begin(Leave{Node: "n1", Cause: CauseConsolidation}); err != nil || !same {
		t.Errorf("the same leave begins twice: %v %v", same, err)
	}
}

func TestABudgetKeepsAPodAndThePlanIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newDrainWorld(t, drainPod("a", nil))
	w.blocked["a"] = true
	w.begin(Leave{Node: "n1", UID: "node-1", Cause: CausePlan, Evict: true, DeadlineMS: time.Now().UnixMilli() + 200, Plan: "p1", Action: "drain/n1"})
	e := w.event("drain")
	if e.GetReason() != "late" || !strings.Contains(e.GetMessage(), "disruption budget") {
		t.Errorf("the drain ended %v", e)
	}
	if w.cordoned() {
		t.Error("the machine stays cordoned")
	}
	w.mu.Lock()
	w.blocked["a"] = false
	w.mu.Unlock()
	w.begin(Leave{Node: "n1", UID: "node-1", Cause: CausePlan, Evict: true, Plan: "p2", Action: "drain/n1"}) // a later plan may try again
	if e := w.event("drain"); e.GetReason() != "done" {
		t.Errorf("the second drain ended %v", e)
	}
}

func TestPodsThatStay(t *testing.T) {
	t.Parallel()
	bare := drainPod("bare", nil)
	bare.OwnerReferences = nil
	protected := drainPod("protected", nil)
	protected.Labels = map[string]string{"plimsoll.dev/protected": "true"}
	undisturbed := drainPod("undisturbed", map[string]string{"karpenter.sh/do-not-disrupt": "true"})
	for _, p := range []*corev1.Pod{bare, protected, undisturbed} {
		w := newDrainWorld(t, p, drainPod("other", nil))
		w.begin(Leave{Node: "n1", UID: "node-1", Cause: CausePlan, Evict: true, Plan: "p1", Action: "drain/n1"})
		if e := w.event("drain"); e.GetReason() != "refused" || !strings.Contains(e.GetMessage(), p.Name) {
			t.Errorf("%s: the drain ended %v", p.Name, e)
		}
		if _, evicted := w.seen(); len(evicted) != 0 || w.cordoned() {
			t.Errorf("%s: evicted %v, cordoned %v", p.Name, evicted, w.cordoned())
		}
	}
	daemon := drainPod("daemon", nil)
	daemon.OwnerReferences[0].Kind = "DaemonSet"
	w := newDrainWorld(t, daemon)
	w.begin(Leave{Node: "n1", UID: "node-1", Cause: CausePlan, Evict: true, Plan: "p1", Action: "drain/n1"})
	if e := w.event("drain"); e.GetReason() != "done" {
		t.Errorf("the drain ended %v", e)
	}
}

func TestNothingBeginsInAModeThatChangesNothing(t *testing.T) {
	t.Parallel()
	w := newDrainWorld(t, drainPod("a", nil))
	w.stopped = "changes are frozen"
	if _, _, err := w.drainer.Begin(Leave{Node: "n1", Cause: CauseInterruption, Evict: true}); !errors.Is(err, ErrForbidden) {
		t.Errorf("error %v", err)
	}
	w.stopped = ""
	if _, _, err := w.drainer.Begin(Leave{Node: "n1", UID: "another", Cause: CausePlan, Evict: true}); !errors.Is(err, ErrNotFound) {
		t.Errorf("another machine of the same name: %v", err)
	}
}

func TestACheckpointByAnnotation(t *testing.T) {
	t.Parallel()
	w := newDrainWorld(t, drainPod("a", map[string]string{NoteCheckpoint: "annotation", NoteCheckpointSeconds: "20"}))
	asked := make(chan string, 10)
	w.client.PrependReactor("patch", "pods", func(a ktest.Action) (bool, runtime.Object, error) {
		var p struct {
			Metadata struct{ Annotations map[string]string }
		}
		if err := json.Unmarshal(a.(ktest.PatchAction).GetPatch(), &p); err == nil {
			asked <- p.Metadata.Annotations[NoteCheckpointRequest]
		}
		return false, nil, nil
	})
	w.begin(Leave{Node: "n1", UID: "node-1", Cause: CausePlan, Evict: true, Plan: "p1", Action: "drain/n1"})
	id, at, _ := strings.Cut(<-asked, " ")
	p, err := w.client.CoreV1().Pods("train").Get(context.Background(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.Annotations[NoteCheckpointed] = at
	if _, err := w.client.CoreV1().Pods("train").Update(context.Background(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if cp := w.event("checkpoint").GetCheckpoint(); cp.GetOutcome() != CheckpointDone || cp.GetId() != id {
		t.Errorf("told %v, asked for %s", cp, id)
	}
	if e := w.event("drain"); e.GetReason() != "done" {
		t.Errorf("the drain ended %v", e)
	}
}

func TestOnlyThePodItselfIsCalled(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"http://:8080/save": true, "annotation": true, "": true, "true": true,
		"http://10.0.0.1:8080/save": false, "http://metadata.internal:80/": false, "https://:8080/save": false, "http://user@:8080/save": false, "http://:8080/save?to=1": false,
		"http://:0/save": false, "http://:70000/save": false, "http://:8080": false, "file:///etc/passwd": false, "http://:8080/" + strings.Repeat("a", 300): false, "exec:save": false,
	} {
		if _, err := hookOf(drainPod("a", map[string]string{NoteCheckpoint: text})); (err == nil) != ok {
			t.Errorf("%.40q: error %v", text, err)
		}
	}
	for address, ok := range map[string]bool{
		"10.1.2.3": true, "fd00::7": true, "": false, "127.0.0.1": false, "169.254.169.254": false, "::1": false, "fe80::1": false, "0.0.0.0": false, "224.0.0.1": false, "::ffff:127.0.0.1": false,
		"10.0.0.1": false, "example.com": false, // the node's own address, and a name
	} {
		p := drainPod("a", nil)
		p.Status.PodIP = address
		if _, err := addressOf(p); (err == nil) != ok {
			t.Errorf("%q: error %v", address, err)
		}
	}
	p := drainPod("a", nil)
	p.Spec.HostNetwork = true
	if _, err := addressOf(p); err == nil {
		t.Error("a pod in the node's network is called")
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	elsewhere := make(chan struct{}, 10)
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere <- struct{}{} }))
	t.Cleanup(other.Close)
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	c := checkpointer{address: func(*corev1.Pod) (netip.Addr, error) { return netip.MustParseAddr("127.0.0.1"), nil }, pause: time.Millisecond, now: func() int64 { return 0 }}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	outcome, detail, tries := c.tell(ctx, &telling{id: "x", pod: drainPod("a", nil), hook: &hookSpec{port: n, path: "/save"}})
	if outcome != CheckpointFailed || tries != 1 || !strings.Contains(detail, "307") || len(elsewhere) != 0 {
		t.Errorf("%s %q after %d tries, %d calls elsewhere", outcome, detail, tries, len(elsewhere))
	}
}

func TestUninstallUncordonsWhatAPlanCordoned(t *testing.T) {
	t.Parallel()
	node := func(name, note string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Annotations: map[string]string{}}, Spec: corev1.NodeSpec{Unschedulable: true}}
		if note != "" {
			n.Annotations[noteDrain] = note
		}
		return n
	}
	client := fake.NewClientset(node("planned", "dr-1 plan"), node("taken", "dr-2 interruption"), node("maybe", "dr-3 rebalance"), node("theirs", ""))
	if n, err := ReleaseNodes(context.Background(), client); n != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	for name, cordoned := range map[string]bool{"planned": false, "taken": true, "maybe": false, "theirs": true} {
		n, err := client.CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{})
		if err != nil || n.Spec.Unschedulable != cordoned {
			t.Errorf("%s: cordoned %v, %v", name, n.Spec.Unschedulable, err)
		}
	}
}
