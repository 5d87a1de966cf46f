package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

const (
	// groupLook is how often it is looked what of a cloud changes a group while nothing is done to it.
	groupLook = 5 * time.Minute
	// groupStops is how often a cloud's own scaling of a group is stopped within groupStopsWithin: taking it over, and twice more where somebody starts it
	// again. After that two fight, and we stop.
	groupStops, groupStopsWithin = 3, time.Hour
)

// look keeps what of the cloud changes a group known, and gives back what was stopped of one that is not owned any more.
func (w *CloudGroups) look(ctx context.Context, tenant fleet.TenantID, work *store.GroupWork, g *store.CloudGroup) error {
	owned := g.Enabled && g.Own
	back := len(g.Suspended) > 0 && !owned && !work.Frozen
	if !back && (!g.Enabled || g.WritersAt != nil && work.Now.Sub(*g.WritersAt) < groupLook) {
		return nil
	}
	api, err := w.groups(ctx, tenant, g.Account)
	if err != nil {
		return err
	}
	if back {
		if err := api.Resume(ctx, cloud.Suspension{Ref: g.Ref, What: g.Suspended}); err != nil {
			return fmt.Errorf("give the scaling of %s back: %w", g.Ref, err)
		}
		w.Log.InfoContext(ctx, "group's own scaling given back", "tenant", tenant, "cluster", g.Cluster, "group", g.Ref, "what", g.Suspended)
		return w.DB.Tenant(ctx, tenant, func(tx *store.Tx) error {
			_, err := store.GaveScalingBack(ctx, tx, g.ID, g.Suspended)
			return err
		})
	}
	_, err = w.writers(ctx, tenant, api, g)
	return err
}

// writers reads what of the cloud changes a group, and writes it down. An account that may not say is no reason to do nothing: it was not asked before, and the
// page says that it is not known.
func (w *CloudGroups) writers(ctx context.Context, tenant fleet.TenantID, api cloud.Groups, g *store.CloudGroup) ([]cloud.Writer, error) {
	list, err := api.Writers(ctx, g.Ref)
	var coded *fleet.Error
	why := ""
	switch {
	case errors.As(err, &coded) && coded.Code == fleet.CodeForbidden:
		why = cloud.Problem(err)
	case err != nil:
		return nil, fmt.Errorf("look what changes group %s: %w", g.Ref, err)
	}
	return list, w.DB.Tenant(ctx, tenant, func(tx *store.Tx) error { return store.NoteGroupWriters(ctx, tx, g.ID, list, why) })
}

// free says whether a group may be changed: nothing of the cloud writes its size, or, for machines that are ended by name, moves its machines. Of a group that is
// owned it is stopped first.
func (w *CloudGroups) free(ctx context.Context, tenant fleet.TenantID, api cloud.Groups, g *store.CloudGroup, named bool) (bool, error) {
	list, err := w.writers(ctx, tenant, api, g)
	if err != nil {
		return false, err
	}
	list = slices.DeleteFunc(slices.Clone(list), func(x cloud.Writer) bool { return !x.Sizes && !named })
	if len(list) == 0 {
		return true, nil
	}
	if !g.Own || !g.Enabled || slices.ContainsFunc(list, func(x cloud.Writer) bool { return x.Stop == "" }) {
		w.Log.InfoContext(ctx, "group left to what of the cloud changes it", "tenant", tenant, "cluster", g.Cluster, "group", g.Ref, "writer", list[0].Text())
		return false, nil
	}
	var stop []string
	for _, x := range list {
		stop = append(stop, x.Stop)
	}
	slices.Sort(stop)
	stop = slices.Compact(stop)
	may := false
	if err := w.DB.Tenant(ctx, tenant, func(tx *store.Tx) (err error) {
		may, err = store.StopGroupScaling(ctx, tx, g.ID, stop, groupStops, groupStopsWithin)
		return err
	}); err != nil {
		return false, err
	}
	if !may {
		w.Log.WarnContext(ctx, "two fight over a group, and we stop", "tenant", tenant, "cluster", g.Cluster, "group", g.Ref, "writer", list[0].Text())
		return false, nil
	}
	if _, err := api.Suspend(ctx, g.Ref, stop...); err != nil {
		return false, fmt.Errorf("stop the scaling of %s: %w", g.Ref, err)
	}
	w.Log.InfoContext(ctx, "group's own scaling stopped", "tenant", tenant, "cluster", g.Cluster, "group", g.Ref, "what", stop)
	list, err = w.writers(ctx, tenant, api, g)
	return err == nil && !slices.ContainsFunc(list, func(x cloud.Writer) bool { return x.Sizes || named }), err
}
