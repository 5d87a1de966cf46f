package jobs

import (
	"context"
	"maps"

	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/store"
)

// hints gives each policy what people expect of its workload's load, as far as that may matter now.
func (*PlanWorker) hints(ctx context.Context, tx *store.Tx, in optimizer.Input) (optimizer.Input, error) {
	all, err := store.PlanHints(ctx, tx, in.Snapshot.Cluster, in.Snapshot.Now)
	if err != nil || len(all) == 0 {
		return in, err
	}
	in.Policies = maps.Clone(in.Policies)
	for id, list := range all {
		if b, ok := in.Policies[id]; ok {
			in.Policies[id] = b.WithHints(list, in.Snapshot.Now)
		}
	}
	return in, nil
}
