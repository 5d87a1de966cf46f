package aws

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
)

// The calls that are made on groups, and no others: what they need stands in docs/guides/cloud-accounts.md.
type scalingAPI interface {
	DescribeAutoScalingGroups(context.Context, *autoscaling.DescribeAutoScalingGroupsInput, ...func(*autoscaling.Options)) (*autoscaling.DescribeAutoScalingGroupsOutput, error)
	DescribeScalingActivities(context.Context, *autoscaling.DescribeScalingActivitiesInput, ...func(*autoscaling.Options)) (*autoscaling.DescribeScalingActivitiesOutput, error)
	SetDesiredCapacity(context.Context, *autoscaling.SetDesiredCapacityInput, ...func(*autoscaling.Options)) (*autoscaling.SetDesiredCapacityOutput, error)
	SuspendProcesses(context.Context, *autoscaling.SuspendProcessesInput, ...func(*autoscaling.Options)) (*autoscaling.SuspendProcessesOutput, error)
	ResumeProcesses(context.Context, *autoscaling.ResumeProcessesInput, ...func(*autoscaling.Options)) (*autoscaling.ResumeProcessesOutput, error)
	DescribePolicies(context.Context, *autoscaling.DescribePoliciesInput, ...func(*autoscaling.Options)) (*autoscaling.DescribePoliciesOutput, error)
	DescribeScheduledActions(context.Context, *autoscaling.DescribeScheduledActionsInput, ...func(*autoscaling.Options)) (*autoscaling.DescribeScheduledActionsOutput, error)
	TerminateInstanceInAutoScalingGroup(context.Context, *autoscaling.TerminateInstanceInAutoScalingGroupInput, ...func(*autoscaling.Options)) (*autoscaling.TerminateInstanceInAutoScalingGroupOutput, error)
}

// Groups changes the size of EC2 Auto Scaling groups, ends machines of theirs by name, and stops and starts their processes, which is all that it changes. A Ref is "region/name". Safe for concurrent use.
//
// Auto Scaling has neither versions nor tokens: the size is absolute, so that asking twice is asking once, and a Version is the sizes that
// were read. Between reading and writing another writer can slip in; the result's Before says what was there.
type Groups struct {
	cfg Config
	api scalingAPI
}

var _ cloud.Groups = (*Groups)(nil)

// NewGroups makes them; no call is made before the first method.
func NewGroups(ctx context.Context, cfg Config) (*Groups, error) {
	if len(cfg.Regions) == 0 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "name the regions of the account")
	}
	if cfg.Deadline <= 0 {
		cfg.Deadline = 2 * time.Minute
	}
	c, err := configure(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Groups{cfg: cfg, api: autoscaling.NewFromConfig(c)}, nil
}

func inRegion(region string) func(*autoscaling.Options) {
	return func(o *autoscaling.Options) { o.Region = region }
}

// do bounds one call in time and makes its error readable.
func (g *Groups) do(ctx context.Context, what string, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Deadline)
	defer cancel()
	err := call(ctx)
	if err == nil {
		return nil
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		switch code := api.ErrorCode(); code {
		case "ScalingActivityInProgress", "ResourceContention", "ResourceContentionFault", "ScalingActivityInProgressFault":
			return &fleet.Error{Code: fleet.CodeConflict, Message: "the cloud is at work on this group: " + cloud.Clip(api.ErrorMessage()), Err: err}
		default:
			err = cloud.NoCapacity(explain(err), code, api.ErrorMessage(), time.Time{})
		}
	} else {
		err = explain(err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// List implements cloud.Groups.
func (g *Groups) List(ctx context.Context) (cloud.List[cloud.Group], error) {
	var out cloud.List[cloud.Group]
	for _, region := range g.cfg.Regions {
		err := g.do(ctx, "list Auto Scaling groups of "+region, func(ctx context.Context) error {
			return cloud.Pages(ctx, func(token string) (string, error) {
				in := &autoscaling.DescribeAutoScalingGroupsInput{MaxRecords: aws.Int32(100)}
				if token != "" {
					in.NextToken = aws.String(token)
				}
				page, err := g.api.DescribeAutoScalingGroups(ctx, in, inRegion(region))
				if err != nil {
					return "", err
				}
				for i := range page.AutoScalingGroups {
					if x, ok := groupOf(region, &page.AutoScalingGroups[i]); ok {
						out.Items = append(out.Items, x)
					} else {
						out.Skip(cloud.SkipUnknown)
					}
				}
				return aws.ToString(page.NextToken), cloud.Room(len(out.Items))
			})
		})
		if err != nil {
			return cloud.List[cloud.Group]{}, err
		}
	}
	cloud.SettleGroups(&out)
	return out, nil
}

var groupName = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]/[^/\x00-\x1f]{1,255}$`)

func split(ref string) (region, name string, err error) {
	if !groupName.MatchString(ref) {
		return "", "", fleet.Errorf(fleet.CodeInvalid, "%.80q is not region/name of an Auto Scaling group", ref)
	}
	region, name, _ = strings.Cut(ref, "/")
	return region, name, nil
}

// Describe implements cloud.Groups.
func (g *Groups) Describe(ctx context.Context, ref string) (cloud.Group, error) {
	group, _, _, err := g.describe(ctx, ref)
	return group, err
}

// describe reads a group, which of its processes are suspended, and when that was by Amazon's clock.
func (g *Groups) describe(ctx context.Context, ref string) (group cloud.Group, suspended []string, at time.Time, err error) {
	region, name, err := split(ref)
	if err != nil {
		return group, nil, at, err
	}
	err = g.do(ctx, "read "+ref, func(ctx context.Context) error {
		out, err := g.api.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}}, inRegion(region))
		if err != nil {
			return err
		}
		if len(out.AutoScalingGroups) != 1 {
			return fleet.Errorf(fleet.CodeNotFound, "there is no Auto Scaling group %s in %s", name, region)
		}
		var ok bool
		if group, ok = groupOf(region, &out.AutoScalingGroups[0]); !ok {
			return fleet.Errorf(fleet.CodeUnavailable, "the cloud's answer about %s cannot be read", name)
		}
		for _, p := range out.AutoScalingGroups[0].SuspendedProcesses {
			suspended = append(suspended, aws.ToString(p.ProcessName))
		}
		at = serverTime(out.ResultMetadata)
		return nil
	})
	return group, suspended, at, err
}

func serverTime(m middleware.Metadata) time.Time {
	at, _ := awsmiddleware.GetServerTime(m)
	return at.UTC()
}

func groupOf(region string, a *types.AutoScalingGroup) (cloud.Group, bool) {
	name := aws.ToString(a.AutoScalingGroupName)
	if name == "" || a.DesiredCapacity == nil || a.MinSize == nil || a.MaxSize == nil {
		return cloud.Group{}, false
	}
	g := cloud.Group{Ref: region + "/" + name, Name: name, Region: region, Zones: slices.Sorted(slices.Values(a.AvailabilityZones)),
		Desired: int(*a.DesiredCapacity), Min: int(*a.MinSize), Max: int(*a.MaxSize), Weighted: weighted(a)}
	g.Version = fmt.Sprintf("%d/%d/%d", g.Desired, g.Min, g.Max)
	if m := a.MixedInstancesPolicy; m != nil {
		mix(&g, m)
	}
	for i := range a.Instances {
		size := 1
		if n, err := strconv.Atoi(aws.ToString(a.Instances[i].WeightedCapacity)); g.Weighted && err == nil && n > 0 && n < 1000 {
			size = n
		}
		switch s := a.Instances[i].LifecycleState; {
		case s == types.LifecycleStateInService:
			g.Ready += size
		case strings.HasPrefix(string(s), "Pending"):
			g.Coming += size
		}
	}
	return g, true
}

// weighted says whether sizes are other units than machines: vCPUs, MiB, or the weights of a mix.
func weighted(a *types.AutoScalingGroup) bool {
	if unit := aws.ToString(a.DesiredCapacityType); unit != "" && unit != "units" {
		return true
	}
	m := a.MixedInstancesPolicy
	return m != nil && m.LaunchTemplate != nil && slices.ContainsFunc(m.LaunchTemplate.Overrides, func(o types.LaunchTemplateOverrides) bool { return aws.ToString(o.WeightedCapacity) != "" })
}

// mix reads what a mixed group is made of.
func mix(g *cloud.Group, m *types.MixedInstancesPolicy) {
	if d := m.InstancesDistribution; d != nil {
		base, share := int(aws.ToInt32(d.OnDemandBaseCapacity)), 100 // Amazon's default
		if d.OnDemandPercentageAboveBaseCapacity != nil {
			share = int(*d.OnDemandPercentageAboveBaseCapacity)
		}
		g.OnDemandBase, g.OnDemandShare, g.Strategy = &base, &share, aws.ToString(d.SpotAllocationStrategy)
		g.Spot = base == 0 && share == 0
	}
	if m.LaunchTemplate == nil {
		return
	}
	for _, o := range m.LaunchTemplate.Overrides {
		x := cloud.Mix{InstanceType: aws.ToString(o.InstanceType), Weight: 1}
		if n, err := strconv.Atoi(aws.ToString(o.WeightedCapacity)); err == nil && n > 0 && n < 1000 {
			x.Weight = n
		}
		if x.InstanceType != "" {
			g.Types = append(g.Types, x)
		}
	}
}

// Resize implements cloud.Groups.
func (g *Groups) Resize(ctx context.Context, r cloud.Resize) (cloud.Resized, error) {
	now, _, at, err := g.describe(ctx, r.Ref)
	if err != nil {
		return cloud.Resized{}, err
	}
	out := cloud.Resized{Ref: r.Ref, Before: now.Desired, Ready: now.Ready, Desired: r.Desired, At: at}
	if out.Already, err = r.Check(now); err != nil || out.Already {
		return out, err
	}
	region, name, _ := split(r.Ref)
	return out, g.do(ctx, "resize "+r.Ref, func(ctx context.Context) error {
		_, err := g.api.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: aws.String(name),
			DesiredCapacity: aws.Int32(int32(r.Desired)), HonorCooldown: aws.Bool(false)}, inRegion(region)) //nolint:gosec // at most MaxGroupSize
		return err
	})
}

// maxActivities that are read: an hour of failed launches, one a minute or so for each zone.
const maxActivities = 100

// Progress implements cloud.Groups.
func (g *Groups) Progress(ctx context.Context, r cloud.Resized) (cloud.Progress, error) {
	now, _, _, err := g.describe(ctx, r.Ref)
	if err != nil {
		return cloud.Progress{}, err
	}
	region, name, _ := split(r.Ref)
	var failures []cloud.GroupFailure
	err = g.do(ctx, "read activities of "+r.Ref, func(ctx context.Context) error {
		out, err := g.api.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: aws.String(name), MaxRecords: aws.Int32(maxActivities)}, inRegion(region))
		if err != nil {
			return err
		}
		for i := range out.Activities {
			if f, ok := failureOf(&out.Activities[i]); ok {
				failures = append(failures, f)
			}
		}
		return nil
	})
	if err != nil {
		return cloud.Progress{}, err
	}
	return cloud.Judge(r, now, failures), nil
}

var shortOf = regexp.MustCompile(`sufficient ([a-z][a-z0-9-]*\.[a-z0-9-]+) capacity`)

// failureOf reads an activity. Amazon writes why into a sentence: the code stands in it, or only the words of one.
func failureOf(a *types.Activity) (cloud.GroupFailure, bool) {
	if a.StatusCode != types.ScalingActivityStatusCodeFailed && a.StatusCode != types.ScalingActivityStatusCodeCancelled || a.StartTime == nil {
		return cloud.GroupFailure{}, false
	}
	text := aws.ToString(a.StatusMessage)
	f := cloud.GroupFailure{At: a.StartTime.UTC(), Code: cloud.CodeIn(text), Message: cloud.Clip(text)}
	if m := shortOf.FindStringSubmatch(text); m != nil {
		f.InstanceType, f.Code = m[1], cmp.Or(f.Code, "InsufficientInstanceCapacity")
	}
	f.Kind = cloud.KindOf(f.Code)
	var details map[string]any
	if json.Unmarshal([]byte(aws.ToString(a.Details)), &details) == nil {
		f.Zone, _ = details["Availability Zone"].(string)
	}
	return f, true
}

// Processes by which Auto Scaling changes the size, or moves machines, by itself. Launch, Terminate and health checks stay.
var processes = []string{"AZRebalance", "AlarmNotification", "ScheduledActions"}

// Suspend implements cloud.Groups.
func (g *Groups) Suspend(ctx context.Context, ref string, only ...string) (cloud.Suspension, error) {
	_, suspended, _, err := g.describe(ctx, ref)
	if err != nil {
		return cloud.Suspension{}, err
	}
	s := cloud.Suspension{Ref: ref, What: slices.DeleteFunc(slices.Clone(processes), func(p string) bool { return slices.Contains(suspended, p) || !cloud.Named(p, only) })}
	if len(s.What) == 0 {
		return s, nil
	}
	region, name, _ := split(ref)
	return s, g.do(ctx, "suspend "+ref, func(ctx context.Context) error {
		_, err := g.api.SuspendProcesses(ctx, &autoscaling.SuspendProcessesInput{AutoScalingGroupName: aws.String(name), ScalingProcesses: s.What}, inRegion(region))
		return err
	})
}

// Resume implements cloud.Groups.
func (g *Groups) Resume(ctx context.Context, s cloud.Suspension) error {
	region, name, err := split(s.Ref)
	if err != nil || len(s.What) == 0 {
		return err
	}
	for _, p := range s.What {
		if !slices.Contains(processes, p) {
			return fleet.Errorf(fleet.CodeInvalid, "%.40q is none of the processes that are suspended here", p)
		}
	}
	return g.do(ctx, "resume "+s.Ref, func(ctx context.Context) error {
		_, err := g.api.ResumeProcesses(ctx, &autoscaling.ResumeProcessesInput{AutoScalingGroupName: aws.String(name), ScalingProcesses: s.What}, inRegion(region))
		return err
	})
}
