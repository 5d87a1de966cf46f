package httpapi

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-chi/httprate"

	"plimsoll.dev/services/fleet"
)

// defaultRequestsPerMinute is how many requests a principal may make. A dashboard with its live views makes about 60; somebody who clicks
// through pages in several tabs of a busy tenant came to 700.
const defaultRequestsPerMinute = 2400

// limit bounds the requests of one principal, or of one address while nobody signed in. Counters are this process's own.
func (s *Server) limit() func(http.Handler) http.Handler {
	perMinute := s.cfg.RequestsPerMinute
	if perMinute <= 0 {
		perMinute = defaultRequestsPerMinute
	}
	return httprate.LimitBy(perMinute, time.Minute,
		func(r *http.Request) (string, error) {
			if p := who(r.Context()); p.Tenant != "" {
				return string(p.Tenant) + "/" + p.Actor(), nil
			}
			return "address/" + sourceOf(r.RemoteAddr), nil
		},
		httprate.WithLimitHandler(func(w http.ResponseWriter, r *http.Request) {
			writeProblem(w, r, fleet.Errorf(fleet.CodeRateLimited, "too many requests; at most %d a minute", perMinute))
		}))
}

// throttle counts failures by key over a sliding window. The key space is bounded by the counter, which forgets a window after the next.
type throttle struct {
	limit   int
	window  time.Duration
	mu      sync.Mutex // makes check and count one step
	counter httprate.LimitCounter
}

func newThrottle(limit int, window time.Duration) *throttle {
	return &throttle{limit: limit, window: window, counter: httprate.NewLocalLimitCounter(window)}
}

// enter counts an attempt as failed until forgive says otherwise, or refuses it and says after how long to come again.
func (t *throttle) enter(key string, now time.Time) (wait time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if wait, over := t.full(key, now); over {
		return wait, false
	}
	_ = t.counter.Increment(key, now.Truncate(t.window))
	return 0, true
}

// over says whether there were too many failures, without counting one.
func (t *throttle) over(key string, now time.Time) (wait time.Duration, over bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.full(key, now)
}

// full is over under the lock.
func (t *throttle) full(key string, now time.Time) (wait time.Duration, over bool) {
	current := now.Truncate(t.window)
	count, before, _ := t.counter.Get(key, current, current.Add(-t.window)) // the local counter never fails
	left := t.window - now.Sub(current)
	return left, float64(before)*float64(left)/float64(t.window)+float64(count) >= float64(t.limit)
}

// retryAfter is the header of that name, in whole seconds.
func retryAfter(wait time.Duration) string { return strconv.Itoa(int(wait.Seconds()) + 1) }

// forgive takes back the attempt of a success.
func (t *throttle) forgive(key string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	current := now.Truncate(t.window)
	if count, _, _ := t.counter.Get(key, current, current.Add(-t.window)); count > 0 {
		_ = t.counter.IncrementBy(key, current, -1)
	}
}
