package capacity

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
)

// RolloutState is how far a rollout of a capacity policy has come.
type RolloutState string

// The states. Shadow and canary are open; the others are ends.
const (
	RolloutShadow     RolloutState = "shadow"      // it is planned beside the policy in force, and nothing is done
	RolloutCanary     RolloutState = "canary"      // it is in force on a part, under watch
	RolloutDone       RolloutState = "done"        // it is the policy of its clusters
	RolloutBack       RolloutState = "rolled_back" // the policy before is in force
	RolloutCancelled  RolloutState = "cancelled"   // ended by a person before anything was in force
	RolloutSuperseded RolloutState = "superseded"  // somebody saved another policy meanwhile, or its clusters are gone
)

// Why a rollout ends that nobody ended: the guard that was passed, or that nothing was told.
const (
	GuardUnplaced      = "unplaced"      // more pods wait for a machine for longer than the policy allows
	GuardDisruption    = "disruption"    // more PodDisruptionBudgets have fewer healthy pods than they want
	GuardFailed        = "failed"        // machines that could not be had
	GuardInterruptions = "interruptions" // more than promised and than before
	GuardSlow          = "slow"          // pods take longer to get ready
	GuardCost          = "cost"          // dearer than promised
	GuardLate          = "late"          // requests beyond their SLO
	GuardErrors        = "errors"        // requests that fail
	GuardLeavesPods    = "leaves_pods"   // in the shadow: pods that the policy in force finds machines for
	RolloutUntold      = "nothing_told"
	RolloutChanged     = "policy_changed"
	RolloutGone        = "clusters_gone"
)

// Limits of a rollout.
const (
	rolloutGap     = 5 * time.Minute  // what one look may count as watched, at most
	rolloutSilence = 2 * time.Minute  // what one look may count as silent, at most
	shadowHolds    = 10 * time.Minute // a look without a plan of the shadow goes by one that is not older
	leastPatience  = 15 * time.Minute // of silence before a rollout is taken back
	leastLooks     = 3
	costPersists   = 10 * time.Minute // both machines of an exchange run for a while
	growthUnknown  = -1
	mostGrowth     = 100 * milli // of load, that a limit on cost follows
	mostPromised   = 10 * milli  // of cost over that of the policy in force
	// SignSamples is how many pods must have become ready for a time to capacity to be known.
	SignSamples  = 5
	leastEvents  = 3 // failures or interruptions that are more than bad luck
	worseTimes   = 2
	slowSeconds  = 60
	worseLate    = 0.01
	worseErrors  = 0.005
	worseFailed  = 0.1
	worseTaken   = 0.02 // interruptions per machine-hour
	milli        = 1000
	patienceMult = 2
)

// Signs are what a cluster shows of how its machines do. Nil and untold: nobody knows.
type Signs struct {
	Told          bool         `json:"told"`         // inventory and plan are new
	LongWaiting   int64        `json:"long_waiting"` // pods without a machine for longer than the policy allows
	Breached      int64        `json:"breached"`     // PodDisruptionBudgets with fewer healthy pods than they want
	Cost          *fleet.Money `json:"cost,omitempty"`
	Unpriced      int64        `json:"unpriced"`
	CPUMilli      int64        `json:"cpu"` // requests of live pods
	GPUMilli      int64        `json:"gpu_milli"`
	ReadySec      *float64     `json:"ready_s,omitempty"` // from a pod's creation to ready, the slow tenth, over the window
	Started       int64        `json:"started"`           // machines that came, over the window
	Failed        int64        `json:"failed"`            // machines or actions that failed, over the window
	Interruptions int64        `json:"interruptions"`     // over the window
	NodeHours     float64      `json:"node_hours"`        // of the window
	Late          *float64     `json:"late,omitempty"`    // share of requests, over the window
	Errors        *float64     `json:"errors,omitempty"`
}

// PlanSum is a plan in numbers that can be held against another's.
type PlanSum struct {
	After      fleet.Money `json:"after"` // per hour
	Adds       int         `json:"adds"`
	Drains     int         `json:"drains"`
	Moves      int         `json:"moves"`     // pods
	Left       int         `json:"left"`      // pods that no machine is found for
	Machines   int         `json:"machines"`  // afterwards
	Spot       int         `json:"spot"`      // of them
	Hazard     int64       `json:"hazard"`    // interruptions expected per 1000 hours of all machines together
	StockOut   int64       `json:"stock_out"` // thousandths: the highest chance that one of its purchases fails
	Unpriced   int         `json:"unpriced"`
	Held       []Hold      `json:"held,omitempty"`
	Incomplete bool        `json:"incomplete,omitempty"` // the search was ended early
}

// OfferingDiff is how many machines of an offering there are now, and afterwards under either policy.
type OfferingDiff struct {
	Offering fleet.Offering `json:"offering"`
	Now      int            `json:"now"`
	Base     int            `json:"base"`
	Proposed int            `json:"proposed"`
}

// Comparison holds a proposed policy's plan against that of the policy in force, both from the same inventory.
type Comparison struct {
	At        time.Time      `json:"at"`   // our clock
	Cost      fleet.Money    `json:"cost"` // per hour, now
	Base      PlanSum        `json:"base"`
	Proposed  PlanSum        `json:"proposed"`
	Offerings []OfferingDiff `json:"offerings"` // that differ, at most 100
}

// maxDiffs bounds the offerings of a comparison.
const maxDiffs = 100

// Compare plans one inventory under two policies. base and proposed differ in their policy, and in the candidates and freezes that come of it.
func Compare(base, proposed Input, stop func() bool) (*Comparison, error) {
	a, err := Decide(base, stop)
	if err != nil {
		return nil, err
	}
	b, err := Decide(proposed, stop)
	if err != nil {
		return nil, err
	}
	c := &Comparison{Cost: a.Before, Base: Sum(&base, a), Proposed: Sum(&proposed, b), Offerings: []OfferingDiff{}}
	now, left, right := fleetAfter(&base, nil), fleetAfter(&base, a), fleetAfter(&proposed, b)
	for o := range left {
		now[o] += 0
	}
	for o := range right {
		now[o] += 0
	}
	for o, n := range now {
		if n != left[o] || n != right[o] {
			c.Offerings = append(c.Offerings, OfferingDiff{o, n, left[o], right[o]})
		}
	}
	slices.SortFunc(c.Offerings, func(x, y OfferingDiff) int { return byOffering(x.Offering, y.Offering) })
	c.Offerings = c.Offerings[:min(len(c.Offerings), maxDiffs)]
	return c, nil
}

func byOffering(a, b fleet.Offering) int {
	for _, p := range [][2]string{{string(a.Cloud), string(b.Cloud)}, {a.Region, b.Region}, {a.InstanceType, b.InstanceType}, {string(a.Purchase), string(b.Purchase)}, {a.Zone, b.Zone}} {
		if p[0] != p[1] {
			if p[0] < p[1] {
				return -1
			}
			return 1
		}
	}
	return 0
}

func fleetAfter(in *Input, p *Plan) map[fleet.Offering]int {
	out := map[fleet.Offering]int{}
	for i := range in.Nodes {
		if in.Nodes[i].Phase != fleet.NodeTerminated {
			out[in.Nodes[i].Offering]++
		}
	}
	if p == nil {
		return out
	}
	byName := map[string]fleet.Offering{}
	for i := range in.Nodes {
		byName[in.Nodes[i].Name] = in.Nodes[i].Offering
	}
	for _, d := range p.Drain {
		out[byName[d.Name]]--
	}
	for _, g := range p.Add {
		out[g.Offering] += g.Count
	}
	return out
}

// Sum puts a plan into numbers.
func Sum(in *Input, p *Plan) PlanSum {
	s := PlanSum{After: p.After, Drains: len(p.Drain), Unpriced: p.Unpriced, Held: p.Held, Incomplete: p.Steps > 0}
	gone := map[string]bool{}
	for _, d := range p.Drain {
		gone[d.Name] = true
		s.Moves += len(d.Moves)
	}
	for _, w := range p.Waiting {
		if w.Cause == CauseNothing || w.Cause == CauseDeferred {
			s.Left++
		}
	}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		if n.Phase == fleet.NodeTerminated || gone[n.Name] {
			continue
		}
		s.Machines++
		s.Hazard += n.HazardMilli
		if n.Offering.Purchase == fleet.PurchaseSpot {
			s.Spot++
		}
	}
	for _, g := range p.Add {
		s.Adds += g.Count
		s.Machines += g.Count
		if g.Offering.Purchase == fleet.PurchaseSpot {
			s.Spot += g.Count
		}
		if g.Candidate >= 0 && g.Candidate < len(in.Candidates) {
			s.Hazard += in.Candidates[g.Candidate].HazardMilli * int64(g.Count)
			s.StockOut = max(s.StockOut, in.Candidates[g.Candidate].StockOutMilli)
		}
	}
	return s
}

// blind says that the plan had nothing to go by.
func (s *PlanSum) blind() bool {
	return slices.Contains(s.Held, HoldStale) || slices.Contains(s.Held, HoldEmpty)
}

// frozen says that nothing may be changed now.
func (s *PlanSum) frozen() bool {
	return slices.Contains(s.Held, HoldFrozen) || slices.Contains(s.Held, HoldWindow)
}

// HeldByRollout is the reason of machines that a rollout does not touch yet.
const HeldByRollout = "rollout"

// Restrict keeps a plan to a share of the machines, in thousandths: the others stay whatever they cost. Which ones is a matter of their names
// and the key, so that it is the same ones while they live. One at least is left, unless the share is 0.
func (in *Input) Restrict(key string, share int64) {
	if share >= milli {
		return
	}
	first, least := -1, uint64(0)
	draw := make([]uint64, len(in.Nodes))
	for i := range in.Nodes {
		sum := sha256.Sum256([]byte(key + "\x00" + in.Nodes[i].Name))
		draw[i] = binary.BigEndian.Uint64(sum[:8]) / 2
		if free := in.Nodes[i].Fixed == ""; free && (first < 0 || draw[i] < least) {
			first, least = i, draw[i]
		}
	}
	for i := range in.Nodes {
		if in.Nodes[i].Fixed == "" && (share <= 0 || i != first) && int64(draw[i]%milli) >= share {
			in.Nodes[i].Fixed = HeldByRollout
		}
	}
}

// RolloutPart is a cluster of a rollout.
type RolloutPart struct {
	Cluster     fleet.ClusterID
	BaseVersion int         // of the cluster's own policy before; 0: it had none
	BaseDefault int         // version of the tenant's default that held before; 0: its own, or none
	Watched     int64       // seconds of data time of the stage in which everything was told
	Silent      int64       // seconds of our clock of the stage in which something was missing
	Looks       int         // of the stage, with everything told
	Bad         int         // looks in a row that passed a guard
	BadWhat     string      // that guard
	BadSince    time.Time   // our clock
	LookedAt    time.Time   // our clock; zero: never
	DataAt      time.Time   // the cluster's, of the look before
	StageAt     time.Time   // the cluster's: when the stage began on it; zero: not known yet
	Before      *Signs      // as it was before the proposed policy was in force on it
	After       *Signs      // of the newest look
	Shadow      *Comparison // of the newest look of the shadow
}

// Rollout is a capacity policy on its way to be that of its clusters.
type Rollout struct {
	State     RolloutState
	Step      int     // of Shares, in the canary
	Shares    []int64 // thousandths of the clusters, and of the machines of each, that a step reaches; rising, the last 1000
	ShadowSec int64
	StageSec  int64
	CostOver  int64 // thousandths above what was promised that are still well
	Paused    bool
	Parts     []RolloutPart // in the order in which they are reached
	Outcome   string        // why it ended
	Where     fleet.ClusterID
}

// Open says that the rollout is under way.
func (r *Rollout) Open() bool { return r.State == RolloutShadow || r.State == RolloutCanary }

// Reach is how many of the parts, from the first, the proposed policy is in force on, and on which share of the machines of each.
func (r *Rollout) Reach() (parts int, share int64) {
	if r.State != RolloutCanary || r.Step < 0 || r.Step >= len(r.Shares) {
		return 0, 0
	}
	share = r.Shares[r.Step]
	return int(min(max((share*int64(len(r.Parts))+milli-1)/milli, 1), int64(len(r.Parts)))), share
}

// Sight is one look at a part.
type Sight struct {
	Cluster fleet.ClusterID
	Version int         // of the cluster's own policy now
	Default int         // version of the tenant's default where that holds now
	Stands  bool        // frozen, in a freeze window, or not to be acted on: nothing counts
	DataAt  time.Time   // the cluster's; zero: never
	Planned bool        // the newest plan was made under this step of the rollout
	Signs   Signs       // over the stage so far where the policy is in force, over as long before now where it is not
	Shadow  *Comparison // in the shadow; nil: none was made
}

// Look moves a rollout on by one look at each part, in the order of the parts, and says whether it took a step. A look that lacks something
// counts for nothing but silence, and silence in the end takes the rollout back.
func (r *Rollout) Look(now time.Time, seen []Sight) (moved bool) {
	if !r.Open() || len(seen) != len(r.Parts) {
		return false
	}
	if len(r.Parts) == 0 {
		r.end(RolloutSuperseded, RolloutGone, "")
		return true
	}
	reach, _ := r.Reach()
	if r.State == RolloutShadow {
		reach = len(r.Parts)
	}
	for i := range r.Parts {
		p, s := &r.Parts[i], &seen[i]
		if p.Cluster != s.Cluster {
			return false
		}
		if p.BaseVersion != s.Version || p.BaseDefault != s.Default {
			r.end(RolloutSuperseded, RolloutChanged, p.Cluster)
			return true
		}
	}
	told := true
	for i := range r.Parts[:reach] {
		why, all := r.look(&r.Parts[i], &seen[i], now)
		if why != "" {
			r.end(RolloutBack, why, r.Parts[i].Cluster)
			return true
		}
		told = told && all
	}
	if r.Paused || !told || !r.ready(reach) {
		return false
	}
	if r.State == RolloutShadow {
		for i := range r.Parts {
			if c := r.Parts[i].Shadow; c.Proposed.Left > c.Base.Left {
				r.end(RolloutBack, GuardLeavesPods, r.Parts[i].Cluster)
				return true
			}
		}
	}
	return r.Advance(seen)
}

// look counts what one look at a part tells, names the guard that ends the rollout (empty: none), and says whether nothing was missing.
func (r *Rollout) look(p *RolloutPart, s *Sight, now time.Time) (why string, all bool) {
	since, last := p.LookedAt, p.DataAt
	p.LookedAt = now
	if s.DataAt.After(p.DataAt) {
		p.DataAt = s.DataAt
	}
	if p.StageAt.IsZero() {
		p.StageAt = s.DataAt
	}
	if s.Shadow != nil && r.State == RolloutShadow {
		p.Shadow = s.Shadow
	}
	if s.Stands || r.State == RolloutShadow && p.Shadow != nil && p.Shadow.Proposed.frozen() {
		p.Bad = 0
		return "", false
	}
	if !r.told(p, s, now) {
		if !since.IsZero() {
			p.Silent += int64(min(max(now.Sub(since), 0), rolloutSilence) / time.Second)
		}
		if p.Silent >= r.patience() {
			return RolloutUntold, false
		}
		if what := r.known(p, s); what != "" {
			return r.bad(p, what, now), false
		}
		return "", false
	}
	signs := s.Signs
	p.After = &signs
	p.Looks++
	if !last.IsZero() {
		p.Watched += int64(min(max(s.DataAt.Sub(last), 0), rolloutGap) / time.Second)
	}
	if r.State == RolloutShadow {
		return "", true
	}
	return r.bad(p, r.passed(p), now), true
}

// known names the guard that a look passed though something else is missing, as the price of a machine: what is bad counts all the same, what is well does not.
// Nothing counts without a plan of the stage on an inventory that is new.
func (r *Rollout) known(p *RolloutPart, s *Sight) string {
	if r.State == RolloutShadow || !s.Signs.Told || s.DataAt.IsZero() || !s.Planned {
		return ""
	}
	q := *p
	q.After = &s.Signs
	return r.passed(&q)
}

// bad counts the looks at a part that passed a guard, and names it once they are enough; empty: they are not.
func (r *Rollout) bad(p *RolloutPart, what string, now time.Time) string {
	if what == "" || what != p.BadWhat {
		p.Bad, p.BadWhat, p.BadSince = 0, what, now
	}
	if what == "" {
		return ""
	}
	if p.Bad++; p.Bad < 2 || what == GuardCost && now.Sub(p.BadSince) < costPersists {
		return ""
	}
	return what
}

// told says that nothing is missing: inventory and plan are new, a plan was made under the stage, and what was known before is known now.
func (r *Rollout) told(p *RolloutPart, s *Sight, now time.Time) bool {
	if !s.Signs.Told || s.DataAt.IsZero() {
		return false
	}
	if r.State == RolloutShadow {
		return p.Shadow != nil && now.Sub(p.Shadow.At) <= shadowHolds && !p.Shadow.Proposed.blind() && !s.Signs.lacks(p.After)
	}
	b := p.Before
	if !s.Planned || b == nil || s.Signs.lacks(b) {
		return false
	}
	_, known := r.costLimit(p, &s.Signs)
	return known || b.Cost == nil
}

// lacks says that something is not known any more.
func (s *Signs) lacks(before *Signs) bool {
	return before != nil && (before.Late != nil && s.Late == nil || before.Errors != nil && s.Errors == nil || before.Cost != nil && s.Cost == nil)
}

func (r *Rollout) patience() int64 {
	stage := r.StageSec
	if r.State == RolloutShadow {
		stage = r.ShadowSec
	}
	return max(patienceMult*stage, int64(leastPatience/time.Second))
}

func (r *Rollout) ready(reach int) bool {
	stage := r.StageSec
	if r.State == RolloutShadow {
		stage = r.ShadowSec
	}
	for i := range r.Parts[:reach] {
		p := &r.Parts[i]
		if p.Watched < stage || p.Looks < leastLooks || p.Bad > 0 {
			return false
		}
	}
	return true
}

// Advance takes the next step, whatever was watched so far. It takes none, and says so, where it is paused, where a cluster that it would reach
// stands still or tells nothing.
func (r *Rollout) Advance(seen []Sight) bool {
	if !r.Open() || r.Paused || len(seen) != len(r.Parts) {
		return false
	}
	next := *r
	switch {
	case r.State == RolloutShadow:
		next.State, next.Step = RolloutCanary, 0
	case r.Step+1 < len(r.Shares):
		next.Step++
	default:
		reach, _ := r.Reach()
		for i := range seen[:reach] {
			if seen[i].Stands {
				return false
			}
		}
		r.end(RolloutDone, "", "")
		return true
	}
	reach, _ := next.Reach()
	for i := range seen[:reach] {
		if seen[i].Stands || !seen[i].Signs.Told || r.Parts[i].Before == nil && seen[i].Signs.lacks(r.Parts[i].After) {
			return false
		}
	}
	r.State, r.Step = next.State, next.Step
	for i := range r.Parts {
		p := &r.Parts[i]
		p.Watched, p.Silent, p.Looks, p.Bad, p.BadWhat, p.BadSince = 0, 0, 0, 0, "", time.Time{}
		p.StageAt, p.DataAt, p.LookedAt = seen[i].DataAt, seen[i].DataAt, time.Time{} // what was before does not count as watched or silent
		if i < reach && p.Before == nil {
			signs := seen[i].Signs
			p.Before = &signs
		}
	}
	return true
}

// End ends an open rollout by a person's word.
func (r *Rollout) End(why string) bool {
	if !r.Open() {
		return false
	}
	state := RolloutBack
	if r.State == RolloutShadow {
		state = RolloutCancelled
	}
	r.end(state, why, "")
	return true
}

func (r *Rollout) end(state RolloutState, why string, where fleet.ClusterID) {
	r.State, r.Outcome, r.Where, r.Paused = state, why, where, false
}

// passed names the guard that the newest look at a part passed; empty: none. What is not known passes none.
func (r *Rollout) passed(p *RolloutPart) string {
	a, b := p.After, p.Before
	if a == nil || b == nil {
		return ""
	}
	limit, known := r.costLimit(p, a)
	switch {
	case a.LongWaiting > b.LongWaiting:
		return GuardUnplaced
	case a.Breached > b.Breached:
		return GuardDisruption
	case a.Failed >= leastEvents && failedShare(a) > worseTimes*failedShare(b)+worseFailed:
		return GuardFailed
	case a.Interruptions >= leastEvents && a.taken() > worseTimes*max(b.taken(), p.promisedTaken())+worseTaken:
		return GuardInterruptions
	case a.ReadySec != nil && b.ReadySec != nil && *a.ReadySec > worseTimes**b.ReadySec+slowSeconds:
		return GuardSlow
	case a.Late != nil && b.Late != nil && *a.Late > worseTimes**b.Late+worseLate:
		return GuardLate
	case a.Errors != nil && b.Errors != nil && *a.Errors > worseTimes**b.Errors+worseErrors:
		return GuardErrors
	case known && a.Cost != nil && *a.Cost > limit:
		return GuardCost
	}
	return ""
}

func failedShare(s *Signs) float64 {
	if all := s.Failed + s.Started; all > 0 {
		return float64(s.Failed) / float64(all)
	}
	return 0
}

// taken is interruptions per machine-hour.
func (s *Signs) taken() float64 {
	if s.NodeHours <= 0 {
		return 0
	}
	return float64(s.Interruptions) / s.NodeHours
}

func (p *RolloutPart) promisedTaken() float64 {
	if p.Shadow == nil || p.Shadow.Proposed.Machines == 0 {
		return 0
	}
	return float64(p.Shadow.Proposed.Hazard) / milli / float64(p.Shadow.Proposed.Machines)
}

// CostLimit is what a part's machines may cost per hour: what they cost before, as much more as more is asked for and as the shadow promised
// more, and what may be above. false: not known.
func (r *Rollout) CostLimit(p *RolloutPart) (fleet.Money, bool) {
	if p.After == nil {
		return 0, false
	}
	return r.costLimit(p, p.After)
}

func (r *Rollout) costLimit(p *RolloutPart, a *Signs) (fleet.Money, bool) {
	b := p.Before
	if b == nil || b.Cost == nil || a.Cost == nil || a.Unpriced > b.Unpriced {
		return 0, false
	}
	growth := max(grew(b.CPUMilli, a.CPUMilli), grew(b.GPUMilli, a.GPUMilli), milli)
	if grew(b.CPUMilli, a.CPUMilli) == growthUnknown || grew(b.GPUMilli, a.GPUMilli) == growthUnknown {
		return 0, false
	}
	limit := b.Cost.MulDiv(growth, milli).MulDiv(milli+r.CostOver, milli)
	if c := p.Shadow; c != nil && c.Base.After > 0 && c.Proposed.After > c.Base.After {
		limit = limit.MulDiv(min(int64(c.Proposed.After.MulDiv(milli, int64(c.Base.After))), mostPromised), milli)
	}
	return limit, true
}

// grew is after over before in thousandths; growthUnknown where there was nothing before.
func grew(before, after int64) int64 {
	switch {
	case before <= 0 && after <= 0:
		return milli
	case before <= 0:
		return growthUnknown
	}
	return int64(min(float64(after)/float64(before)*milli, mostGrowth))
}

// Turn says which policy a plan is made under. A plan is carried out only while its turn stands, so that no two policies are in force on one cluster.
type Turn struct {
	Version  int    `json:"version,omitempty"`  // of the cluster's own policy; 0: it never had one
	Default  int    `json:"default,omitempty"`  // version of the tenant's default where that holds
	Rollout  string `json:"rollout,omitempty"`  // id of the open rollout that has the cluster in its canary; empty: none
	Step     int    `json:"step,omitempty"`     // of it
	Proposed bool   `json:"proposed,omitempty"` // under the proposed policy; else the one before, which only finds machines for pods then
}

// Same says that a plan of one turn may be carried out in the other. Whether the hour's machines are used up may differ.
func (t Turn) Same(u Turn) bool {
	return t.Version == u.Version && t.Default == u.Default && t.Rollout == u.Rollout && t.Step == u.Step
}
