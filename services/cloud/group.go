package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// Group is a set of like machines that a cloud keeps at a size: an EC2 Auto Scaling group, an Azure scale set, a managed instance group
// of Google. Sizes are in the group's own unit, which is machines unless Weighted.
type Group struct {
	Ref     string // names it in calls; see each adapter's NewGroups
	Name    string
	Region  string
	Zones   []string // it may use, sorted
	Desired int
	Min     int   // its owner's bounds
	Max     int   // -1: the cloud knows none
	Ready   int   // machines that run
	Coming  int   // asked for and not running yet
	Types   []Mix // what it may be made of, in its own order; empty: not told
	// Purchase of a mixed group: so many on demand first, then this share; nil: the machines say.
	OnDemandBase  *int
	OnDemandShare *int   // per cent of what is above the base
	Strategy      string // how the cloud picks among Spot pools, in its own words
	Weighted      bool   // sizes count the weights of machines
	Spot          bool   // all of it is Spot
	Version       string // of the object as read; a change that names another is refused
}

// Mix is a type of machine in a group, and how much of the group's size it counts for.
type Mix struct {
	InstanceType string
	Weight       int // 1 unless the group is Weighted
}

// FailureKind says what can be done about a machine that did not come.
type FailureKind string

// Kinds of failures. An unknown one is FailureOther: it says that nothing is known, not that all is well.
const (
	FailureStockOut    FailureKind = "stock_out"   // the cloud has none of it there now
	FailureQuota       FailureKind = "quota"       // the account may not have more
	FailureUnsupported FailureKind = "unsupported" // not sold there, or not so
	FailureThrottled   FailureKind = "throttled"   // later
	FailureOther       FailureKind = "other"
)

// GroupFailure is a machine, or a number of them, that the cloud could not give.
type GroupFailure struct {
	At           time.Time   `json:"at"`
	Kind         FailureKind `json:"kind"`
	Code         string      `json:"code"`          // in the cloud's words
	Message      string      `json:"message"`       // in the cloud's words, clipped
	Zone         string      `json:"zone"`          // empty: not told
	InstanceType string      `json:"instance_type"` // empty: not told
}

// CapacityError is a refusal at the door: the cloud said at once that it cannot.
type CapacityError struct{ Failure GroupFailure }

// Error implements error.
func (e *CapacityError) Error() string {
	return fmt.Sprintf("the cloud has no capacity (%s): %s %s", e.Failure.Kind, e.Failure.Code, e.Failure.Message)
}

// Resize asks for a size. It is absolute: asking twice is asking once.
type Resize struct {
	Ref     string
	Desired int
	Min     int // of the policy: outside them nothing is asked for
	Max     int
	Version string // of the group as it was decided upon; empty: whatever it is now
	Token   string // the same for every attempt of one action, 1 to 64 letters, digits and dashes
}

// Resized says what was asked of the cloud. Machines come later: Progress tells.
type Resized struct {
	Ref       string
	Before    int // size before
	Ready     int // machines that ran before
	Desired   int
	At        time.Time // by the cloud's clock where it tells
	Already   bool      // nothing was asked: it had that size
	Operation string    // the cloud's name of it; empty: it has none
}

// ProgressState is how far a Resize has come.
type ProgressState string

// States of a resize. Partial, StockOut and Refused may still become Reached: clouds keep trying.
const (
	ProgressReached  ProgressState = "reached"
	ProgressPending  ProgressState = "pending"   // nothing has failed so far
	ProgressPartial  ProgressState = "partial"   // some came, some could not
	ProgressStockOut ProgressState = "stock_out" // none came, for want of stock
	ProgressRefused  ProgressState = "refused"   // none came, for another reason
	ProgressReplaced ProgressState = "replaced"  // somebody asked for another size since
)

// Progress of a Resize.
type Progress struct {
	State    ProgressState
	Group    Group
	Missing  int            // of the size asked for, not running
	Failures []GroupFailure // since it was asked for, oldest first
}

// Suspension is what was stopped of a cloud's own scaling, so that exactly that can be started again.
type Suspension struct {
	Ref  string
	What []string // in the adapter's words, sorted; empty: nothing was running
}

// Groups is what can be done with a cloud's groups. Every adapter passes one suite.
type Groups interface {
	// List is all groups of the account in its regions, sorted by Ref. It does not say Types where that costs a call for each.
	List(ctx context.Context) (List[Group], error)
	Describe(ctx context.Context, ref string) (Group, error)
	// Resize returns *CapacityError when the cloud refuses at once, CodeConflict when the group is not as it was decided upon, and
	// CodeInvalid outside the policy's bounds or its owner's.
	Resize(ctx context.Context, r Resize) (Resized, error)
	Progress(ctx context.Context, r Resized) (Progress, error)
	// Writers are what of the cloud itself changes the group, as far as it is not stopped, sorted by kind and name.
	Writers(ctx context.Context, ref string) ([]Writer, error)
	// Machines of a group, sorted by id.
	Machines(ctx context.Context, ref string) ([]GroupMachine, error)
	// Terminate ends machines by name and lowers the size by as many: what runs on others goes on. Its errors are Termination.Check's and the cloud's; after
	// one in the middle it is asked again.
	Terminate(ctx context.Context, t Termination) (Resized, error)
	// Suspend stops whatever of the cloud would change the size by itself, or of that only what is named, in the words of Writer.Stop; Resume starts what
	// Suspend stopped.
	Suspend(ctx context.Context, ref string, only ...string) (Suspension, error)
	Resume(ctx context.Context, s Suspension) error
}

// Named says whether something is to be stopped: nothing named is everything.
func Named(what string, only []string) bool { return len(only) == 0 || slices.Contains(only, what) }

// MaxGroupSize that may be asked for; clouds allow some thousands.
const MaxGroupSize = 20_000

// Check says what is wrong with a Resize for the group as it is now; already means that there is nothing to do.
func (r *Resize) Check(g Group) (already bool, err error) {
	switch {
	case r.Min < 0 || r.Max > MaxGroupSize || r.Min > r.Max:
		return false, fleet.Errorf(fleet.CodeInvalid, "the bounds %d to %d are none", r.Min, r.Max)
	case r.Desired < r.Min || r.Desired > r.Max:
		return false, fleet.Errorf(fleet.CodeInvalid, "%d is outside the policy's bounds %d to %d", r.Desired, r.Min, r.Max)
	case !token(r.Token):
		return false, fleet.Errorf(fleet.CodeInvalid, "a change needs a token of 1 to 64 letters, digits and dashes")
	case g.Desired == r.Desired:
		return true, nil
	case r.Version != "" && r.Version != g.Version:
		return false, fleet.Errorf(fleet.CodeConflict, "somebody else changed the group %s since it was decided upon", g.Name)
	case r.Desired < g.Min || g.Max >= 0 && r.Desired > g.Max:
		return false, fleet.Errorf(fleet.CodeInvalid, "%d is outside the bounds %d to %d that the group's owner gave it", r.Desired, g.Min, g.Max)
	}
	return false, nil
}

func token(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-'
	})
}

// Judge says how far a resize has come, from the group now and what failed since.
func Judge(r Resized, g Group, failures []GroupFailure) Progress {
	failures = slices.DeleteFunc(slices.Clone(failures), func(f GroupFailure) bool { return f.At.Before(r.At) })
	slices.SortStableFunc(failures, func(a, b GroupFailure) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
	p := Progress{Group: g, Missing: max(r.Desired-g.Ready, 0), Failures: failures}
	switch {
	case g.Desired != r.Desired:
		p.State = ProgressReplaced
	case g.Ready == r.Desired, r.Desired < r.Before && g.Ready <= r.Desired:
		p.State = ProgressReached
	case len(failures) == 0 || r.Desired < r.Before:
		p.State = ProgressPending
	case g.Ready > r.Ready || g.Coming > 0 && g.Ready+g.Coming > r.Ready && g.Ready+g.Coming < r.Desired:
		p.State = ProgressPartial
	case slices.ContainsFunc(failures, func(f GroupFailure) bool { return f.Kind == FailureStockOut }):
		p.State = ProgressStockOut
	default:
		p.State = ProgressRefused
	}
	return p
}

// Codes of the three clouds by what they mean. Sources: EC2 "Error codes" and the Auto Scaling guide's "Troubleshoot: EC2 instance launch
// failures"; Azure "Resolve allocation failures" and "Resolve reserved resource name errors"; Compute Engine "Troubleshooting resource
// availability errors".
var failureKinds = map[string]FailureKind{
	"InsufficientInstanceCapacity": FailureStockOut, "InsufficientHostCapacity": FailureStockOut, "InsufficientReservedInstanceCapacity": FailureStockOut, "InsufficientCapacity": FailureStockOut,
	"UnfulfillableCapacity": FailureStockOut, "ReservationCapacityExceeded": FailureStockOut, "SpotMaxPriceTooLow": FailureStockOut,
	"VcpuLimitExceeded": FailureQuota, "InstanceLimitExceeded": FailureQuota, "MaxSpotInstanceCountExceeded": FailureQuota,
	"Unsupported": FailureUnsupported, "UnsupportedOperation": FailureUnsupported, "InvalidParameterCombination": FailureUnsupported,
	"RequestLimitExceeded": FailureThrottled, "Throttling": FailureThrottled,

	"AllocationFailed": FailureStockOut, "ZonalAllocationFailed": FailureStockOut, "OverconstrainedAllocationRequest": FailureStockOut, "OverconstrainedZonalAllocationRequest": FailureStockOut,
	"SkuNotAvailable": FailureStockOut, "SpotPriceGreaterThanProvidedMaxPrice": FailureStockOut,
	"QuotaExceeded": FailureQuota, "OperationNotAllowed": FailureQuota,
	"TooManyRequests": FailureThrottled, "OperationTooManyRequests": FailureThrottled,

	"ZONE_RESOURCE_POOL_EXHAUSTED": FailureStockOut, "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": FailureStockOut, "RESOURCE_POOL_EXHAUSTED": FailureStockOut,
	"STOCKOUT": FailureStockOut, "REGION_RESOURCE_POOL_EXHAUSTED": FailureStockOut, "INSUFFICIENT_RESERVED_RESOURCE": FailureStockOut,
	"QUOTA_EXCEEDED": FailureQuota, "UNSUPPORTED_OPERATION": FailureUnsupported, "RATE_LIMIT_EXCEEDED": FailureThrottled, "rateLimitExceeded": FailureThrottled,
}

// KindOf says what a cloud's code means.
func KindOf(code string) FailureKind {
	if k, ok := failureKinds[code]; ok {
		return k
	}
	return FailureOther
}

// CodeIn finds the first code that has a meaning here in a sentence, as Auto Scaling writes them; empty: none.
func CodeIn(message string) string {
	for _, word := range strings.FieldsFunc(message, func(c rune) bool { return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' }) {
		if _, ok := failureKinds[word]; ok {
			return word
		}
	}
	return ""
}

// NoCapacity makes the error of a refusal at the door, when its code means want of capacity; otherwise err itself.
func NoCapacity(err error, code, message string, at time.Time) error {
	var known *CapacityError
	if errors.As(err, &known) {
		return err
	}
	switch kind := KindOf(code); kind {
	case FailureStockOut, FailureQuota, FailureUnsupported:
		return &CapacityError{Failure: GroupFailure{At: at, Kind: kind, Code: code, Message: Clip(message)}}
	default:
		return err
	}
}

// SettleGroups sorts groups and drops repeated ones.
func SettleGroups(l *List[Group]) {
	slices.SortStableFunc(l.Items, func(a, b Group) int { return cmp.Compare(a.Ref, b.Ref) })
	l.Items = slices.CompactFunc(l.Items, func(a, b Group) bool { return a.Ref == b.Ref })
}
