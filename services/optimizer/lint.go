package optimizer

import (
	"sigs.k8s.io/yaml"
)

// Severity says whether a finding forbids saving the policy.
type Severity string

// Severities of findings.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Finding is one thing to know about a policy, in a sentence that a person can act on.
type Finding struct {
	Field    string   `json:"field"` // dotted, "queue.target_per_replica"; empty for the document
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	Line     int      `json:"line,omitempty"` // 1-based, 0 when it is not known
}

// ParsePolicy reads a policy document strictly and returns it with its defaults and everything found in it, errors first.
// A policy with an error must not be saved.
func ParsePolicy(doc []byte) (Policy, []Finding) {
	var p Policy
	if err := yaml.UnmarshalStrict(doc, &p); err != nil {
		return Policy{}, []Finding{{Severity: SeverityError, Message: err.Error()}}
	}
	p = p.WithDefaults()
	return p, p.Validate()
}

// Validate returns everything that is wrong or doubtful in a policy.
func (p Policy) Validate() []Finding {
	var out []Finding
	if p.Max < p.Min || p.Max < 1 {
		out = append(out, Finding{Field: "max", Severity: SeverityError, Message: "max must be at least 1 and at least min"})
	}
	return out
}

// YAML writes the policy as a document that ParsePolicy reads back to the same policy.
func (p Policy) YAML() string {
	b, err := yaml.Marshal(p)
	if err != nil {
		return ""
	}
	return string(b)
}
