package act

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

const (
	keepPlans       = 64      // newest plans that are remembered
	keepUntold      = 1024    // and as many whose results nobody was told yet
	compactAtBytes  = 1 << 20 // the file is rewritten when it has grown by about this
	keepRecentTimes = 4096    // changes kept for the action rate
)

// Service is what the service asked for last. It is kept over restarts: a freeze must not thaw by a crash.
type Service struct {
	Mode   string `json:"mode"`
	Frozen bool   `json:"frozen"`
}

// OpenPlan is a plan of the journal.
type OpenPlan struct {
	ID         string
	Generation uint64
	Actions    []OpenAction
	Results    map[string]*agentv1.ActionResult // by action id
	reported   bool
}

// OpenAction is an action of such a plan. Begun means that the cluster may have been changed.
type OpenAction struct {
	ID       string `json:"id"`
	Workload string `json:"workload"`
	To       int32  `json:"to"`
	Before   int32  `json:"before,omitempty"`
	Begun    bool   `json:"begun,omitempty"`
}

// change is a replica count that was set here.
type change struct {
	AtMS     int64  `json:"at_ms"`
	Workload string `json:"workload"`
	To       int32  `json:"to"`
}

// entry is one line of the file, after its checksum. One of the fields is set.
type entry struct {
	Begin    *beginEntry     `json:"begin,omitempty"`
	Acting   *actingEntry    `json:"acting,omitempty"`
	Done     json.RawMessage `json:"done,omitempty"` // protojson of ActionResult
	Reported string          `json:"reported,omitempty"`
	Service  *Service        `json:"service,omitempty"`
	Fence    uint64          `json:"fence,omitempty"`
	Change   *change         `json:"change,omitempty"`
}

type beginEntry struct {
	Plan       string       `json:"plan"`
	Generation uint64       `json:"generation"`
	AtMS       int64        `json:"at_ms"`
	Actions    []OpenAction `json:"actions"`
}

type actingEntry struct {
	Plan   string `json:"plan"`
	Action string `json:"action"`
	Before int32  `json:"before"`
	change
}

// Journal is what was begun and how it ended, on disk before anything is done.
type Journal struct {
	// mu guards the fields and the file.
	mu         sync.Mutex
	file       *lineFile[entry]
	generation uint64
	plans      []*OpenPlan // oldest first
	changes    []change
	service    Service
}

// OpenJournal reads the journal at path, or starts an empty one.
func OpenJournal(path string) (*Journal, error) {
	j := &Journal{}
	var err error
	if j.file, err = readLines(path, compactAtBytes, j.fold); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return j, j.compact()
}

// Close closes the file.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.close()
}

// Generation is that of the newest plan begun.
func (j *Journal) Generation() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.generation
}

// Service is what the service asked for last.
func (j *Journal) Service() Service {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.service
}

// Configure keeps what the service asks for.
func (j *Journal) Configure(mode string, frozen bool) error {
	if s := (Service{Mode: mode, Frozen: frozen}); s != j.Service() {
		return j.append(entry{Service: &s})
	}
	return nil
}

// Plan returns the results of a plan begun before, copies, by action id.
func (j *Journal) Plan(id string) (map[string]*agentv1.ActionResult, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.find(id)
	if p == nil {
		return nil, false
	}
	return p.copy().Results, true
}

// Begin raises the fence and notes the plan, before anything is done.
func (j *Journal) Begin(plan *agentv1.Plan, nowMS int64) error {
	b := &beginEntry{Plan: plan.GetPlanId(), Generation: plan.GetGeneration(), AtMS: nowMS}
	for _, a := range plan.GetActions() {
		b.Actions = append(b.Actions, OpenAction{ID: a.GetActionId(), Workload: a.GetWorkload(), To: a.GetTo()})
	}
	for _, x := range plan.GetCapacity() {
		b.Actions = append(b.Actions, OpenAction{ID: x.GetActionId(), Workload: capacityKey(x)})
	}
	return j.append(entry{Begin: b})
}

// Acting notes that the cluster is about to be changed.
func (j *Journal) Acting(plan string, a *agentv1.Action, before int32, nowMS int64) error {
	return j.append(entry{Acting: &actingEntry{Plan: plan, Action: a.GetActionId(), Before: before,
		change: change{AtMS: nowMS, Workload: a.GetWorkload(), To: a.GetTo()}}})
}

// Changing notes that an object of the node provisioner is about to be changed. One that counts counts as one of the agent's changes.
func (j *Journal) Changing(plan, action string, counts bool, nowMS int64) error {
	e := &actingEntry{Plan: plan, Action: action}
	if counts {
		e.AtMS = nowMS
	}
	return j.append(entry{Acting: e})
}

// Done notes how an action ended.
func (j *Journal) Done(r *agentv1.ActionResult) error {
	b, err := protojson.Marshal(r)
	if err != nil {
		return err
	}
	return j.append(entry{Done: b})
}

// Reported notes that the results of a plan are on their way.
func (j *Journal) Reported(plan string) error { return j.append(entry{Reported: plan}) }

// Unreported returns copies of the plans whose results nobody was told yet, oldest first.
func (j *Journal) Unreported() []OpenPlan {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []OpenPlan
	for _, p := range j.plans {
		if !p.reported {
			out = append(out, *p.copy())
		}
	}
	return out
}

// ActionsSince counts the changes that were tried after a time.
func (j *Journal) ActionsSince(ms int64) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	var n int64
	for _, c := range j.changes {
		if c.AtMS > ms {
			n++
		}
	}
	return n
}

// RecentlySet returns the counts that were set after a time, the newest for each workload.
func (j *Journal) RecentlySet(ms int64) map[string]int32 {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := map[string]int32{}
	for _, c := range j.changes {
		if c.AtMS > ms && c.Workload != "" {
			out[c.Workload] = c.To
		}
	}
	return out
}

func (j *Journal) find(id string) *OpenPlan {
	for _, p := range j.plans {
		if p.ID == id {
			return p
		}
	}
	return nil
}

func (p *OpenPlan) copy() *OpenPlan {
	c := &OpenPlan{ID: p.ID, Generation: p.Generation, reported: p.reported, Results: map[string]*agentv1.ActionResult{}}
	c.Actions = append(c.Actions, p.Actions...)
	for k, r := range p.Results {
		c.Results[k] = proto.Clone(r).(*agentv1.ActionResult)
	}
	return c
}

func (j *Journal) append(e entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	full, err := j.file.append(e)
	if err != nil {
		return err
	}
	j.fold(e)
	if full {
		_ = j.compact() // the entry is kept: whoever heard an error would take it for not kept. The next one tries again
	}
	return nil
}

// fold applies an entry to what is known.
func (j *Journal) fold(e entry) {
	switch {
	case e.Begin != nil:
		j.generation = max(j.generation, e.Begin.Generation)
		j.plans = append(j.plans, &OpenPlan{ID: e.Begin.Plan, Generation: e.Begin.Generation, Actions: e.Begin.Actions, Results: map[string]*agentv1.ActionResult{}})
		j.forget()
	case e.Acting != nil:
		if e.Acting.AtMS > 0 {
			j.addChange(e.Acting.change)
		}
		if p := j.find(e.Acting.Plan); p != nil {
			for i := range p.Actions {
				if p.Actions[i].ID == e.Acting.Action {
					p.Actions[i].Begun, p.Actions[i].Before = true, e.Acting.Before
				}
			}
		}
	case e.Done != nil:
		r := &agentv1.ActionResult{}
		if protojson.Unmarshal(e.Done, r) == nil {
			if p := j.find(r.GetPlanId()); p != nil {
				p.Results[r.GetActionId()] = r
			}
		}
	case e.Reported != "":
		if p := j.find(e.Reported); p != nil {
			p.reported = true
		}
	case e.Service != nil:
		j.service = *e.Service
	case e.Fence != 0:
		j.generation = max(j.generation, e.Fence)
	case e.Change != nil:
		j.addChange(*e.Change)
	}
}

// forget drops the oldest plans beyond what is kept, first of those whose results were told.
func (j *Journal) forget() {
	for len(j.plans) > keepPlans {
		i := slices.IndexFunc(j.plans, func(p *OpenPlan) bool { return p.reported })
		if i < 0 && len(j.plans) <= keepUntold {
			return
		}
		i = max(i, 0)
		j.plans = slices.Delete(j.plans, i, i+1)
	}
}

func (j *Journal) addChange(c change) {
	j.changes = append(j.changes, c)
	if len(j.changes) > keepRecentTimes {
		j.changes = j.changes[len(j.changes)-keepRecentTimes:]
	}
}

// compact writes what is known into a new file that takes the old one's place.
func (j *Journal) compact() error {
	entries, err := j.entries()
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := j.file.rewrite(entries); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

func (j *Journal) entries() ([]entry, error) {
	out := []entry{{Fence: j.generation}, {Service: &j.service}}
	for i := range j.changes {
		out = append(out, entry{Change: &j.changes[i]})
	}
	for _, p := range j.plans {
		// Begun and Before travel with the actions, so that no change is counted twice.
		out = append(out, entry{Begin: &beginEntry{Plan: p.ID, Generation: p.Generation, Actions: p.Actions}})
		for _, a := range p.Actions {
			if r := p.Results[a.ID]; r != nil {
				b, err := protojson.Marshal(r)
				if err != nil {
					return nil, err
				}
				out = append(out, entry{Done: b})
			}
		}
		if p.reported {
			out = append(out, entry{Reported: p.ID})
		}
	}
	return out, nil
}
