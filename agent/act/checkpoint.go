package act

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Annotations of pods by which a workload says that it wants to be told before it is evicted, and answers.
const (
	NoteCheckpoint        = "plimsoll.dev/checkpoint"         // http://:PORT/PATH of the pod itself, or "annotation"
	NoteCheckpointSeconds = "plimsoll.dev/checkpoint-seconds" // how long it may take, 1 to 3600; 30 where nothing is said
	NoteCheckpointed      = "plimsoll.dev/checkpointed"       // RFC 3339, of the last one; or the id of what was asked for
	NoteCheckpointRequest = "plimsoll.dev/checkpoint-request" // set here: id and time of what is asked for
)

const (
	checkpointSeconds    = 30
	maxCheckpointSeconds = 3600
	maxCheckpointPath    = 256
	checkpointAnswer     = 4 << 10 // bytes of an answer that are read, and thrown away
	checkpointTry        = 10 * time.Second
	checkpointPause      = 500 * time.Millisecond // between two tries, and between two looks at an annotation
)

// The outcomes of a checkpoint.
const (
	CheckpointDone    = "done"    // the workload says that it saved its work
	CheckpointLate    = "late"    // it did not say so in time
	CheckpointFailed  = "failed"  // it said that it could not, or never answered
	CheckpointRefused = "refused" // what it declares may not be called
)

// hookSpec is how a pod wants to be told.
type hookSpec struct {
	port    int    // 0: by annotation
	path    string // with its slash
	seconds int64
}

// hookOf reads a pod's annotations; nil: it does not want to be told. An error says what is wrong with what it declares.
func hookOf(p *corev1.Pod) (*hookSpec, error) {
	text := p.Annotations[NoteCheckpoint]
	if text == "" || text == "true" || text == "false" {
		return nil, nil
	}
	h := &hookSpec{seconds: checkpointSeconds}
	if s := p.Annotations[NoteCheckpointSeconds]; s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 1 || n > maxCheckpointSeconds {
			return nil, fmt.Errorf("%s must be 1 to %d, not %q", NoteCheckpointSeconds, maxCheckpointSeconds, s)
		}
		h.seconds = n
	}
	if text == "annotation" {
		return h, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.Hostname() != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || len(u.Path) > maxCheckpointPath || !strings.HasPrefix(u.EscapedPath(), "/") {
		return nil, fmt.Errorf("%s must be annotation or http://:PORT/PATH without a host: only the pod itself is called", NoteCheckpoint)
	}
	if h.port, err = strconv.Atoi(u.Port()); err != nil || h.port < 1 || h.port > 65535 {
		return nil, fmt.Errorf("%s needs a port from 1 to 65535", NoteCheckpoint)
	}
	h.path = u.EscapedPath()
	return h, nil
}

// addressOf is where a pod itself is called. A pod in its node's network has no address of its own, and addresses that are no pod's are
// never called: what a pod declares must not make this agent speak to anybody else.
func addressOf(p *corev1.Pod) (netip.Addr, error) {
	if p.Spec.HostNetwork {
		return netip.Addr{}, errors.New("a pod in the node's network is not called: it has no address of its own")
	}
	ip, err := netip.ParseAddr(p.Status.PodIP)
	if err != nil {
		return netip.Addr{}, errors.New("the pod has no address")
	}
	ip = ip.Unmap()
	if ip.Zone() != "" || ip.IsUnspecified() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsInterfaceLocalMulticast() || ip.String() == p.Status.HostIP {
		return netip.Addr{}, fmt.Errorf("%s is no address of a pod", ip)
	}
	return ip, nil
}

// checkpointID is the same for a pod and a drain, however often it is told.
func checkpointID(drain, podUID string) string {
	sum := sha256.Sum256([]byte(drain + "/" + podUID))
	return "cp-" + hex.EncodeToString(sum[:10])
}

// checkpointer tells pods to save their work.
type checkpointer struct {
	client  kubernetes.Interface
	address func(*corev1.Pod) (netip.Addr, error)
	pause   time.Duration
	now     func() int64
}

// telling is one request to one pod.
type telling struct {
	id    string
	cause string
	node  string
	pod   *corev1.Pod
	hook  *hookSpec
	atMS  int64 // when it was told first
}

// tell asks until the pod says that it has saved its work, says that it cannot, or ctx ends. tries counts the calls.
func (c *checkpointer) tell(ctx context.Context, t *telling) (outcome, detail string, tries int32) {
	if t.hook.port == 0 {
		return c.annotate(ctx, t)
	}
	ip, err := c.address(t.pod)
	if err != nil {
		return CheckpointRefused, err.Error(), 0
	}
	last := "it did not answer"
	for {
		left := time.Until(deadlineOf(ctx))
		if ctx.Err() != nil || left <= 0 {
			return CheckpointLate, last, tries
		}
		tries++
		again, why := c.post(ctx, t, ip, left)
		switch {
		case why == "":
			return CheckpointDone, "", tries
		case !again:
			return CheckpointFailed, why, tries
		}
		last = why
		select {
		case <-ctx.Done():
		case <-time.After(c.pause):
		}
	}
}

func deadlineOf(ctx context.Context) time.Time {
	if at, ok := ctx.Deadline(); ok {
		return at
	}
	return time.Now().Add(checkpointSeconds * time.Second)
}

// post calls the pod once. why is empty where it saved its work; again says whether to call once more.
func (c *checkpointer) post(ctx context.Context, t *telling, ip netip.Addr, left time.Duration) (again bool, why string) {
	body, err := json.Marshal(map[string]any{"id": t.id, "reason": t.cause, "pod": t.pod.Namespace + "/" + t.pod.Name, "node": t.node,
		"deadline_ms": c.now() + left.Milliseconds(), "seconds": int64(left.Seconds())})
	if err != nil {
		return false, err.Error()
	}
	target := netip.AddrPortFrom(ip, uint16(t.hook.port)).String() //nolint:gosec // 1 to 65535
	ctx, cancel := context.WithTimeout(ctx, max(left, time.Second))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+target+t.hook.path, bytes.NewReader(body))
	if err != nil {
		return false, "what it declares is no address"
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", t.id)
	dialer := &net.Dialer{Timeout: checkpointTry}
	client := &http.Client{
		Transport: &http.Transport{ // no proxy, no name, no second address: the pod's own or nothing
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, target)
			},
			DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return true, "it did not answer in time"
		}
		return true, "it cannot be reached on port " + strconv.Itoa(t.hook.port)
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, checkpointAnswer)
	switch code := res.StatusCode; {
	case code >= 200 && code < 300:
		return false, ""
	case code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code == http.StatusTooEarly:
		return true, fmt.Sprintf("it answered %d", code)
	default:
		return false, fmt.Sprintf("it answered %d", code)
	}
}

// annotate writes on the pod what is asked for, and waits for its answer there.
func (c *checkpointer) annotate(ctx context.Context, t *telling) (outcome, detail string, tries int32) {
	asked := time.UnixMilli(t.atMS).UTC().Truncate(time.Second)
	want := t.id + " " + asked.Format(time.RFC3339)
	if t.pod.Annotations[NoteCheckpointRequest] != want {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": t.pod.UID, "annotations": map[string]any{NoteCheckpointRequest: want}}})
		if err != nil {
			return CheckpointFailed, err.Error(), 0
		}
		tries = 1
		if _, err := c.client.CoreV1().Pods(t.pod.Namespace).Patch(ctx, t.pod.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager}); err != nil {
			return CheckpointFailed, "it cannot be annotated: " + kubeError(t.pod.Name, err).Error(), tries
		}
	}
	for {
		p, err := c.client.CoreV1().Pods(t.pod.Namespace).Get(ctx, t.pod.Name, metav1.GetOptions{})
		if err == nil && p.UID == t.pod.UID && answered(p.Annotations[NoteCheckpointed], t.id, asked) {
			return CheckpointDone, "", tries
		}
		select {
		case <-ctx.Done():
			return CheckpointLate, "it did not set " + NoteCheckpointed, tries
		case <-time.After(c.pause):
		}
	}
}

// answered says whether an annotation is the answer to an id that was asked at a time.
func answered(note, id string, asked time.Time) bool {
	if note == id {
		return true
	}
	at, err := time.Parse(time.RFC3339, note)
	return err == nil && !at.Before(asked)
}
