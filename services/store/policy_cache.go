package store

import (
	"crypto/sha256"
	"sync"

	"plimsoll.dev/services/optimizer"
)

// maxParsed bounds how many parsed policies are kept; about a kilobyte each.
const maxParsed = 20_000

// policyCache keeps what documents parse to: a document never changes its meaning, and reading YAML takes longer than deciding.
type policyCache struct {
	mu     sync.Mutex
	parsed map[[sha256.Size]byte]parsedPolicy // guarded by mu
}

type parsedPolicy struct {
	policy   optimizer.Policy
	findings []optimizer.Finding
}

func (c *policyCache) parse(document string) (optimizer.Policy, []optimizer.Finding) {
	key := sha256.Sum256([]byte(document))
	c.mu.Lock()
	known, ok := c.parsed[key]
	c.mu.Unlock()
	if ok {
		return known.policy, known.findings
	}
	policy, findings := optimizer.ParsePolicy([]byte(document))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parsed == nil || len(c.parsed) >= maxParsed { // starting anew is rare and costs less than order of use
		c.parsed = map[[sha256.Size]byte]parsedPolicy{}
	}
	c.parsed[key] = parsedPolicy{policy, findings}
	return policy, findings
}

// ParsePolicy is optimizer.ParsePolicy for saved documents, which come again and again: what was parsed is remembered, and must not
// be changed.
func (db *DB) ParsePolicy(document string) (optimizer.Policy, []optimizer.Finding) {
	return db.policies.parse(document)
}
