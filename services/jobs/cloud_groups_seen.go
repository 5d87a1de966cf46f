package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

const (
	// groupSee is how often a group's size and bounds are held against what we know of them: two that fight are found within two minutes.
	groupSee = 50 * time.Second
	// groupSettles is how long a cloud may still tell the size before the one that it took from us.
	groupSettles = time.Minute
)

// see finds changes of a group's size and bounds that we did not make, and stops where somebody undoes ours again and again. How the group stands is told to the
// rest of this look as well.
func (w *CloudGroups) see(ctx context.Context, tenant fleet.TenantID, work *store.GroupWork, g *store.CloudGroup) error {
	if !g.Enabled || g.SeenAt != nil && work.Now.Sub(*g.SeenAt) < groupSee {
		return nil
	}
	if slices.ContainsFunc(work.Open, func(a store.GroupAction) bool {
		return a.Group == g.ID && (a.State == store.GroupAsked || work.Now.Sub(a.AskedAt) < groupSettles)
	}) {
		return nil
	}
	api, err := w.groups(ctx, tenant, g.Account)
	if err != nil {
		return err
	}
	now, err := api.Describe(ctx, g.Ref)
	if err != nil {
		return fmt.Errorf("read group %s: %w", g.Ref, err)
	}
	was := g.Contended()
	if err := w.DB.Tenant(ctx, tenant, func(tx *store.Tx) error {
		if err := store.SeeGroup(ctx, tx, g.ID, store.GroupSizes{Desired: now.Desired, Min: now.Min, Max: now.Max}); err != nil {
			return err
		}
		all, err := store.CloudGroups(ctx, tx, g.Cluster)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(all, func(o store.CloudGroup) bool { return o.ID == g.ID }); i >= 0 {
			g.Undone, g.SeenAt = all[i].Undone, all[i].SeenAt
		}
		return store.GroupFoughtOver(ctx, tx, g)
	}); err != nil {
		return fmt.Errorf("note how group %s is: %w", g.Ref, err)
	}
	if g.Contended() && !was {
		w.Log.WarnContext(ctx, "two fight over a group, and we stop", "tenant", tenant, "cluster", g.Cluster, "group", g.Ref, "undone", g.Undone)
	}
	return nil
}
