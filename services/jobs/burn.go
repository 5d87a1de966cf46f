package jobs

import (
	"time"

	"plimsoll.dev/services/store"
)

// pace is how fast an objective's allowance of late requests is used up: times of the even rate that would use it up in thirty days.
type pace struct {
	times       float64
	long, short time.Duration
}

// The pairs of windows of the SRE workbook, chapter "Alerting on SLOs", table 5-8, and a fourth of its text: a pair speaks when both windows burn
// at its pace. The long one says that it matters, the short one that it goes on. At 14.4 times two per cent of a month's allowance are gone in an
// hour.
var (
	fastPaces = []pace{{14.4, time.Hour, 5 * time.Minute}, {6, 6 * time.Hour, 30 * time.Minute}}
	slowPaces = []pace{{3, 24 * time.Hour, 2 * time.Hour}, {1, 72 * time.Hour, 6 * time.Hour}}
)

// mostLate bounds what a pace asks for: of an objective that allows ten per cent late requests 14.4 times is more than all of them.
const mostLate = 0.8

// burning is a pair of windows that speaks.
type burning struct {
	pace
	limit float64 // share of late requests from which it speaks
	late  float64 // of the long window
	now   float64 // of the short window
}

// burn is the first pair of paces at which a workload uses its allowance up; nil: none. objective is the share of requests that may be late.
func burn(p *store.Promised, objective float64, paces []pace) *burning {
	if objective <= 0 {
		return nil
	}
	for _, c := range paces {
		limit := min(c.times*objective, mostLate)
		long, short := burnWindow(c.long), burnWindow(c.short)
		if p.Minutes[long] < c.short.Minutes() { // less is known than the short window is long
			continue
		}
		if p.Late[long] >= limit && p.Late[short] >= limit {
			return &burning{c, limit, p.Late[long], p.Late[short]}
		}
	}
	return nil
}

func burnWindow(d time.Duration) int {
	for i, w := range store.BurnWindows {
		if w == d {
			return i
		}
	}
	panic("a pace over a window that nobody counts")
}
