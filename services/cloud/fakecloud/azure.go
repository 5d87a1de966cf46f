package fakecloud

import "net/http"

// Azure is what Microsoft sells and a tenant owns there.
type Azure struct{}

func (s *Server) azure(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }
