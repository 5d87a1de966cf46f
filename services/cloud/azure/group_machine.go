package azure

import (
	"cmp"
	"context"
	"net/http"
	"path"
	"slices"
	"strings"

	"plimsoll.dev/services/cloud"
)

// Writers implements cloud.Groups. Scale sets do not move machines between zones by themselves.
func (g *Groups) Writers(ctx context.Context, ref string) (out []cloud.Writer, err error) {
	if err := g.check(ref); err != nil {
		return nil, err
	}
	ids, err := g.scalers(ctx, ref)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		out = append(out, cloud.Writer{Kind: cloud.WriterAutoscaler, Name: path.Base(id), Sizes: true, Stop: id})
	}
	return out, nil
}

// setMachine is a machine of a scale set in uniform orchestration.
type setMachine struct {
	InstanceID string `json:"instanceId"`
	Zones      []string
	Properties struct {
		ProvisioningState string
		ProtectionPolicy  struct{ ProtectFromScaleIn, ProtectFromScaleSetActions bool }
	}
}

// Machines implements cloud.Groups.
func (g *Groups) Machines(ctx context.Context, ref string) (out []cloud.GroupMachine, err error) {
	if err := g.check(ref); err != nil {
		return nil, err
	}
	err = g.src.list(ctx, "list machines of "+ref, func(ctx context.Context) error {
		return pages(ctx, &g.src.manager, query(ref+"/virtualMachines", setsVersion), func(m *setMachine) {
			if m.InstanceID == "" {
				return
			}
			x := cloud.GroupMachine{ID: m.InstanceID, Going: strings.EqualFold(m.Properties.ProvisioningState, "Deleting"),
				Kept: m.Properties.ProtectionPolicy.ProtectFromScaleIn || m.Properties.ProtectionPolicy.ProtectFromScaleSetActions}
			if len(m.Zones) > 0 {
				x.Zone = m.Zones[0]
			}
			out = append(out, x)
		})
	})
	slices.SortFunc(out, func(a, b cloud.GroupMachine) int { return cmp.Compare(a.ID, b.ID) })
	return out, err
}

// Terminate implements cloud.Groups. Azure lowers the capacity by what it deletes.
func (g *Groups) Terminate(ctx context.Context, t cloud.Termination) (cloud.Resized, error) {
	there, err := g.Machines(ctx, t.Ref)
	if err != nil {
		return cloud.Resized{}, err
	}
	now, _, err := g.describe(ctx, t.Ref)
	if err != nil {
		return cloud.Resized{}, err
	}
	out := cloud.Resized{Ref: t.Ref, Before: now.Desired, Ready: now.Ready, Desired: t.Desired}
	left, err := t.Check(now, there)
	if out.Already = err == nil && len(left) == 0; err != nil || out.Already {
		return out, err
	}
	header := http.Header{"X-Ms-Client-Request-Id": {t.Token}}
	err = g.src.list(ctx, "end machines of "+t.Ref, func(ctx context.Context) error {
		got, err := g.src.manager.Change(ctx, http.MethodPost, query(t.Ref+"/delete", setsVersion), header, map[string]any{"instanceIds": left}, nil)
		if err != nil {
			return err
		}
		out.At, _ = http.ParseTime(got.Get("Date"))
		out.Operation = got.Get("Azure-AsyncOperation")
		return nil
	})
	return out, err
}
