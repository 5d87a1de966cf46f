// Package fakecloud is a test server that speaks the wire formats of three clouds: EC2's query protocol, Amazon's JSON price list and
// Savings Plans, Azure's retail prices and resource manager, Google's billing and compute APIs, the three ways to get a token, and groups
// of machines that grow while there is stock. What it sells is scripted, and so is how it fails. It is for tests only, and no room of the
// product may import it.
package fakecloud

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// World is what the clouds sell and a tenant owns. Texts go over the wire as they are.
type World struct {
	PageSize int // rows of a page; default 2, so that every list has several
	AWS      AWS
	Azure    Azure
	GCP      GCP
	Groups   []MachineGroup
}

// Failure is a way in which an answer goes wrong.
type Failure string

// Failures.
const (
	Throttle    Failure = "throttle"     // the cloud's own word for too many requests, with Retry-After where it sends one
	Broken      Failure = "broken"       // 500 without sense
	Cut         Failure = "cut"          // the body ends in the middle, though its length promised more
	HalfBody    Failure = "half_body"    // the body ends in the middle and says nothing about it
	Denied      Failure = "denied"       // the credentials lack the permission
	Stranger    Failure = "stranger"     // the credentials are not known
	SamePage    Failure = "same_page"    // the page names itself as the next one
	ForeignLink Failure = "foreign_link" // the next page is on another host; for clouds that give links
	Meanwhile   Failure = "meanwhile"    // somebody else changes the object just before this call does
	Partial     Failure = "partial"      // the cloud says itself that places did not answer, or counts more rows than it sends
)

// Fault makes calls of an operation fail.
type Fault struct {
	Operation string // such as "GetProducts"; Calls lists what there is
	From      int    // the first call that fails, 1 is the first of all
	Times     int    // how many fail; 0: all from there on
	How       Failure
}

// Server is the fake. Safe for concurrent use.
type Server struct {
	*httptest.Server
	world  World
	mu     sync.Mutex // guards what follows
	faults []Fault
	calls  map[string]int
	seen   []string // authorisation of each call, newest last
	clock  time.Time
}

// New starts a server with TLS; Client() trusts it.
func New(w World) *Server {
	if w.PageSize <= 0 {
		w.PageSize = 2
	}
	s := &Server{world: w, calls: map[string]int{}}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(s.serve))
	return s
}

// Fail adds a fault.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.From == 0 {
		f.From = 1
	}
	s.faults = append(s.faults, f)
}

// Calls says how often an operation was called.
func (s *Server) Calls(operation string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[operation]
}

// Authorisations of all calls so far, in order.
func (s *Server) Authorisations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// call counts a call and says how it must fail; empty: not at all.
func (s *Server) call(operation string, r *http.Request) Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[operation]++
	s.seen = append(s.seen, operation+" "+r.Header.Get("Authorization"))
	n := s.calls[operation]
	for _, f := range s.faults {
		if f.Operation == operation && n >= f.From && (f.Times == 0 || n < f.From+f.Times) {
			return f.How
		}
	}
	return ""
}

// maxRequest bounds what is read of a request.
const maxRequest = 1 << 20

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil {
		http.Error(w, "cannot read the request", http.StatusBadRequest)
		return
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		r.PostForm, _ = url.ParseQuery(string(body))
	}
	path := r.URL.Path
	switch {
	case s.groups(w, r, body):
	case r.Header.Get("X-Amz-Target") != "" || path == "/" || strings.HasPrefix(path, "/DescribeSavingsPlan"):
		s.aws(w, r, body)
	case strings.HasPrefix(path, "/api/retail/") || strings.HasPrefix(path, "/subscriptions/") || strings.HasPrefix(path, "/providers/") ||
		strings.Contains(path, "/oauth2/v2.0/") || strings.Contains(path, "/.well-known/") || path == "/common/discovery/instance":
		s.azure(w, r)
	default:
		s.gcp(w, r, body)
	}
}

// page cuts the rows of one page; next is empty on the last.
func page[T any](s *Server, rows []T, token string) (out []T, next string, err error) {
	from := 0
	if token != "" {
		if from, err = strconv.Atoi(strings.TrimPrefix(token, "from-")); err != nil || from <= 0 || from >= len(rows) {
			return nil, "", fmt.Errorf("the token %q is none of ours", token)
		}
	}
	to := min(from+s.world.PageSize, len(rows))
	if to < len(rows) {
		next = "from-" + strconv.Itoa(to)
	}
	return rows[from:to], next, nil
}

// send writes an answer, whole or broken.
func send(w http.ResponseWriter, contentType string, status int, body []byte, how Failure) {
	w.Header().Set("Content-Type", contentType)
	switch how {
	case Cut:
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(status)
		_, _ = w.Write(body[:len(body)/2])
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		panic(http.ErrAbortHandler) // breaks the connection
	case HalfBody:
		body = body[:len(body)/2]
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func sendJSON(w http.ResponseWriter, status int, v any, how Failure) {
	body, err := json.Marshal(v)
	if err != nil {
		panic("fakecloud: " + err.Error())
	}
	send(w, "application/json", status, body, how)
}

// form is a JSON object.
type form map[string]any

// set adds a field whose text is not empty.
func (f form) set(name, text string) form {
	if text != "" {
		f[name] = text
	}
	return f
}
