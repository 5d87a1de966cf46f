package store

import (
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
)

func TestAnAgentThatMayNotActForbidsActingNotDeciding(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		agent         string
		cluster, want fleet.Mode
	}{
		{"observe", fleet.ModeEnforce, fleet.ModeRecommend},
		{"observe", fleet.ModeObserve, fleet.ModeObserve},
		{"recommend", fleet.ModeApprove, fleet.ModeRecommend},
		{"approve", fleet.ModeEnforce, fleet.ModeApprove},
		{"approve", fleet.ModeRecommend, fleet.ModeRecommend},
		{"enforce", fleet.ModeEnforce, fleet.ModeEnforce},
		{"", fleet.ModeEnforce, fleet.ModeEnforce},
	} {
		if got := (AgentLimits{Mode: c.agent}).allow(c.cluster); got != c.want {
			t.Errorf("agent %q in a cluster in %s: %s, want %s", c.agent, c.cluster, got, c.want)
		}
	}
}

func TestDataTimeGoesOnBetweenReports(t *testing.T) {
	t.Parallel()
	data, seen := time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC), time.Date(2026, 11, 2, 8, 0, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		passed time.Duration
		speed  float64
		want   time.Duration
	}{
		"a real clock runs on at once":              {10 * time.Second, 1, 10 * time.Second},
		"our clock went back":                       {-time.Hour, 1, 0},
		"a fast clock stands between its reports":   {time.Second, 600, 0},
		"a fast clock runs on when reports are due": {4 * time.Second, 600, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := dataNow(seen.Add(c.passed), seen, data, c.speed); got != data.Add(c.want) {
				t.Errorf("%v after the newest data, want %v", got.Sub(data), c.want)
			}
		})
	}
}
