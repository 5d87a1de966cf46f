package httpapi

import (
	"context"
	"time"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

type enrolmentInput struct {
	ID   fleet.ClusterID `path:"id" format:"uuid"`
	Body *struct {
		ExpiresInHours int `json:"expires_in_hours,omitempty" minimum:"1" maximum:"720" default:"24"`
	} `required:"false"`
}

type enrolmentOutput struct {
	Body struct {
		Token       string    `json:"token" doc:"It is shown this once"`
		ExpiresAt   time.Time `json:"expires_at" doc:"The first use must come before this"`
		HelmCommand string    `json:"helm_command" doc:"Installs the agent with this token"`
	}
}

const defaultEnrolmentHours = 24

func (s *Server) createEnrolmentToken(ctx context.Context, p auth.Principal, in *enrolmentInput) (*enrolmentOutput, error) {
	hours := defaultEnrolmentHours
	if in.Body != nil && in.Body.ExpiresInHours > 0 {
		hours = in.Body.ExpiresInHours
	}
	secret, err := auth.NewEnrolmentToken(p.Tenant)
	if err != nil {
		return nil, err
	}
	out := &enrolmentOutput{}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		c, err := store.ClusterByID(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		expires := tx.Now.Add(time.Duration(hours) * time.Hour)
		if err := store.CreateEnrolmentToken(ctx, tx, store.EnrolmentToken{ID: secret.ID, Cluster: c.ID, Hash: secret.Hash, ExpiresAt: expires}); err != nil {
			return err
		}
		out.Body.Token, out.Body.ExpiresAt, out.Body.HelmCommand = secret.Token, expires, s.helmCommand(c, secret.Token)
		return store.Audit(ctx, tx, p.Actor(), "enrolment_token.create", "cluster:"+string(c.ID), map[string]string{"token": secret.ID, "expires_at": expires.Format(time.RFC3339)})
	})
	return out, err
}

// helmCommand installs the agent from the chart in the product's repository.
func (s *Server) helmCommand(c store.Cluster, token string) string {
	return "helm upgrade --install plimsoll-agent deploy/helm/plimsoll-agent --namespace plimsoll --create-namespace" +
		" --set endpoint=" + s.cfg.PublicURL + " --set clusterName=" + c.Name + " --set mode=" + string(c.Mode) + " --set enrolment.token=" + token
}

func (s *Server) revokeEnrolmentTokens(ctx context.Context, p auth.Principal, in *clusterPath) (*struct{}, error) {
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if _, err := store.ClusterByID(ctx, tx, in.ID); err != nil {
			return err
		}
		ended, err := store.RevokeEnrolment(ctx, tx, in.ID)
		if err != nil || ended == 0 {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "enrolment_token.revoke", "cluster:"+string(in.ID), nil)
	})
	return nil, err
}
