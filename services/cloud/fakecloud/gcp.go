package fakecloud

import "net/http"

// GCP is what Google sells and a tenant owns there.
type GCP struct{}

func (s *Server) gcp(w http.ResponseWriter, r *http.Request, _ []byte) { http.NotFound(w, r) }
