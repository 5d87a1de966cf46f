package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/lab"
)

func replayTune(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newReplayFlags("tune")
	family := f.set.String("family", "plimsoll-cq", "what is tuned: plimsoll-cq, or a family of baselines by `NAME` (see plimsoll replay policies)")
	current := f.set.String("current", "", "the `SETTING` of now: late-90 for plimsoll-cq (it aims at 90 per cent of the lateness that is allowed), the target for a family; default: its default")
	days := f.set.Int("days", 21, "of the end of each load that are replayed, 1 to 21")
	least := f.set.Int("min-days", 14, "of history without which nothing moves")
	if err := f.prepare(args, stderr); err != nil {
		return err
	}
	if *days < 1 || *days > 21 || *least < 1 || *least > 21 {
		fmt.Fprintln(stderr, "plimsoll replay tune: want 1 to 21 days")
		return errUsage
	}
	out := []lab.Tuning{}
	err := f.profiled(func() error {
		return f.each(ctx, func(l lab.Load) error {
			grid, now, err := notches(*family, *current, l.SLO.Late)
			if err != nil {
				return err
			}
			t, err := lab.Tune(l, grid, now, *days, *least)
			if err != nil {
				return err
			}
			out = append(out, t)
			return ctx.Err()
		})
	})
	if err != nil {
		return err
	}
	if *f.asJSON {
		return writeJSON(stdout, out)
	}
	for i := range out {
		if i > 0 {
			fmt.Fprintln(stdout)
		}
		if err := out[i].Write(stdout); err != nil {
			return err
		}
	}
	return nil
}

// notches is the grid of a family and the setting of now on it.
func notches(family, current string, slo float64) ([]lab.Notch, string, error) {
	if family == "plimsoll-cq" {
		if current == "" {
			current = "late-90"
		}
		return lab.QuantileNotches(slo), current, nil
	}
	for _, f := range lab.Families() {
		if f.Name != family {
			continue
		}
		if current == "" {
			current = strconv.Itoa(f.Default)
		}
		return lab.FamilyNotches(f), family + "-" + current, nil
	}
	return nil, "", fleet.Errorf(fleet.CodeInvalid, "there is no family %q; plimsoll replay policies lists them", family)
}
