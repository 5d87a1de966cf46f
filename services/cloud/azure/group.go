package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
)

// Groups changes the capacity of virtual machine scale sets, ends machines of theirs by name, and switches autoscale settings off and on again, which is all
// that it changes. A Ref is the scale set's resource id. Safe for concurrent use.
//
// A Version is the scale set's etag, which goes along with a change: Azure refuses the change when somebody was faster.
type Groups struct{ src *Source }

var _ cloud.Groups = (*Groups)(nil)

// Versions of the APIs. Etags of scale sets came with 2024-07-01.
const (
	setsVersion      = "2024-11-01"
	autoscaleVersion = "2022-10-01"
)

// NewGroups makes them; no call is made before the first method.
func NewGroups(cfg Config) (*Groups, error) {
	if cfg.Access.SubscriptionID == "" {
		return nil, fleet.Errorf(fleet.CodeInvalid, "name the subscription of the account")
	}
	if cfg.Deadline <= 0 {
		cfg.Deadline = 2 * time.Minute
	}
	src, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return &Groups{src: src}, nil
}

// scaleSet is a row of the scale sets, or one read by itself.
type scaleSet struct {
	ID       string
	Name     string
	Location string
	Etag     string
	Zones    []string
	Sku      struct {
		Name     string
		Capacity *int
	}
	Properties struct {
		VirtualMachineProfile struct{ Priority string }
		PriorityMixPolicy     *struct {
			BaseRegularPriorityCount           int
			RegularPriorityPercentageAboveBase int
		}
		SkuProfile *struct {
			AllocationStrategy string
			VMSizes            []struct{ Name string }
		}
	}
}

// instanceView is what runs of a scale set, and what went wrong last.
type instanceView struct {
	VirtualMachine struct {
		StatusesSummary []struct {
			Code  string
			Count int
		}
	}
	Statuses []struct {
		Code, Message string
		Time          time.Time
	}
}

var setID = regexp.MustCompile(`^/subscriptions/([0-9a-zA-Z-]{1,64})/resourceGroups/[\w.()-]{1,90}/providers/Microsoft\.Compute/virtualMachineScaleSets/[\w.-]{1,80}$`)

// check lets scale sets of the account's own subscription pass only.
func (g *Groups) check(ref string) error {
	if m := setID.FindStringSubmatch(ref); m == nil || !strings.EqualFold(m[1], g.src.cfg.Access.SubscriptionID) {
		return fleet.Errorf(fleet.CodeInvalid, "%.120q is no id of a scale set of this subscription", ref)
	}
	return nil
}

// List implements cloud.Groups. What runs in a scale set costs a call for each: Ready and Coming are -1 here.
func (g *Groups) List(ctx context.Context) (cloud.List[cloud.Group], error) {
	var out cloud.List[cloud.Group]
	err := g.src.list(ctx, "list scale sets", func(ctx context.Context) error {
		first := query("/subscriptions/"+g.src.cfg.Access.SubscriptionID+"/providers/Microsoft.Compute/virtualMachineScaleSets", setsVersion)
		return pages(ctx, &g.src.manager, first, func(s *scaleSet) {
			x, ok := s.group()
			switch {
			case !ok || g.check(x.Ref) != nil:
				out.Skip(cloud.SkipUnknown)
			case !slices.Contains(g.src.cfg.Regions, s.Location):
				out.Skip(cloud.SkipForeign)
			default:
				x.Ready, x.Coming = -1, -1
				out.Items = append(out.Items, x)
			}
		})
	})
	if err != nil {
		return cloud.List[cloud.Group]{}, err
	}
	cloud.SettleGroups(&out)
	return out, nil
}

func (s *scaleSet) group() (cloud.Group, bool) {
	g := cloud.Group{Ref: s.ID, Name: s.Name, Region: s.Location, Max: -1, Version: s.Etag, Spot: strings.EqualFold(s.Properties.VirtualMachineProfile.Priority, "Spot")}
	if s.ID == "" || s.Name == "" || s.Sku.Capacity == nil || *s.Sku.Capacity < 0 {
		return g, false
	}
	g.Desired, g.Zones = *s.Sku.Capacity, slices.Sorted(slices.Values(s.Zones))
	if p := s.Properties.PriorityMixPolicy; p != nil {
		g.OnDemandBase, g.OnDemandShare, g.Spot = &p.BaseRegularPriorityCount, &p.RegularPriorityPercentageAboveBase, false
	}
	if p := s.Properties.SkuProfile; p != nil {
		g.Strategy = p.AllocationStrategy
		for _, v := range p.VMSizes {
			g.Types = append(g.Types, cloud.Mix{InstanceType: v.Name, Weight: 1})
		}
	} else if s.Sku.Name != "" {
		g.Types = []cloud.Mix{{InstanceType: s.Sku.Name, Weight: 1}}
	}
	return g, true
}

// Describe implements cloud.Groups.
func (g *Groups) Describe(ctx context.Context, ref string) (cloud.Group, error) {
	out, _, err := g.describe(ctx, ref)
	return out, err
}

func (g *Groups) describe(ctx context.Context, ref string) (out cloud.Group, failures []cloud.GroupFailure, err error) {
	if err := g.check(ref); err != nil {
		return out, nil, err
	}
	err = g.src.list(ctx, "read "+ref, func(ctx context.Context) error {
		var set scaleSet
		if err := g.src.manager.Get(ctx, query(ref, setsVersion), &set); err != nil {
			return err
		}
		var view instanceView
		if err := g.src.manager.Get(ctx, query(ref+"/instanceView", setsVersion), &view); err != nil {
			return err
		}
		var ok bool
		if out, ok = set.group(); !ok || !strings.EqualFold(out.Ref, ref) {
			return fleet.Errorf(fleet.CodeUnavailable, "the cloud's answer about %s cannot be read", ref)
		}
		out.Ref = ref
		for _, s := range view.VirtualMachine.StatusesSummary {
			switch strings.ToLower(s.Code) {
			case "provisioningstate/succeeded", "provisioningstate/updating":
				out.Ready += max(s.Count, 0)
			case "provisioningstate/creating":
				out.Coming += max(s.Count, 0)
			}
		}
		for _, s := range view.Statuses {
			if code, failed := strings.CutPrefix(s.Code, "ProvisioningState/failed/"); failed {
				failures = append(failures, failureOf(s.Time, code, s.Message))
			}
		}
		return nil
	})
	return out, failures, err
}

// failureOf reads a failure. OperationNotAllowed is about quota only when it says so.
func failureOf(at time.Time, code, message string) cloud.GroupFailure {
	f := cloud.GroupFailure{At: at.UTC(), Kind: cloud.KindOf(code), Code: code, Message: cloud.Clip(message)}
	if code == "OperationNotAllowed" && !strings.Contains(strings.ToLower(message), "quota") {
		f.Kind = cloud.FailureOther
	}
	return f
}

// Resize implements cloud.Groups.
func (g *Groups) Resize(ctx context.Context, r cloud.Resize) (cloud.Resized, error) {
	now, _, err := g.describe(ctx, r.Ref)
	if err != nil {
		return cloud.Resized{}, err
	}
	out := cloud.Resized{Ref: r.Ref, Before: now.Desired, Ready: now.Ready, Desired: r.Desired}
	if out.Already, err = r.Check(now); err != nil || out.Already {
		return out, err
	}
	header := http.Header{"X-Ms-Client-Request-Id": {r.Token}}
	if now.Version != "" {
		header.Set("If-Match", now.Version)
	}
	err = g.src.list(ctx, "resize "+r.Ref, func(ctx context.Context) error {
		body := map[string]any{"sku": map[string]any{"capacity": r.Desired}}
		got, err := g.src.manager.Change(ctx, http.MethodPatch, query(r.Ref, setsVersion), header, body, nil)
		if err != nil {
			return refusedChange(err)
		}
		out.At, _ = http.ParseTime(got.Get("Date"))
		out.Operation = got.Get("Azure-AsyncOperation")
		return nil
	})
	return out, err
}

// refusedChange tells want of capacity from other refusals.
func refusedChange(err error) error {
	var r *cloud.Refusal
	if !errors.As(err, &r) {
		return err
	}
	if f := failureOf(time.Time{}, r.Code, r.Message); f.Kind == cloud.FailureOther {
		return err
	}
	return cloud.NoCapacity(err, r.Code, r.Message, time.Time{})
}

// Progress implements cloud.Groups.
func (g *Groups) Progress(ctx context.Context, r cloud.Resized) (cloud.Progress, error) {
	now, failures, err := g.describe(ctx, r.Ref)
	if err != nil {
		return cloud.Progress{}, err
	}
	if r.Operation != "" {
		var op struct {
			Status    string
			StartTime time.Time
			EndTime   time.Time
			Error     struct{ Code, Message string }
		}
		err := g.src.list(ctx, "read how "+r.Ref+" was resized", func(ctx context.Context) error { return g.src.manager.Get(ctx, r.Operation, &op) })
		var known *fleet.Error
		switch {
		case errors.As(err, &known) && known.Code == fleet.CodeNotFound: // Azure forgets it after some days
		case err != nil:
			return cloud.Progress{}, err
		case op.Status == "Failed" && !slices.ContainsFunc(failures, func(f cloud.GroupFailure) bool { return f.Code == op.Error.Code && !f.At.Before(r.At) }):
			failures = append(failures, failureOf(op.EndTime, op.Error.Code, op.Error.Message))
		}
	}
	return cloud.Judge(r, now, failures), nil
}

// autoscale is a setting of Azure Monitor that changes a scale set's capacity.
type autoscale struct {
	ID         string
	Properties struct {
		Enabled           bool
		TargetResourceURI string `json:"targetResourceUri"`
	}
}

var settingID = regexp.MustCompile(`(?i)^/subscriptions/([0-9a-z-]{1,64})/resourceGroups/[\w.()-]{1,90}/providers/microsoft\.insights/autoscalesettings/[\w.-]{1,260}$`)

// Suspend implements cloud.Groups. What is the ids of the autoscale settings that were switched off.
func (g *Groups) Suspend(ctx context.Context, ref string, only ...string) (cloud.Suspension, error) {
	s := cloud.Suspension{Ref: ref}
	if err := g.check(ref); err != nil {
		return s, err
	}
	found, err := g.scalers(ctx, ref)
	if err != nil {
		return s, err
	}
	for _, id := range slices.DeleteFunc(found, func(id string) bool { return !cloud.Named(id, only) }) {
		if err := g.enable(ctx, id, false); err != nil {
			return s, err // What names those that are off
		}
		s.What = append(s.What, id)
	}
	return s, nil
}

// scalers are the ids of the autoscale settings that write a scale set's capacity, sorted.
func (g *Groups) scalers(ctx context.Context, ref string) (found []string, err error) {
	err = g.src.list(ctx, "list autoscale settings", func(ctx context.Context) error {
		first := query("/subscriptions/"+g.src.cfg.Access.SubscriptionID+"/providers/Microsoft.Insights/autoscalesettings", autoscaleVersion)
		return pages(ctx, &g.src.manager, first, func(a *autoscale) {
			if a.Properties.Enabled && strings.EqualFold(a.Properties.TargetResourceURI, ref) && g.own(a.ID) {
				found = append(found, a.ID)
			}
		})
	})
	slices.Sort(found)
	return found, err
}

// Resume implements cloud.Groups.
func (g *Groups) Resume(ctx context.Context, s cloud.Suspension) error {
	if err := g.check(s.Ref); err != nil {
		return err
	}
	for _, id := range s.What {
		if !g.own(id) {
			return fleet.Errorf(fleet.CodeInvalid, "%.120q is no id of an autoscale setting of this subscription", id)
		}
	}
	for _, id := range s.What {
		if err := g.enable(ctx, id, true); err != nil {
			return err
		}
	}
	return nil
}

func (g *Groups) own(id string) bool {
	m := settingID.FindStringSubmatch(id)
	return m != nil && strings.EqualFold(m[1], g.src.cfg.Access.SubscriptionID)
}

func (g *Groups) enable(ctx context.Context, id string, on bool) error {
	return g.src.list(ctx, fmt.Sprintf("set %s to enabled=%v", id, on), func(ctx context.Context) error {
		_, err := g.src.manager.Change(ctx, http.MethodPatch, query(id, autoscaleVersion), nil, map[string]any{"properties": map[string]any{"enabled": on}}, nil)
		return err
	})
}
