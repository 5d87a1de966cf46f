package store

import (
	"reflect"
	"sync"
	"testing"

	"plimsoll.dev/services/optimizer"
)

func TestARememberedPolicyIsTheParsedOne(t *testing.T) {
	t.Parallel()
	var c policyCache
	documents := []string{"", "max: 4\nqueue: {target_per_replica: 10}\n", "max: nonsense\n", ": not yaml"}
	for _, p := range optimizer.Presets() {
		documents = append(documents, p.YAML)
	}
	var people sync.WaitGroup
	for range 4 {
		people.Go(func() {
			for range 3 {
				for _, d := range documents {
					policy, findings := c.parse(d)
					wantPolicy, wantFindings := optimizer.ParsePolicy([]byte(d))
					if !reflect.DeepEqual(policy, wantPolicy) || !reflect.DeepEqual(findings, wantFindings) {
						t.Errorf("%q: %+v %v, want %+v %v", d, policy, findings, wantPolicy, wantFindings)
					}
				}
			}
		})
	}
	people.Wait()
	if len(c.parsed) != len(documents) {
		t.Errorf("%d documents are remembered, want %d", len(c.parsed), len(documents))
	}
}

func TestRememberedPoliciesAreBounded(t *testing.T) {
	t.Parallel()
	c := policyCache{parsed: map[[32]byte]parsedPolicy{}}
	for i := range maxParsed {
		c.parsed[[32]byte{byte(i), byte(i >> 8), byte(i >> 16)}] = parsedPolicy{}
	}
	if c.parse("max: 3"); len(c.parsed) != 1 {
		t.Errorf("%d documents are remembered, at most %d may be", len(c.parsed), maxParsed)
	}
}

func BenchmarkParsePolicyAgain(b *testing.B) {
	var c policyCache
	document := optimizer.Presets()[0].YAML
	for b.Loop() {
		c.parse(document)
	}
}

func BenchmarkParsePolicyAnew(b *testing.B) {
	document := []byte(optimizer.Presets()[0].YAML)
	for b.Loop() {
		optimizer.ParsePolicy(document)
	}
}
