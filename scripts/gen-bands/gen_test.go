package main

import (
	"strings"
	"testing"
)

const head = "as_of_commit_date,region,instance_type,interruption_band,interruption_band_label,savings_percent\n"

func TestTableCountsRegionsOfTheNewestDay(t *testing.T) {
	t.Parallel()
	got, err := table(strings.NewReader(head + "2021-01-01,r1,b.large,4,>20%,50\n2025-01-01,r1,b.large,0,<5%,50\n2025-01-01,r2,b.large,4,>20%,50\n2025-01-01,r2,a.large,2,10-15%,50\n"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(got)), "\n")
	want := []string{"date 2025-01-01", "a.large\t0\t0\t1\t0\t0", "b.large\t1\t0\t0\t0\t1"}
	if len(lines) != 5 || strings.Join(lines[2:], "|") != strings.Join(want, "|") {
		t.Errorf("%q", lines)
	}
}

func TestTableRefusesWhatIsNoBand(t *testing.T) {
	t.Parallel()
	for name, rows := range map[string]string{"no rows": "", "a sixth band": "2025-01-01,r,a,5,?,1\n", "no number": "2025-01-01,r,a,x,?,1\n", "a short row": "2025-01-01,r,a\n"} {
		if _, err := table(strings.NewReader(head + rows)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
