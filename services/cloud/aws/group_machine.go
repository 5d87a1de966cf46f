package aws

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
)

// Processes by which a group changes, as Suspend names them.
const (
	processBalance  = "AZRebalance"
	processAlarm    = "AlarmNotification"
	processSchedule = "ScheduledActions"
)

// Writers implements cloud.Groups. Scaling policies act through AlarmNotification, forecasts and schedules through ScheduledActions; AZRebalance moves
// machines of groups with several zones.
func (g *Groups) Writers(ctx context.Context, ref string) (out []cloud.Writer, err error) {
	group, suspended, _, err := g.describe(ctx, ref)
	if err != nil {
		return nil, err
	}
	region, name, _ := split(ref)
	add := func(kind cloud.WriterKind, name string, sizes bool, process string) {
		if !slices.Contains(suspended, process) {
			out = append(out, cloud.Writer{Kind: kind, Name: name, Sizes: sizes, Stop: process})
		}
	}
	if len(group.Zones) > 1 {
		add(cloud.WriterRebalance, processBalance, false, processBalance)
	}
	err = g.do(ctx, "read scaling policies of "+ref, func(ctx context.Context) error {
		return cloud.Pages(ctx, func(token string) (string, error) {
			in := &autoscaling.DescribePoliciesInput{AutoScalingGroupName: aws.String(name)}
			if token != "" {
				in.NextToken = aws.String(token)
			}
			page, err := g.api.DescribePolicies(ctx, in, inRegion(region))
			if err != nil {
				return "", err
			}
			for i := range page.ScalingPolicies {
				p := &page.ScalingPolicies[i]
				switch {
				case p.Enabled != nil && !*p.Enabled:
				case aws.ToString(p.PolicyType) != "PredictiveScaling":
					add(cloud.WriterPolicy, aws.ToString(p.PolicyName), true, processAlarm)
				case p.PredictiveScalingConfiguration != nil && p.PredictiveScalingConfiguration.Mode == types.PredictiveScalingModeForecastOnly: // it only says what it would do
				default:
					add(cloud.WriterPolicy, aws.ToString(p.PolicyName), true, processSchedule)
				}
			}
			return aws.ToString(page.NextToken), cloud.Room(len(out))
		})
	})
	if err != nil {
		return nil, err
	}
	err = g.do(ctx, "read scheduled actions of "+ref, func(ctx context.Context) error {
		return cloud.Pages(ctx, func(token string) (string, error) {
			in := &autoscaling.DescribeScheduledActionsInput{AutoScalingGroupName: aws.String(name)}
			if token != "" {
				in.NextToken = aws.String(token)
			}
			page, err := g.api.DescribeScheduledActions(ctx, in, inRegion(region))
			if err != nil {
				return "", err
			}
			for i := range page.ScheduledUpdateGroupActions {
				add(cloud.WriterSchedule, aws.ToString(page.ScheduledUpdateGroupActions[i].ScheduledActionName), true, processSchedule)
			}
			return aws.ToString(page.NextToken), cloud.Room(len(out))
		})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b cloud.Writer) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return out, nil
}

// Machines implements cloud.Groups.
func (g *Groups) Machines(ctx context.Context, ref string) ([]cloud.GroupMachine, error) {
	_, out, _, err := g.machines(ctx, ref)
	return out, err
}

// machines reads a group with its machines, at one moment.
func (g *Groups) machines(ctx context.Context, ref string) (group cloud.Group, out []cloud.GroupMachine, at time.Time, err error) {
	region, name, err := split(ref)
	if err != nil {
		return group, nil, at, err
	}
	err = g.do(ctx, "read "+ref, func(ctx context.Context) error {
		got, err := g.api.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}}, inRegion(region))
		if err != nil {
			return err
		}
		if len(got.AutoScalingGroups) != 1 {
			return fleet.Errorf(fleet.CodeNotFound, "there is no Auto Scaling group %s in %s", name, region)
		}
		var ok bool
		if group, ok = groupOf(region, &got.AutoScalingGroups[0]); !ok {
			return fleet.Errorf(fleet.CodeUnavailable, "the cloud's answer about %s cannot be read", name)
		}
		for i := range got.AutoScalingGroups[0].Instances {
			x := &got.AutoScalingGroups[0].Instances[i]
			s := string(x.LifecycleState)
			out = append(out, cloud.GroupMachine{ID: aws.ToString(x.InstanceId), Zone: aws.ToString(x.AvailabilityZone), Kept: aws.ToBool(x.ProtectedFromScaleIn),
				Going: strings.HasPrefix(s, "Terminat") || strings.HasPrefix(s, "Detach")})
		}
		at = serverTime(got.ResultMetadata)
		return nil
	})
	slices.SortFunc(out, func(a, b cloud.GroupMachine) int { return cmp.Compare(a.ID, b.ID) })
	return group, out, at, err
}

// Terminate implements cloud.Groups. Amazon ends one machine a call; each of them lowers the size in the same step.
func (g *Groups) Terminate(ctx context.Context, t cloud.Termination) (cloud.Resized, error) {
	group, there, at, err := g.machines(ctx, t.Ref)
	if err != nil {
		return cloud.Resized{}, err
	}
	out := cloud.Resized{Ref: t.Ref, Before: group.Desired, Ready: group.Ready, Desired: t.Desired, At: at}
	left, err := t.Check(group, there)
	if out.Already = err == nil && len(left) == 0; err != nil || out.Already {
		return out, err
	}
	region, _, _ := split(t.Ref)
	for _, id := range left {
		if err := g.do(ctx, fmt.Sprintf("end %s of %s", id, t.Ref), func(ctx context.Context) error {
			_, err := g.api.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: aws.String(id), ShouldDecrementDesiredCapacity: aws.Bool(true)}, inRegion(region))
			return err
		}); err != nil {
			return out, err
		}
	}
	return out, nil
}
