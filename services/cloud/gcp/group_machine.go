package gcp

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
)

// Writers implements cloud.Groups. A regional group that redistributes by itself moves machines between zones; only its owner can say that it shall not.
func (g *Groups) Writers(ctx context.Context, ref string) (out []cloud.Writer, err error) {
	_, m, scaler, err := g.manager(ctx, ref)
	if err != nil {
		return nil, err
	}
	if scaler != nil && scaler.AutoscalingPolicy.Mode != "OFF" {
		out = append(out, cloud.Writer{Kind: cloud.WriterAutoscaler, Name: scaler.Name, Sizes: true, Stop: scaler.Name + "=" + or(scaler.AutoscalingPolicy.Mode, "ON")})
	}
	if m.Region != "" && m.UpdatePolicy.InstanceRedistributionType == "PROACTIVE" {
		out = append(out, cloud.Writer{Kind: cloud.WriterRebalance, Name: "instanceRedistributionType=PROACTIVE"})
	}
	return out, nil
}

// managedInstance is a machine of a group.
type managedInstance struct {
	Instance      string // a link
	CurrentAction string
}

var instanceLink = regexp.MustCompile(`/zones/([a-z0-9-]{1,40})/instances/([a-z0-9-]{1,63})$`)

// Machines implements cloud.Groups. An id is "zone/name".
func (g *Groups) Machines(ctx context.Context, ref string) (out []cloud.GroupMachine, err error) {
	if _, err := g.place(ref); err != nil {
		return nil, err
	}
	err = g.src.list(ctx, "list machines of "+ref, func(ctx context.Context) error {
		return cloud.Pages(ctx, func(token string) (string, error) {
			q := url.Values{"maxResults": {strconv.Itoa(pageSize)}}
			if token != "" {
				q.Set("pageToken", token)
			}
			var page struct {
				ManagedInstances []managedInstance
				NextPageToken    string
			}
			if _, err := g.src.compute.Change(ctx, http.MethodPost, g.address(ref)+"/listManagedInstances?"+q.Encode(), nil, nil, &page); err != nil { // a list that is asked for by POST
				return "", err
			}
			for _, m := range page.ManagedInstances {
				if at := instanceLink.FindStringSubmatch(m.Instance); at != nil {
					out = append(out, cloud.GroupMachine{ID: at[1] + "/" + at[2], Zone: at[1], Going: slices.Contains([]string{"DELETING", "ABANDONING", "STOPPING", "SUSPENDING"}, m.CurrentAction)})
				}
			}
			return page.NextPageToken, cloud.Room(len(out))
		})
	})
	slices.SortFunc(out, func(a, b cloud.GroupMachine) int { return cmp.Compare(a.ID, b.ID) })
	return out, err
}

var machineID = regexp.MustCompile(`^[a-z0-9-]{1,40}/[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Terminate implements cloud.Groups. Google lowers the size by what it deletes, and does the same request once.
func (g *Groups) Terminate(ctx context.Context, t cloud.Termination) (cloud.Resized, error) {
	for _, id := range t.Machines {
		if !machineID.MatchString(id) {
			return cloud.Resized{}, fleet.Errorf(fleet.CodeInvalid, "%.80q is no zone/name of a machine", id)
		}
	}
	there, err := g.Machines(ctx, t.Ref)
	if err != nil {
		return cloud.Resized{}, err
	}
	now, scaler, err := g.describe(ctx, t.Ref)
	if err != nil {
		return cloud.Resized{}, err
	}
	out := cloud.Resized{Ref: t.Ref, Before: now.Desired, Ready: now.Ready, Desired: t.Desired}
	left, err := t.Check(now, there)
	if out.Already = err == nil && len(left) == 0; err != nil || out.Already {
		return out, err
	}
	if scaler != nil && scaler.AutoscalingPolicy.Mode != "OFF" {
		return out, fleet.Errorf(fleet.CodeConflict, "the autoscaler %s writes the size of %s: suspend it first", scaler.Name, now.Name)
	}
	instances := make([]string, len(left))
	for i, id := range left {
		zone, name, _ := strings.Cut(id, "/")
		instances[i] = fmt.Sprintf("zones/%s/instances/%s", zone, name)
	}
	q := url.Values{"requestId": {uuidOf(fmt.Sprintf("%s|%s|%s", t.Ref, strings.Join(left, ","), t.Token))}}
	err = g.src.list(ctx, "end machines of "+t.Ref, func(ctx context.Context) error {
		var op operation
		body := map[string]any{"instances": instances, "skipInstancesOnValidationError": true}
		if _, err := g.src.compute.Change(ctx, http.MethodPost, g.address(t.Ref)+"/deleteInstances?"+q.Encode(), nil, body, &op); err != nil {
			return err
		}
		out.At = op.InsertTime.UTC()
		if resourceName.MatchString(op.Name) {
			out.Operation = op.Name
		}
		return nil
	})
	return out, err
}
