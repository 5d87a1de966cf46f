package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// Member is a person of the tenant.
type Member struct {
	ID          fleet.UserID `json:"id"`
	Email       string       `json:"email"`
	DisplayName string       `json:"display_name"`
	Role        auth.Role    `json:"role" enum:"owner,admin,operator,finance,viewer"`
	Disabled    bool         `json:"disabled" doc:"The account cannot sign in"`
	JoinedAt    time.Time    `json:"joined_at"`
}

func memberOf(m store.Member) Member {
	return Member{ID: m.User.ID, Email: m.User.Email, DisplayName: m.User.DisplayName, Role: auth.Role(m.Role), Disabled: m.User.Disabled, JoinedAt: m.JoinedAt}
}

type memberList struct {
	Body struct {
		Items []Member `json:"items"`
	}
}

type memberOutput struct{ Body Member }

type memberPath struct {
	ID fleet.UserID `path:"id" format:"uuid"`
}

type addMemberInput struct {
	Body struct {
		Email       string    `json:"email" format:"email" maxLength:"254"`
		DisplayName string    `json:"display_name,omitempty" maxLength:"100"`
		Role        auth.Role `json:"role" enum:"owner,admin,operator,finance,viewer"`
		Password    string    `json:"password,omitempty" maxLength:"1024" doc:"First password of a new account; ignored when the account is there already"`
	}
}

type setRoleInput struct {
	ID   fleet.UserID `path:"id" format:"uuid"`
	Body struct {
		Role auth.Role `json:"role" enum:"owner,admin,operator,finance,viewer"`
	}
}

func (s *Server) registerMembers() {
	op(s, huma.Operation{OperationID: "list-members", Method: http.MethodGet, Path: "/api/v1/members", Summary: "People of the tenant", Tags: []string{"members"}},
		auth.RoleViewer, s.listMembers)
	op(s, huma.Operation{OperationID: "add-member", Method: http.MethodPost, Path: "/api/v1/members", Summary: "Take a person in", Tags: []string{"members"},
		DefaultStatus: http.StatusCreated, Errors: []int{http.StatusConflict}}, auth.RoleAdmin, s.addMember)
	op(s, huma.Operation{OperationID: "set-member-role", Method: http.MethodPatch, Path: "/api/v1/members/{id}", Summary: "Change what a person may do", Tags: []string{"members"},
		Errors: []int{http.StatusNotFound, http.StatusConflict}}, auth.RoleAdmin, s.setMemberRole)
	op(s, huma.Operation{OperationID: "remove-member", Method: http.MethodDelete, Path: "/api/v1/members/{id}", Summary: "Take a person out; the account stays", Tags: []string{"members"},
		DefaultStatus: http.StatusNoContent, Errors: []int{http.StatusNotFound, http.StatusConflict}}, auth.RoleAdmin, s.removeMember)
}

func (s *Server) listMembers(ctx context.Context, p auth.Principal, _ *struct{}) (*memberList, error) {
	out := &memberList{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		members, err := store.Members(ctx, tx)
		out.Body.Items = make([]Member, 0, len(members))
		for _, m := range members {
			out.Body.Items = append(out.Body.Items, memberOf(m))
		}
		return err
	})
	return out, err
}

// mayGrant refuses what only an owner may do: to make, change or remove an owner.
func mayGrant(p auth.Principal, roles ...auth.Role) error {
	for _, r := range roles {
		if !p.Role.Allows(r) {
			return fleet.Errorf(fleet.CodeForbidden, "only an owner may make, change or remove an owner")
		}
	}
	return nil
}

func (s *Server) addMember(ctx context.Context, p auth.Principal, in *addMemberInput) (*memberOutput, error) {
	if err := mayGrant(p, in.Body.Role); err != nil {
		return nil, err
	}
	hash := ""
	if in.Body.Password != "" {
		if err := auth.CheckPassword(in.Body.Password); err != nil {
			return nil, err
		}
		hashing, cancel := context.WithTimeout(ctx, hashingBound)
		defer cancel()
		var err error
		if hash, err = s.session.hasher.Hash(hashing, in.Body.Password); err != nil {
			return nil, err
		}
	}
	out := &memberOutput{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if _, err := store.UserByEmail(ctx, tx, in.Body.Email); store.IsNotFound(err) && hash == "" {
			return &fleet.Error{Code: fleet.CodeInvalid, Field: "body.password", Message: "a new account needs a first password"}
		}
		u, err := store.AddMember(ctx, tx, store.NewUser{Email: in.Body.Email, DisplayName: in.Body.DisplayName, PasswordHash: hash}, string(in.Body.Role))
		if err != nil {
			return err
		}
		out.Body = memberOf(store.Member{User: u, Role: string(in.Body.Role), JoinedAt: tx.Now})
		return store.Audit(ctx, tx, p.Actor(), "member.add", "user:"+string(u.ID), map[string]string{"email": u.Email, "role": string(in.Body.Role)})
	})
	return out, err
}

func (s *Server) setMemberRole(ctx context.Context, p auth.Principal, in *setRoleInput) (*memberOutput, error) {
	out := &memberOutput{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		m, err := store.MemberByID(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		if err := mayGrant(p, auth.Role(m.Role), in.Body.Role); err != nil {
			return err
		}
		if err := store.SetRole(ctx, tx, in.ID, string(in.Body.Role)); err != nil {
			return err
		}
		before := m.Role
		m.Role = string(in.Body.Role)
		out.Body = memberOf(m)
		return store.Audit(ctx, tx, p.Actor(), "member.role", "user:"+string(in.ID), map[string]string{"before": before, "after": m.Role})
	})
	return out, err
}

func (s *Server) removeMember(ctx context.Context, p auth.Principal, in *memberPath) (*struct{}, error) {
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		m, err := store.MemberByID(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		if err := mayGrant(p, auth.Role(m.Role)); err != nil {
			return err
		}
		if err := store.RemoveMember(ctx, tx, in.ID); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "member.remove", "user:"+string(in.ID), map[string]string{"email": m.User.Email, "role": m.Role})
	})
	return nil, err
}
