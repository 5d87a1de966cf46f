package main

import (
	"testing"
	"time"
)

func TestDemoCommitmentsBeginBeforeAnyHistoryAndOneEndsSoon(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 31, 17, 30, 0, 0, time.UTC)
	soon := 0
	for _, c := range demoCommitments(now) {
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", c.Ref, err)
		}
		if c.Term.From.After(now.AddDate(0, 0, -31)) { // -days is at most 30
			t.Errorf("%s begins %v: hours of the history would be costed without it", c.Ref, c.Term.From)
		}
		if left := c.Term.To.Sub(now); left < 0 {
			t.Errorf("%s is over", c.Ref)
		} else if left < 30*24*time.Hour {
			soon++
		}
	}
	if soon != 1 {
		t.Errorf("%d end soon, want one", soon)
	}
}
