package store_test

import (
	"testing"
	"time"
)

// Frames that travel together: the first announces a series, the second uses it. Both are stored in one transaction.
func TestAFrameMayUseWhatAnEarlierFrameOfTheSameRunAnnounced(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	src := s.open(t, hello(1))
	fields, column := []string{"request_rate"}, [][]float64{{1, 2, 3, 4}}
	out := ingest(t, src,
		frameReport(t, 1, day, true, "ns/Deployment/w", fields, column),
		frameReport(t, 2, day.Add(time.Minute), false, "ns/Deployment/w", fields, column))
	if got := results(out); got != "[accepted accepted]" {
		t.Fatal(got, out[1].Detail)
	}
	// A frame that announces a known id as something else is refused, and the stream goes on.
	out = ingest(t, src,
		frameReport(t, 3, day.Add(2*time.Minute), true, "ns/Deployment/other", fields, column),
		frameReport(t, 4, day.Add(3*time.Minute), false, "ns/Deployment/w", fields, column))
	if got := results(out); got != "[malformed accepted]" {
		t.Fatal(got)
	}
}
