package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/lab"
)

// replayChaos plays the chaos scenarios of docs/chaos.md. It fails when a criterion is not kept.
func replayChaos(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	set := flag.NewFlagSet("plimsoll replay chaos", flag.ContinueOnError)
	scenarios := set.String("scenario", "", "only these, `NAMES` with commas between")
	policies := set.String("policy", "", "only these of slo, queue, ratio and plimsoll-cq, `NAMES` with commas between")
	list := set.Bool("list", false, "list the scenarios and play nothing")
	storms := set.Bool("storms", false, "only how long capacity is missing when supply breaks, with ours and on a back-off ladder as Karpenter has")
	asJSON := set.Bool("json", false, "print JSON")
	if err := parse(set, args, stderr, 0); err != nil {
		return err
	}
	if *storms {
		return replayStorms(stdout, *asJSON)
	}
	picked, err := lab.FindScenarios(names(*scenarios))
	if err != nil {
		return err
	}
	if *list {
		for _, s := range picked {
			fmt.Fprintf(stdout, "%-22s %s\n", s.Name, s.About)
		}
		return nil
	}
	players, err := chaosPolicies(names(*policies))
	if err != nil {
		return err
	}
	results, failed := make([]lab.ChaosResult, 0, len(picked)*len(players)), 0
	for _, s := range picked {
		for _, p := range players {
			if err := ctx.Err(); err != nil {
				return err
			}
			r, err := lab.RunChaos(s, p)
			if err != nil {
				return err
			}
			if !r.Pass {
				failed++
			}
			results = append(results, r)
		}
	}
	if *asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(map[string]any{"results": results})
	} else {
		err = lab.WriteChaos(stdout, results)
	}
	if err == nil && failed > 0 {
		err = fleet.Errorf(fleet.CodeConflict, "%d of %d runs do not keep their criteria", failed, len(results))
	}
	return err
}

func chaosPolicies(picked []string) ([]lab.ChaosPolicy, error) {
	all := lab.ChaosPolicies()
	if len(picked) == 0 {
		return all, nil
	}
	out := []lab.ChaosPolicy{}
	for _, n := range picked {
		found := false
		for _, p := range all {
			if p.Name == n {
				out, found = append(out, p), true
			}
		}
		if !found {
			return nil, fleet.Errorf(fleet.CodeInvalid, "no policy %q goes through the scenarios; there are slo, queue, ratio and plimsoll-cq", n)
		}
	}
	return out, nil
}

// replayStorms prints how long capacity is missing in each storm. It fails where ours takes as long as the ladder.
func replayStorms(stdout io.Writer, asJSON bool) error {
	rows, err := lab.PlayStorms()
	if err != nil {
		return err
	}
	if asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(map[string]any{"storms": rows})
	} else {
		err = lab.WriteStorms(stdout, rows)
	}
	if err != nil {
		return err
	}
	ladder := map[string]float64{}
	for _, r := range rows {
		if r.Buyer == lab.StormLadder {
			ladder[r.Storm] = r.P95
		}
	}
	for _, r := range rows {
		if r.Buyer == lab.StormOurs && r.P95 >= ladder[r.Storm] {
			return fleet.Errorf(fleet.CodeConflict, "%s: p95 until capacity is %.0f s, on the ladder %.0f s", r.Storm, r.P95, ladder[r.Storm])
		}
	}
	return nil
}
