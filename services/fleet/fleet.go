// Package fleet holds the nouns that every room shares: ids, money, machines, prices, workloads, signals and the
// Snapshot a decision is made from. It is pure: standard library only, no clock, no context, no I/O, and it may never
// know how a noun is stored, sent or decided upon.
package fleet

import (
	"fmt"
	"time"
)

// Ids are types so that a cluster can never be passed where a tenant is meant. All are UUID strings, lower case.
type (
	TenantID   string
	UserID     string
	ClusterID  string
	WorkloadID string
	PlanID     string
	DecisionID string
	ActionID   string
	BudgetID   string
)

// Cloud names a provider of machines.
type Cloud string

// The three clouds with catalogues, and a name for machines of one's own.
const (
	CloudAWS    Cloud = "aws"
	CloudAzure  Cloud = "azure"
	CloudGCP    Cloud = "gcp"
	CloudOnPrem Cloud = "onprem"
)

// Purchase is how a machine is bought.
type Purchase string

// Purchase options, in the order in which the field reads them.
const (
	PurchaseOnDemand Purchase = "on_demand"
	PurchaseSpot     Purchase = "spot"
	PurchaseReserved Purchase = "reserved"
)

// ParsePurchase accepts the spellings that clouds, Karpenter and node labels use. An unknown word is an error, never a guess.
func ParsePurchase(s string) (Purchase, error) {
	switch s {
	case "on_demand", "on-demand", "ondemand", "ON_DEMAND":
		return PurchaseOnDemand, nil
	case "spot", "SPOT", "preemptible":
		return PurchaseSpot, nil
	case "reserved", "RESERVED":
		return PurchaseReserved, nil
	}
	return "", Errorf(CodeInvalid, "unknown purchase option %q", s)
}

// Mode says how far Plimsoll may go with a decision.
type Mode string

// Modes, from looking to acting. Each includes what stands before it.
const (
	ModeObserve   Mode = "observe"   // measure and attribute cost; no decisions are shown as proposals
	ModeRecommend Mode = "recommend" // decide and show; nobody acts
	ModeApprove   Mode = "approve"   // decide, act after a person approved before the proposal expired
	ModeEnforce   Mode = "enforce"   // decide and act
)

// Rank orders modes: observe 0 to enforce 3; an unknown mode is -1. The stricter of two modes is the one with the lower rank.
func (m Mode) Rank() int {
	switch m {
	case ModeObserve:
		return 0
	case ModeRecommend:
		return 1
	case ModeApprove:
		return 2
	case ModeEnforce:
		return 3
	}
	return -1
}

// Stricter returns the mode that allows less.
func Stricter(a, b Mode) Mode {
	if a.Rank() <= b.Rank() {
		return a
	}
	return b
}

// Code is an error class that a person or a client can act on. httpapi maps it to a status, once.
type Code string

// Error codes.
const (
	CodeInvalid      Code = "invalid"
	CodeNotFound     Code = "not_found"
	CodeConflict     Code = "conflict"
	CodeForbidden    Code = "forbidden"
	CodeUnauthorized Code = "unauthorized"
	CodeTooLarge     Code = "too_large"
	CodeRateLimited  Code = "rate_limited"
	CodeUnavailable  Code = "unavailable"
	CodeInternal     Code = "internal"
)

// Error is an error with a code. Message is shown to people; Err is for the log only.
type Error struct {
	Code    Code
	Message string
	Field   string // the offending input field, dotted, if there is one
	Err     error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error whose message may be shown to people.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Interval is a half-open span of time [From, To).
type Interval struct{ From, To time.Time }

// Overlap returns how much of i lies within j, never negative.
func (i Interval) Overlap(j Interval) time.Duration {
	from, to := i.From, i.To
	if j.From.After(from) {
		from = j.From
	}
	if j.To.Before(to) {
		to = j.To
	}
	if d := to.Sub(from); d > 0 {
		return d
	}
	return 0
}
