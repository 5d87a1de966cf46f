package httpapi

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// Speed is how fast the simulated cluster's time runs.
type Speed struct {
	Speed float64 `json:"speed" minimum:"1" maximum:"600" doc:"1: real time"`
}

type speedBody struct{ Body Speed }

func (s *Server) registerDemo() {
	op(s, huma.Operation{OperationID: "get-demo-speed", Method: http.MethodGet, Path: "/api/v1/demo/speed", Summary: "How fast the simulated cluster's time runs", Tags: []string{"demo"},
		Errors: []int{http.StatusNotFound}}, auth.RoleViewer, func(context.Context, auth.Principal, *struct{}) (*speedBody, error) {
		if s.deps.Demo == nil {
			return nil, errNoDemo
		}
		return &speedBody{Speed{s.deps.Demo.Speed()}}, nil
	})
	op(s, huma.Operation{OperationID: "set-demo-speed", Method: http.MethodPut, Path: "/api/v1/demo/speed", Summary: "Set how fast the simulated cluster's time runs", Tags: []string{"demo"},
		Errors: []int{http.StatusNotFound}}, auth.RoleOperator, s.setSpeed)
}

var errNoDemo = fleet.Errorf(fleet.CodeNotFound, "there is no simulated cluster here")

func (s *Server) setSpeed(ctx context.Context, p auth.Principal, in *speedBody) (*speedBody, error) {
	if s.deps.Demo == nil {
		return nil, errNoDemo
	}
	if err := s.deps.Demo.SetSpeed(in.Body.Speed); err != nil {
		return nil, err
	}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		return store.Audit(ctx, tx, p.Actor(), "demo.speed", "demo", map[string]string{"speed": strconv.FormatFloat(in.Body.Speed, 'g', -1, 64)})
	})
	return &speedBody{Speed{s.deps.Demo.Speed()}}, err
}
