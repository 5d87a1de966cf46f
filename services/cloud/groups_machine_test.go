package cloud_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/cloud/fakecloud"
	"plimsoll.dev/services/fleet"
)

// end is the operation by which a cloud ends a machine by name.
func (c grouped) end() string {
	return map[string]string{"aws": "TerminateInstanceInAutoScalingGroup", "azure": "virtualMachineScaleSets.delete", "gcp": "instanceGroupManagers.deleteInstances"}[c.cloud]
}

func ids(list []cloud.GroupMachine) (out []string) {
	for _, m := range list {
		out = append(out, m.ID)
	}
	return out
}

func coded(err error) fleet.Code {
	var known *fleet.Error
	if errors.As(err, &known) {
		return known.Code
	}
	return ""
}

func TestGroupsEndTheMachinesThatAreNamedAndNoOthers(t *testing.T) {
	t.Parallel()
	everyCloud(t, func(t *testing.T, c grouped) {
		s := fake(t, gpu(c, 0, func(g *fakecloud.MachineGroup) { g.Desired, g.Running = 5, 5 }))
		g := c.open(t, s)
		there, err := g.Machines(t.Context(), c.ref("gpu"))
		if err != nil || len(there) != 5 || !slices.Equal(ids(there), slices.Sorted(slices.Values(s.Machines("gpu")))) {
			t.Fatalf("%+v, %v", there, err)
		}
		was, _ := g.Describe(t.Context(), c.ref("gpu"))
		go2 := []string{there[3].ID, there[1].ID}
		end := cloud.Termination{Ref: c.ref("gpu"), Machines: go2, Desired: 3, Version: was.Version, Token: "shrink-1"}
		done, err := g.Terminate(t.Context(), end)
		if err != nil || done.Already || done.Before != 5 || done.Desired != 3 || done.At.IsZero() {
			t.Fatalf("%+v, %v", done, err)
		}
		if got := s.Ended("gpu"); !slices.Equal(got, go2) {
			t.Errorf("ended %v, asked for %v", got, go2)
		}
		p, err := g.Progress(t.Context(), done)
		if err != nil || p.State != cloud.ProgressReached || p.Group.Desired != 3 {
			t.Errorf("%+v, %v", p, err)
		}
		again, err := g.Terminate(t.Context(), end)
		if err != nil || !again.Already || len(s.Ended("gpu")) != 2 {
			t.Errorf("asked twice: %+v, %v, ended %v", again, err, s.Ended("gpu"))
		}
	})
}

func TestAnEndThatWasInterruptedIsFinishedByAskingAgain(t *testing.T) {
	t.Parallel()
	everyCloud(t, func(t *testing.T, c grouped) {
		s := fake(t, gpu(c, 0, func(g *fakecloud.MachineGroup) { g.Desired, g.Running = 6, 6 }))
		g := c.open(t, s)
		there, err := g.Machines(t.Context(), c.ref("gpu"))
		if err != nil {
			t.Fatal(err)
		}
		was, _ := g.Describe(t.Context(), c.ref("gpu"))
		end := cloud.Termination{Ref: c.ref("gpu"), Machines: ids(there)[:3], Desired: 3, Version: was.Version, Token: "shrink-2"}
		s.Fail(fakecloud.Fault{Operation: c.end(), From: 2, Times: 3, How: fakecloud.Broken}) // at Amazon after the first of three
		if c.cloud != "aws" {
			s.Fail(fakecloud.Fault{Operation: c.end(), From: 1, Times: 3, How: fakecloud.Broken})
		}
		if _, err := g.Terminate(t.Context(), end); err == nil {
			t.Fatal("the cloud is broken, and nobody says so")
		}
		if n := len(s.Ended("gpu")); n != map[string]int{"aws": 1}[c.cloud] {
			t.Fatalf("%d ended", n)
		}
		if done, err := g.Terminate(t.Context(), end); err != nil || done.Desired != 3 {
			t.Fatalf("again: %+v, %v", done, err)
		}
		if got := slices.Sorted(slices.Values(s.Ended("gpu"))); !slices.Equal(got, ids(there)[:3]) {
			t.Errorf("ended %v", got)
		}
		if _, size := s.Resizes("gpu"); size != 3 {
			t.Errorf("the size is %d", size)
		}
	})
}

func TestNothingIsEndedThatMayNotBe(t *testing.T) {
	t.Parallel()
	everyCloud(t, func(t *testing.T, c grouped) {
		s := fake(t, gpu(c, 0, func(g *fakecloud.MachineGroup) { g.Desired, g.Running, g.Min = 4, 4, 2 }))
		g := c.open(t, s)
		there, err := g.Machines(t.Context(), c.ref("gpu"))
		if err != nil {
			t.Fatal(err)
		}
		was, _ := g.Describe(t.Context(), c.ref("gpu"))
		base := cloud.Termination{Ref: c.ref("gpu"), Machines: ids(there)[:1], Desired: 3, Version: was.Version, Token: "t"}
		for name, x := range map[string]struct {
			change func(*cloud.Termination)
			code   fleet.Code
		}{
			"no machine":               {func(e *cloud.Termination) { e.Machines = nil }, fleet.CodeInvalid},
			"one twice":                {func(e *cloud.Termination) { e.Machines = []string{there[0].ID, there[0].ID} }, fleet.CodeInvalid},
			"too many":                 {func(e *cloud.Termination) { e.Machines = make([]string, 101) }, fleet.CodeInvalid},
			"no token":                 {func(e *cloud.Termination) { e.Token = "" }, fleet.CodeInvalid},
			"under the policy's bound": {func(e *cloud.Termination) { e.Min = 4 }, fleet.CodeInvalid},
			"another size is left":     {func(e *cloud.Termination) { e.Desired = 2 }, fleet.CodeConflict},
			"a machine of no such group and a size": {func(e *cloud.Termination) {
				e.Machines = []string{map[string]string{"aws": "i-ffff", "azure": "99", "gcp": "us-east1-a/other"}[c.cloud]}
			}, fleet.CodeConflict},
			"decided upon another version": {func(e *cloud.Termination) { e.Version = "old" }, fleet.CodeConflict},
			"a group that is not there":    {func(e *cloud.Termination) { e.Ref = c.ref("gone") }, fleet.CodeNotFound},
		} {
			e := base
			x.change(&e)
			if _, err := g.Terminate(t.Context(), e); coded(err) != x.code {
				t.Errorf("%s: %v, want %s", name, err, x.code)
			}
		}
		if c.bounded {
			if _, err := g.Terminate(t.Context(), cloud.Termination{Ref: base.Ref, Machines: ids(there)[:3], Desired: 1, Version: was.Version, Token: "t"}); c.cloud == "aws" && coded(err) != fleet.CodeInvalid {
				t.Errorf("under its owner's bound: %v", err)
			}
		}
		s.Meddle("gpu", 3)
		if _, err := g.Terminate(t.Context(), base); coded(err) != fleet.CodeConflict {
			t.Errorf("after another writer: %v", err)
		}
		if got := s.Ended("gpu"); c.cloud == "aws" && len(got) != 0 {
			t.Errorf("ended %v", got)
		}
	})
	for _, c := range groupedClouds()[:2] { // Google protects machines by other means, which its answer tells
		s := fake(t, gpu(c, 0, func(g *fakecloud.MachineGroup) {
			g.Desired, g.Running, g.Kept = 4, 4, []string{map[string]string{"aws": "i-2", "azure": "2"}[c.cloud]}
		}))
		g := c.open(t, s)
		e := cloud.Termination{Ref: c.ref("gpu"), Machines: []string{map[string]string{"aws": "i-2", "azure": "2"}[c.cloud]}, Desired: 3, Token: "t"}
		if _, err := g.Terminate(t.Context(), e); coded(err) != fleet.CodeConflict || len(s.Ended("gpu")) != 0 {
			t.Errorf("%s: a machine that its owner protects: %v", c.name, err)
		}
	}
}

func TestWhatOfTheCloudChangesAGroupIsNamedUntilItIsStopped(t *testing.T) {
	t.Parallel()
	everyCloud(t, func(t *testing.T, c grouped) {
		s := fake(t, gpu(c, 5, func(g *fakecloud.MachineGroup) {
			g.Scaler, g.Zones = "ON", []string{"us-east1-a", "us-east1-b"}
			g.Policies, g.Schedules = []string{"cpu", "off-old", "forecast=PredictiveScaling"}, []string{"morning"}
		}))
		g := c.open(t, s)
		say := func() string {
			list, err := g.Writers(t.Context(), c.ref("gpu"))
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, w := range list {
				out = append(out, fmt.Sprintf("%s/%s/%v", w.Kind, w.Name, w.Sizes))
				if w.Stop == "" {
					t.Errorf("nobody says how %s is stopped", w.Text())
				}
			}
			return strings.Join(out, " ")
		}
		want := map[string]string{"aws": "rebalance/AZRebalance/false scaling_policy/cpu/true scaling_policy/forecast/true schedule/morning/true",
			"azure": "autoscaler/scaler-gpu/true", "gcp": "autoscaler/scaler-gpu/true"}[c.cloud]
		if got := say(); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
		if none, err := g.Suspend(t.Context(), c.ref("gpu"), "something else"); err != nil || len(none.What) != 0 || say() != want {
			t.Errorf("what nobody named was stopped: %v, %v", none, err)
		}
		stopped, err := g.Suspend(t.Context(), c.ref("gpu"))
		if err != nil {
			t.Fatal(err)
		}
		if got := say(); got != "" {
			t.Errorf("after it was stopped: %q", got)
		}
		if err := g.Resume(t.Context(), stopped); err != nil {
			t.Fatal(err)
		}
		if got := say(); got != want {
			t.Errorf("after it was given back: %q", got)
		}
	})
}

func TestAGroupThatNobodyElseChangesHasNoWriters(t *testing.T) {
	t.Parallel()
	everyCloud(t, func(t *testing.T, c grouped) {
		s := fake(t, gpu(c, 5, func(g *fakecloud.MachineGroup) { g.Scaler = "OFF" }))
		if list, err := c.open(t, s).Writers(t.Context(), c.ref("gpu")); err != nil || len(list) != 0 {
			t.Errorf("%v, %v", list, err)
		}
	})
}

func TestARegionalGoogleGroupThatRedistributesMovesMachines(t *testing.T) {
	t.Parallel()
	c := groupedClouds()[2]
	s := fake(t, gpu(c, 5, func(g *fakecloud.MachineGroup) {
		g.Zone, g.Region, g.Scaler, g.Balance = "", "us-east1", "", true
	}))
	list, err := c.open(t, s).Writers(t.Context(), "regions/us-east1/instanceGroupManagers/gpu")
	if err != nil || len(list) != 1 || list[0].Kind != cloud.WriterRebalance || list[0].Sizes || list[0].Stop != "" {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestGoogleMachinesAreNotEndedUnderTheAutoscaler(t *testing.T) {
	t.Parallel()
	c := groupedClouds()[2]
	s := fake(t, gpu(c, 5, func(g *fakecloud.MachineGroup) { g.Scaler = "ON" }))
	if _, err := c.open(t, s).Terminate(t.Context(), cloud.Termination{Ref: c.ref("gpu"), Machines: []string{"us-east1-a/gpu-0"}, Desired: 1, Token: "t"}); coded(err) != fleet.CodeConflict {
		t.Errorf("%v", err)
	}
}

func TestNodesAreMachinesOfGroupsByTheirProviderIDs(t *testing.T) {
	t.Parallel()
	const set = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/gpu"
	for _, x := range []struct {
		cloud        fleet.Cloud
		provider, id string
	}{
		{fleet.CloudAWS, "aws:///us-east-1a/i-0abc123", "i-0abc123"},
		{fleet.CloudGCP, "gce://my-project/us-east1-b/gke-pool-1", "us-east1-b/gke-pool-1"},
		{fleet.CloudAzure, "azure:///subscriptions/s/resourceGroups/RG/providers/Microsoft.Compute/virtualMachineScaleSets/gpu/virtualMachines/7", "7"},
		{fleet.CloudAzure, "azure:///subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/other/virtualMachines/7", ""},
		{fleet.CloudAzure, "azure:///subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/virtualMachines/vm7", ""},
		{fleet.CloudAWS, "gce://p/z/n", ""}, {fleet.CloudAWS, "aws:///us-east-1a/fargate-ip-1", ""}, {fleet.CloudGCP, "", ""}, {fleet.CloudOnPrem, "kind://x", ""},
	} {
		if id, ok := cloud.MachineIn(x.cloud, set, x.provider); id != x.id || ok != (x.id != "") {
			t.Errorf("%s: %q, %v", x.provider, id, ok)
		}
	}
}

// Whatever was asked for and whatever the group is: what is ended is a part of what was named, none of it is protected or gone, and the size that is left is the one named.
func TestPropertyATerminationNeverGoesBeyondWhatItNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 8).Draw(t, "machines")
		var there []cloud.GroupMachine
		for i := range n {
			there = append(there, cloud.GroupMachine{ID: fmt.Sprint(i), Going: rapid.IntRange(0, 3).Draw(t, "going") == 0, Kept: rapid.IntRange(0, 5).Draw(t, "kept") == 0})
		}
		g := cloud.Group{Desired: rapid.IntRange(0, 9).Draw(t, "size"), Min: rapid.IntRange(0, 3).Draw(t, "least"), Version: "v"}
		e := cloud.Termination{Machines: rapid.SliceOfN(rapid.SampledFrom([]string{"0", "1", "2", "3", "9"}), 0, 4).Draw(t, "named"), Desired: rapid.IntRange(0, 9).Draw(t, "left"),
			Min: rapid.IntRange(0, 3).Draw(t, "bound"), Version: rapid.SampledFrom([]string{"", "v", "w"}).Draw(t, "version"), Token: "t"}
		left, err := e.Check(g, there)
		if err != nil {
			if len(left) != 0 {
				t.Fatal("refused, and something is to be ended")
			}
			return
		}
		if g.Desired-len(left) != e.Desired || len(left) > 0 && (e.Desired < e.Min || e.Desired < g.Min) {
			t.Fatalf("%d of %d go, %d shall be left", len(left), g.Desired, e.Desired)
		}
		for _, id := range left {
			k := slices.IndexFunc(there, func(m cloud.GroupMachine) bool { return m.ID == id })
			if !slices.Contains(e.Machines, id) || k < 0 || there[k].Going || there[k].Kept {
				t.Fatalf("%s is ended", id)
			}
		}
	})
}
