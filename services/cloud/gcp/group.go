package gcp

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
)

// Groups changes the size of managed instance groups, ends machines of theirs by name, and switches their autoscalers off and on again, which is all that it
// changes. A Ref
// is "zones/us-central1-a/instanceGroupManagers/name", or the same with regions. Safe for concurrent use.
//
// A Version is the group's fingerprint and size. Google takes no version with a resize, but a request id: the same action sent again is
// done once. A group without an autoscaler has no bounds.
type Groups struct{ src *Source }

var _ cloud.Groups = (*Groups)(nil)

// changes is the right to change machines of a project.
const changes = "https://www.googleapis.com/auth/compute"

// NewGroups makes them; no call is made before the first method.
func NewGroups(cfg Config) (*Groups, error) {
	if cfg.Access.ProjectID == "" {
		return nil, fleet.Errorf(fleet.CodeInvalid, "name the project of the account")
	}
	if cfg.Deadline <= 0 {
		cfg.Deadline = 2 * time.Minute
	}
	cfg.scope = changes
	src, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return &Groups{src: src}, nil
}

// manager is a managed instance group.
type manager struct {
	Name               string
	Zone, Region       string // links
	TargetSize         *int
	Fingerprint        string
	InstanceTemplate   string // a link
	CurrentActions     struct{ None, Creating, CreatingWithoutRetries, Recreating, Restarting, Refreshing, Verifying, Resuming, Starting int }
	DistributionPolicy struct {
		Zones       []struct{ Zone string }
		TargetShape string
	}
	InstanceFlexibilityPolicy struct {
		InstanceSelections map[string]struct {
			Rank         int
			MachineTypes []string
		}
	}
	Status       struct{ Autoscaler string } // a link
	UpdatePolicy struct{ InstanceRedistributionType string }
}

// template is what the machines of a group are made from.
type template struct {
	Properties struct {
		MachineType string
		Scheduling  struct {
			ProvisioningModel string
			Preemptible       bool
		}
	}
}

// autoscaler changes a group's size by itself.
type autoscaler struct {
	Name              string
	AutoscalingPolicy struct {
		Mode           string
		MinNumReplicas int
		MaxNumReplicas *int
	}
}

var (
	managerRef   = regexp.MustCompile(`^((zones|regions)/[a-z]+-[a-z]+[0-9]+(-[a-z])?)/instanceGroupManagers/[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	resourceName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	templateLink = regexp.MustCompile(`/projects/[a-z0-9:.-]{1,100}/(global|regions/[a-z0-9-]{1,40})/instanceTemplates/[a-z0-9-]{1,63}$`)
)

// place is the part of a Ref before the group's name, "zones/us-central1-a".
func (g *Groups) place(ref string) (string, error) {
	m := managerRef.FindStringSubmatch(ref)
	if m == nil {
		return "", fleet.Errorf(fleet.CodeInvalid, "%.120q is no managed instance group", ref)
	}
	return m[1], nil
}

func (g *Groups) address(what string) string {
	return "/compute/v1/projects/" + g.src.cfg.Access.ProjectID + "/" + what
}

// List implements cloud.Groups. What the machines are made from and the bounds cost a call for each group: Types are empty and Max is -1.
func (g *Groups) List(ctx context.Context) (cloud.List[cloud.Group], error) {
	var out cloud.List[cloud.Group]
	err := g.src.list(ctx, "list managed instance groups", func(ctx context.Context) error {
		return scoped(ctx, g.src, "instanceGroupManagers", func(place string, m *manager) {
			where := "zones/" + place
			if m.Region != "" {
				where = "regions/" + place
			}
			x, ok := m.group(where + "/instanceGroupManagers/" + m.Name)
			switch {
			case !ok || !managerRef.MatchString(x.Ref):
				out.Skip(cloud.SkipUnknown)
			case !slices.Contains(g.src.cfg.Regions, x.Region):
				out.Skip(cloud.SkipForeign)
			default:
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

func (m *manager) group(ref string) (cloud.Group, bool) {
	g := cloud.Group{Ref: ref, Name: m.Name, Max: -1, Strategy: m.DistributionPolicy.TargetShape}
	if m.Name == "" || m.TargetSize == nil || *m.TargetSize < 0 {
		return g, false
	}
	g.Desired, g.Version = *m.TargetSize, m.Fingerprint+"/"+strconv.Itoa(*m.TargetSize)
	if m.Region != "" {
		g.Region = path.Base(m.Region)
		for _, z := range m.DistributionPolicy.Zones {
			g.Zones = append(g.Zones, path.Base(z.Zone))
		}
		slices.Sort(g.Zones)
	} else {
		g.Region, g.Zones = regionOf(path.Base(m.Zone)), []string{path.Base(m.Zone)}
	}
	a := m.CurrentActions
	g.Ready = a.None
	g.Coming = a.Creating + a.CreatingWithoutRetries + a.Recreating + a.Restarting + a.Refreshing + a.Verifying + a.Resuming + a.Starting
	return g, true
}

// Describe implements cloud.Groups.
func (g *Groups) Describe(ctx context.Context, ref string) (cloud.Group, error) {
	out, _, err := g.describe(ctx, ref)
	return out, err
}

func (g *Groups) describe(ctx context.Context, ref string) (out cloud.Group, scaler *autoscaler, err error) {
	out, _, scaler, err = g.manager(ctx, ref)
	return out, scaler, err
}

func (g *Groups) manager(ctx context.Context, ref string) (out cloud.Group, m manager, scaler *autoscaler, err error) {
	place, err := g.place(ref)
	if err != nil {
		return out, m, nil, err
	}
	err = g.src.list(ctx, "read "+ref, func(ctx context.Context) error {
		if err := g.src.compute.Get(ctx, g.address(ref), &m); err != nil {
			return err
		}
		var ok bool
		if out, ok = m.group(ref); !ok {
			return fleet.Errorf(fleet.CodeUnavailable, "the cloud's answer about %s cannot be read", ref)
		}
		if err := g.types(ctx, &out, &m); err != nil {
			return err
		}
		name := path.Base(m.Status.Autoscaler)
		if m.Status.Autoscaler == "" || !resourceName.MatchString(name) {
			return nil
		}
		scaler = &autoscaler{}
		if err := g.src.compute.Get(ctx, g.address(place+"/autoscalers/"+name), scaler); err != nil {
			return err
		}
		scaler.Name = name
		if p := scaler.AutoscalingPolicy; p.MaxNumReplicas != nil {
			out.Min, out.Max = p.MinNumReplicas, *p.MaxNumReplicas
		}
		return nil
	})
	return out, m, scaler, err
}

// types reads what the machines are made from.
func (g *Groups) types(ctx context.Context, out *cloud.Group, m *manager) error {
	for _, name := range slices.SortedFunc(maps.Keys(m.InstanceFlexibilityPolicy.InstanceSelections), func(a, b string) int {
		s := m.InstanceFlexibilityPolicy.InstanceSelections
		if d := s[a].Rank - s[b].Rank; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	}) {
		for _, t := range m.InstanceFlexibilityPolicy.InstanceSelections[name].MachineTypes {
			out.Types = append(out.Types, cloud.Mix{InstanceType: path.Base(t), Weight: 1})
		}
	}
	link := templateLink.FindString(m.InstanceTemplate)
	if link == "" {
		return nil
	}
	var t template
	if err := g.src.compute.Get(ctx, "/compute/v1"+link, &t); err != nil {
		return err
	}
	out.Spot = t.Properties.Scheduling.ProvisioningModel == "SPOT" || t.Properties.Scheduling.Preemptible
	if len(out.Types) == 0 && t.Properties.MachineType != "" {
		out.Types = []cloud.Mix{{InstanceType: path.Base(t.Properties.MachineType), Weight: 1}}
	}
	return nil
}

// operation is what Google says of a change.
type operation struct {
	Name       string
	Status     string
	InsertTime time.Time
	EndTime    time.Time
	Error      struct {
		Errors []struct{ Code, Message string }
	}
}

// Resize implements cloud.Groups.
func (g *Groups) Resize(ctx context.Context, r cloud.Resize) (cloud.Resized, error) {
	now, scaler, err := g.describe(ctx, r.Ref)
	if err != nil {
		return cloud.Resized{}, err
	}
	out := cloud.Resized{Ref: r.Ref, Before: now.Desired, Ready: now.Ready, Desired: r.Desired}
	if out.Already, err = r.Check(now); err != nil || out.Already {
		return out, err
	}
	if scaler != nil && scaler.AutoscalingPolicy.Mode != "OFF" {
		return out, fleet.Errorf(fleet.CodeConflict, "the autoscaler %s writes the size of %s: suspend it first", scaler.Name, now.Name)
	}
	q := url.Values{"size": {strconv.Itoa(r.Desired)}, "requestId": {requestID(r)}}
	err = g.src.list(ctx, "resize "+r.Ref, func(ctx context.Context) error {
		var op operation
		if _, err := g.src.compute.Change(ctx, http.MethodPost, g.address(r.Ref)+"/resize?"+q.Encode(), nil, nil, &op); err != nil {
			return refusedChange(err)
		}
		out.At = op.InsertTime.UTC()
		if resourceName.MatchString(op.Name) {
			out.Operation = op.Name
		}
		for _, e := range op.Error.Errors {
			return cloud.NoCapacity(fleet.Errorf(fleet.CodeUnavailable, "the cloud could not resize: %s %s", e.Code, cloud.Clip(e.Message)), e.Code, e.Message, out.At)
		}
		return nil
	})
	return out, err
}

// requestID is the UUID that stands for an action: of what is asked, so that an action cannot be taken for another of the same token.
func requestID(r cloud.Resize) string {
	return uuidOf(fmt.Sprintf("%s|%d|%s", r.Ref, r.Desired, r.Token))
}

func uuidOf(text string) string {
	h := sha256.Sum256([]byte(text))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80 // version 8, RFC 9562
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

func refusedChange(err error) error {
	var r *cloud.Refusal
	if !errors.As(err, &r) {
		return err
	}
	return cloud.NoCapacity(err, r.Code, r.Message, time.Time{})
}

// failure is a machine that Google could not make.
type failure struct {
	Timestamp             time.Time
	Error                 struct{ Code, Message string }
	InstanceActionDetails struct{ Action, Instance string }
}

// Progress implements cloud.Groups.
func (g *Groups) Progress(ctx context.Context, r cloud.Resized) (cloud.Progress, error) {
	now, _, err := g.describe(ctx, r.Ref)
	if err != nil {
		return cloud.Progress{}, err
	}
	var failures []cloud.GroupFailure
	err = g.src.list(ctx, "list errors of "+r.Ref, func(ctx context.Context) error {
		return cloud.Pages(ctx, func(token string) (string, error) {
			q := url.Values{"maxResults": {strconv.Itoa(pageSize)}}
			if token != "" {
				q.Set("pageToken", token)
			}
			var page struct {
				Items         []failure
				NextPageToken string
			}
			if err := g.src.compute.Get(ctx, g.address(r.Ref)+"/listErrors?"+q.Encode(), &page); err != nil {
				return "", err
			}
			for _, f := range page.Items {
				failures = append(failures, f.failure())
			}
			return page.NextPageToken, cloud.Room(len(failures))
		})
	})
	if err != nil {
		return cloud.Progress{}, err
	}
	return cloud.Judge(r, now, failures), nil
}

var zoneOf = regexp.MustCompile(`/zones/([a-z0-9-]{1,40})/`)

func (f *failure) failure() cloud.GroupFailure {
	out := cloud.GroupFailure{At: f.Timestamp.UTC(), Kind: cloud.KindOf(f.Error.Code), Code: f.Error.Code, Message: cloud.Clip(f.Error.Message)}
	if m := zoneOf.FindStringSubmatch(f.InstanceActionDetails.Instance); m != nil {
		out.Zone = m[1]
	}
	return out
}

// Suspend implements cloud.Groups. What is the autoscaler's name and the mode that it had, "name=ON".
func (g *Groups) Suspend(ctx context.Context, ref string, only ...string) (cloud.Suspension, error) {
	s := cloud.Suspension{Ref: ref}
	_, scaler, err := g.describe(ctx, ref)
	if err != nil || scaler == nil || scaler.AutoscalingPolicy.Mode == "OFF" {
		return s, err
	}
	what := scaler.Name + "=" + or(scaler.AutoscalingPolicy.Mode, "ON")
	place, err := g.place(ref)
	if err != nil || !cloud.Named(what, only) {
		return s, err
	}
	if err := g.setMode(ctx, place, scaler.Name, "OFF"); err != nil {
		return s, err
	}
	s.What = []string{what}
	return s, nil
}

// Resume implements cloud.Groups.
func (g *Groups) Resume(ctx context.Context, s cloud.Suspension) error {
	place, err := g.place(s.Ref)
	if err != nil {
		return err
	}
	for _, w := range s.What {
		name, mode, _ := strings.Cut(w, "=")
		if !resourceName.MatchString(name) || !slices.Contains([]string{"ON", "ONLY_SCALE_OUT", "ONLY_UP"}, mode) {
			return fleet.Errorf(fleet.CodeInvalid, "%.80q is no autoscaler that was suspended here", w)
		}
		if err := g.setMode(ctx, place, name, mode); err != nil {
			return err
		}
	}
	return nil
}

func (g *Groups) setMode(ctx context.Context, place, name, mode string) error {
	return g.src.list(ctx, "set autoscaler "+name+" to "+mode, func(ctx context.Context) error {
		body := map[string]any{"autoscalingPolicy": map[string]any{"mode": mode}}
		_, err := g.src.compute.Change(ctx, http.MethodPatch, g.address(place+"/autoscalers")+"?autoscaler="+url.QueryEscape(name), nil, body, nil)
		return err
	})
}
