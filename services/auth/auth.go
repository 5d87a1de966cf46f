// Package auth knows who somebody is and what they may do: roles, passwords, API keys, enrolment tokens and the JWTs of agents.
// It holds no HTTP and no SQL: callers give it bytes and get answers.
package auth

import "plimsoll.dev/services/fleet"

// Role is what a member or a key may do in a tenant. Each role includes viewer.
type Role string

// Roles, see Allows.
const (
	RoleOwner    Role = "owner"    // everything, members and keys included
	RoleAdmin    Role = "admin"    // everything but owners
	RoleOperator Role = "operator" // policies, decisions, clusters
	RoleFinance  Role = "finance"  // budgets, webhooks, exports
	RoleViewer   Role = "viewer"   // look
)

// Allows says whether a holder of r may do what need asks for. Operator and finance stand side by side.
func (r Role) Allows(need Role) bool {
	switch r {
	case RoleOwner:
		return true
	case RoleAdmin:
		return need != RoleOwner
	case RoleOperator, RoleFinance:
		return need == r || need == RoleViewer
	case RoleViewer:
		return need == RoleViewer
	}
	return false
}

// Kind of a principal.
type Kind string

// Kinds.
const (
	KindUser  Kind = "user"
	KindKey   Kind = "key"
	KindAgent Kind = "agent"
)

// Principal is who makes a request, after the credentials were checked.
type Principal struct {
	Kind    Kind
	ID      string // user id, key id or cluster id
	Name    string // for people and the audit log
	Tenant  fleet.TenantID
	Cluster fleet.ClusterID // agents only
	Role    Role            // users and keys
}

// Actor is the principal in the audit log's words: "user:<id>".
func (p Principal) Actor() string { return string(p.Kind) + ":" + p.ID }
