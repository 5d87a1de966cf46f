package uplink

import (
	"context"
	"errors"
	"fmt"
	"time"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"connectrpc.com/connect"
)

// credential returns an identity that is valid now: the stored one, a refreshed one, or a new one from the enrolment token.
func (u *Uplink) credential(ctx context.Context) (Identity, error) {
	u.mu.Lock()
	id, refused := u.identity, u.refused
	u.mu.Unlock()
	now := unixMS(time.Now())
	if id.Token == "" {
		return u.enrol(ctx)
	}
	if !refused && now < id.renewAt() {
		return id, nil
	}
	if !refused {
		fresh, err := u.refresh(ctx, id)
		if err == nil {
			return fresh, nil
		}
		u.log.Warn("refresh of the credential failed", "error", plain(err))
		if now < id.ExpiresMS && connect.CodeOf(err) != connect.CodeUnauthenticated {
			return id, nil // still valid
		}
	}
	fresh, err := u.enrol(ctx)
	if err != nil && now < id.ExpiresMS {
		u.log.Warn("enrolment failed; the refused credential is tried again", "error", plain(err))
		return id, nil
	}
	return fresh, err
}

// renewAt is when a third of the token's life is left.
func (id Identity) renewAt() int64 { return id.ExpiresMS - max(id.ExpiresMS-id.ObtainedMS, 0)/3 }

func (u *Uplink) enrol(ctx context.Context) (Identity, error) {
	token, err := u.cfg.Token()
	if err != nil {
		return Identity{}, fmt.Errorf("read enrolment token: %w", err)
	}
	if token == "" {
		return Identity{}, errors.New("there is no valid credential and no enrolment token")
	}
	ctx, cancel := within(ctx)
	defer cancel()
	req := &agentv1.EnrolRequest{EnrolmentToken: token, InstallId: u.state.InstallID(), ClusterName: u.cfg.ClusterName, AgentVersion: u.cfg.Version}
	res, err := u.clients.h1.Enrol(ctx, connect.NewRequest(req))
	if err != nil {
		return Identity{}, fmt.Errorf("enrol: %w", err)
	}
	id := Identity{Tenant: res.Msg.GetTenantId(), Cluster: res.Msg.GetClusterId(), Token: res.Msg.GetAccessToken(), ExpiresMS: res.Msg.GetExpiresMs(), ObtainedMS: unixMS(time.Now())}
	if id.Token == "" {
		return Identity{}, errors.New("enrol: the service gave no credential")
	}
	u.log.Info("enrolled", "tenant", id.Tenant, "cluster", id.Cluster)
	return id, u.keep(id)
}

func (u *Uplink) refresh(ctx context.Context, id Identity) (Identity, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	req := connect.NewRequest(&agentv1.RefreshRequest{})
	authorize(req.Header(), id.Token)
	res, err := u.clients.h1.Refresh(ctx, req)
	if err != nil {
		return Identity{}, err
	}
	return u.renewed(res.Msg.GetAccessToken(), res.Msg.GetExpiresMs())
}

// renewed keeps a newer token of the same identity.
func (u *Uplink) renewed(token string, expiresMS int64) (Identity, error) {
	if token == "" {
		return Identity{}, errors.New("the service gave no credential")
	}
	u.mu.Lock()
	id := u.identity
	u.mu.Unlock()
	id.Token, id.ExpiresMS, id.ObtainedMS = token, expiresMS, unixMS(time.Now())
	return id, u.keep(id)
}

func (u *Uplink) keep(id Identity) error {
	u.mu.Lock()
	u.identity, u.refused = id, false
	u.mu.Unlock()
	if err := u.state.SaveIdentity(id); err != nil {
		return fmt.Errorf("store identity: %w", err)
	}
	return nil
}

// refuse marks a credential that the service refused, unless a newer one came in between.
func (u *Uplink) refuse(id Identity) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.identity.Token == id.Token {
		u.refused = true
	}
}
