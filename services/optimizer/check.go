package optimizer

import (
	"fmt"

	"plimsoll.dev/services/fleet"
)

// Violation is a rule that a finished plan breaks. A plan with one must not be saved.
type Violation struct {
	Workload fleet.WorkloadID `json:"workload,omitempty"` // empty: the plan as a whole
	Code     string           `json:"code"`
	Message  string           `json:"message"`
}

// Check lints a finished plan against the input it was made from, trusting nothing that Decide did.
func Check(p Plan, in Input) []Violation {
	var out []Violation
	if p.Generation != in.Snapshot.Generation+1 {
		out = append(out, Violation{Code: "generation", Message: fmt.Sprintf("generation is %d after %d", p.Generation, in.Snapshot.Generation)})
	}
	return out
}
