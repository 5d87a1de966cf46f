package cloud_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/cloud/aws"
	"plimsoll.dev/services/cloud/azure"
	"plimsoll.dev/services/cloud/fakecloud"
	"plimsoll.dev/services/cloud/gcp"
	"plimsoll.dev/services/fleet"

	"github.com/aws/aws-sdk-go-v2/credentials"
)

// What every adapter's Groups must do, whatever it speaks: sizes are absolute and within bounds, an action sent twice is carried out once,
// what the cloud could not give is told with its kind, and its own scaling is given back as it was.

type grouped struct {
	name    string
	cloud   string
	ref     func(group string) string
	open    func(t *testing.T, s *fakecloud.Server) cloud.Groups
	bounded bool // the groups of this world have bounds of their owner
	list    string
	read    string // operation that reads one group
	resize  string // operation that sets a size
	door    bool   // the cloud can refuse at once
	stocked string // what Suspend says that it stopped
	paused  string // state of the cloud's own scaling after it
	running string // and before
}

func groupedClouds() []grouped {
	retry := cloud.Retry{Attempts: 3, Base: time.Millisecond, Max: 5 * time.Millisecond}
	return []grouped{
		{name: "EC2 Auto Scaling", cloud: "aws", ref: func(n string) string { return "us-east-1/" + n }, bounded: true, list: "DescribeAutoScalingGroups", read: "DescribeAutoScalingGroups", resize: "SetDesiredCapacity",
			stocked: "AZRebalance,AlarmNotification,ScheduledActions", paused: "ON AZRebalance,AlarmNotification,ScheduledActions", running: "ON ",
			open: func(t *testing.T, s *fakecloud.Server) cloud.Groups {
				g, err := aws.NewGroups(t.Context(), aws.Config{Access: cloud.AWSAccess{RoleARN: "arn:aws:iam::123456789012:role/plimsoll", ExternalID: "plimsoll-1"}, Regions: []string{"us-east-1"},
					Base: credentials.NewStaticCredentialsProvider("AKIABASE", "secret", ""), Endpoint: s.URL, HTTP: s.Client(), Retry: retry})
				if err != nil {
					t.Fatal(err)
				}
				return g
			}},
		{name: "Azure scale sets", cloud: "azure", ref: func(n string) string {
			return "/subscriptions/sub/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/" + n
		}, list: "virtualMachineScaleSets", read: "virtualMachineScaleSets.get", resize: "virtualMachineScaleSets.update", door: true,
			stocked: "/subscriptions/sub/resourceGroups/rg/providers/microsoft.insights/autoscalesettings/scaler-gpu", paused: "OFF ", running: "ON ",
			open: func(t *testing.T, s *fakecloud.Server) cloud.Groups {
				cfg := microsoftConfig(s, retry)
				cfg.Access.SubscriptionID, cfg.Regions = "sub", []string{"us-east-1"}
				g, err := azure.NewGroups(cfg)
				if err != nil {
					t.Fatal(err)
				}
				return g
			}},
		{name: "Google instance groups", cloud: "gcp", ref: func(n string) string { return "zones/us-east1-a/instanceGroupManagers/" + n }, list: "instanceGroupManagers", bounded: true,
			read: "instanceGroupManagers.get", resize: "instanceGroupManagers.resize", door: true, stocked: "scaler-gpu=ON", paused: "OFF ", running: "ON ",
			open: func(t *testing.T, s *fakecloud.Server) cloud.Groups {
				cfg := googleConfig(s, retry)
				cfg.Regions = []string{"us-east1"}
				g, err := gcp.NewGroups(cfg)
				if err != nil {
					t.Fatal(err)
				}
				return g
			}},
	}
}

// gpu is a group of the cloud with 2 machines of 2 asked for, bounds 1 to 10, and so many left in stock.
func gpu(c grouped, stock int, change ...func(*fakecloud.MachineGroup)) fakecloud.World {
	g := fakecloud.MachineGroup{Cloud: c.cloud, Name: "gpu", Region: "us-east-1", Zones: []string{"us-east1-a"}, Zone: "us-east1-a", Min: 1, Max: 10, Desired: 2, Running: 2, Types: []string{"m1"}, Stock: stock, Old: true, Scaler: "OFF"}
	if c.cloud == "aws" {
		g.Scaler = "ON"
	}
	for _, f := range change {
		f(&g)
	}
	return fakecloud.World{Groups: []fakecloud.MachineGroup{g}}
}

func everyCloud(t *testing.T, test func(t *testing.T, c grouped)) {
	t.Helper()
	for _, c := range groupedClouds() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

func fake(t *testing.T, w fakecloud.World) *fakecloud.Server {
	t.Helper()
	s := fakecloud.New(w)
	t.Cleanup(s.Close)
	return s
}

func (c grouped) ask(desired int) cloud.Resize {
	return cloud.Resize{Ref: c.ref("gpu"), Desired: desired, Min: 0, Max: 100, Token: "plan-1-action-1"}
}

// failures are the kinds and codes, with how often.
func failures(p cloud.Progress) string {
	var out []string
	for _, f := range p.Failures {
		out = append(out, fmt.Sprintf("%s/%s/%s", f.Kind, f.Code, f.Zone))
	}
	return strings.Join(out, " ")
}

func TestGroupsGrowAndShrinkToTheSizeAskedFor(t *testing.T) {
	t.Parallel()
	everyCloud(t, func(t *testing.T, c grouped) {
		s := fake(t, gpu(c, 20))
		g := c.open(t, s)
		before, err := g.Describe(t.Context(), c.ref("gpu"))
		if err != nil || before.Desired != 2 || before.Ready != 2 || before.Coming != 0 || before.Version == "" {
			t.Fatalf("%+v, %v", before, err)
		}
		for i, n := range []int{6, 3} {
			r := c.ask(n)
			r.Token = fmt.Sprint("step-", i)
			was, _ := g.Describe(t.Context(), c.ref("gpu"))
			r.Version = was.Version
			done, err := g.Resize(t.Context(), r)
			if err != nil || done.Already || done.Before != was.Desired || done.Desired != n || done.At.IsZero() {
				t.Fatalf("to %d: %+v, %v", n, done, err)
			}
			p, err := g.Progress(t.Context(), done)
			if err != nil || p.State != cloud.ProgressReached || p.Missing != 0 || p.Group.Ready != n || len(p.Failures) != 0 {
				t.Errorf("to %d: %+v, %v", n, p, err)
			}
		}
	})
}

func TestTheSameActionSentAgainIsCarriedOutOnce(t *testing.T) {
	t.Parallel()
	everyCloud(t, func(t *testing.T, c grouped) {
		s := fake(t, gpu(c, 20))
		g := c.open(t, s)
		for i := range 3 {
			done, err := g.Resize(t.Context(), c.ask(5))
			if err != nil || done.Already != (i > 0) {
				t.Fatalf("attempt %d: %+v, %v", i+1, done, err)
			}
		}
		if times, n := s.Resizes("gpu"); times != 1 || n != 5 {
			t.Errorf("resized %d times, to %d", times, n)
		}
		// The answer to the first gets lost: the change was made, and sending it again makes it no second time.
		s.Fail(fakecloud.Fault{Operation: c.resize, From: s.Calls(c.resize) + 1, Times: 1, How: fakecloud.Broken})
		r := c.ask(7)
		r.Token = "another"
		if done, err := g.Resize(t.Context(), r); err != nil || done.Desired != 7 {
			t.Fatalf("after a broken answer: %+v, %v", done, err)
		}
		if times, n := s.Resizes("gpu"); times != 2 || n != 7 {
			t.Errorf("resized %d times, to %d", times, n)
		}
	})
}

func TestWhatTheCloudCannotGiveIsToldWithItsKind(t *testing.T) {
	t.Parallel()
	everyCloud(t, func(t *testing.T, c grouped) {
		code := map[string]string{"aws": "InsufficientInstanceCapacity", "azure": "AllocationFailed", "gcp": "ZONE_RESOURCE_POOL_EXHAUSTED"}[c.cloud]
		quota := map[string]string{"aws": "VcpuLimitExceeded", "azure": "QuotaExceeded", "gcp": "QUOTA_EXCEEDED"}[c.cloud]
		for _, x := range []struct {
			name    string
			stock   int
			short   string
			state   cloud.ProgressState
			kind    cloud.FailureKind
			missing int
		}{
			{"none in stock", 0, "", cloud.ProgressStockOut, cloud.FailureStockOut, 4},
			{"some in stock", 1, "", cloud.ProgressPartial, cloud.FailureStockOut, 3},
			{"no quota", 0, quota, cloud.ProgressRefused, cloud.FailureQuota, 4},
			{"a word nobody knows", 0, "SomethingNew", cloud.ProgressRefused, cloud.FailureOther, 4},
		} {
			s := fake(t, gpu(c, x.stock, func(g *fakecloud.MachineGroup) { g.Short = x.short }))
			g := c.open(t, s)
			done, err := g.Resize(t.Context(), c.ask(6))
			if err != nil {
				t.Fatalf("%s: %v", x.name, err)
			}
			p, err := g.Progress(t.Context(), done)
			if err != nil || p.State != x.state || p.Missing != x.missing || len(p.Failures) == 0 {
				t.Fatalf("%s: %s, %d missing, [%s], %v; want %s, %d missing", x.name, p.State, p.Missing, failures(p), err, x.state, x.missing)
			}
			for _, f := range p.Failures {
				want := code
				if x.short != "" {
					want = x.short
				}
				sentence := x.short == "SomethingNew" && c.cloud == "aws" // only known codes are found in Amazon's sentences
				if f.At.Before(done.At) || !sentence && (f.Kind != x.kind || f.Code != want) || f.Message == "" {
					t.Errorf("%s: %+v", x.name, f)
				}
			}
			s.Restock("gpu", 10)
			if p, err = g.Progress(t.Context(), done); err != nil || p.State != cloud.ProgressReached || p.Missing != 0 {
				t.Errorf("%s, after stock came: %s, %d missing, %v", x.name, p.State, p.Missing, err)
			}
		}
	})
}

func TestARefusalAtTheDoorChangesNothing(t *testing.T) {
	t.Parallel()
	everyCloud(t, func(t *testing.T, c grouped) {
		if !c.door {
			t.Skip("this cloud takes every size and fails later")
		}
		s := fake(t, gpu(c, 1, func(g *fakecloud.MachineGroup) { g.AtDoor = true }))
		g := c.open(t, s)
		_, err := g.Resize(t.Context(), c.ask(6))
		var short *cloud.CapacityError
		if !errors.As(err, &short) || short.Failure.Kind != cloud.FailureStockOut {
			t.Fatalf("%v", err)
		}
		if times, n := s.Resizes("gpu"); times != 0 || n != 2 {
			t.Errorf("resized %d times, to %d", times, n)
		}
		if done, err := g.Resize(t.Context(), c.ask(3)); err != nil || done.Desired != 3 {
			t.Errorf("a size that it has stock for: %+v, %v", done, err)
		}
	})
}

func TestMachinesOnTheirWayArePending(t *testing.T) {
	t.Parallel()
	everyCloud(t, func(t *testing.T, c grouped) {
		s := fake(t, gpu(c, 20, func(g *fakecloud.MachineGroup) { g.Slow = true }))
		g := c.open(t, s)
		done, err := g.Resize(t.Context(), c.ask(5))
		if err != nil {
			t.Fatal(err)
		}
		p, err := g.Progress(t.Context(), done)
		if err != nil || p.State != cloud.ProgressPending || p.Group.Coming != 3 || p.Missing != 3 {
			t.Errorf("%+v, %v", p, err)
		}
		s.Meddle("gpu", 9)
		if p, err = g.Progress(t.Context(), done); err != nil || p.State != cloud.ProgressReplaced {
			t.Errorf("after somebody else's change: %+v, %v", p, err)
		}
	})
}

func TestBoundsAndVersionsAreKept(t *testing.T) {
	t.Parallel()
	everyCloud(t, func(t *testing.T, c grouped) {
		s := fake(t, gpu(c, 20))
		g := c.open(t, s)
		was, err := g.Describe(t.Context(), c.ref("gpu"))
		if err != nil {
			t.Fatal(err)
		}
		want := func(name string, r cloud.Resize, code fleet.Code) {
			t.Helper()
			_, err := g.Resize(t.Context(), r)
			var known *fleet.Error
			if !errors.As(err, &known) || known.Code != code {
				t.Errorf("%s: %v, want %s", name, err, code)
			}
		}
		outside := c.ask(6)
		outside.Max = 5
		want("outside the policy's bounds", outside, fleet.CodeInvalid)
		negative := c.ask(-1)
		negative.Min = -5
		want("a negative size", negative, fleet.CodeInvalid)
		nameless := c.ask(4)
		nameless.Token = ""
		want("no token", nameless, fleet.CodeInvalid)
		strange := c.ask(4)
		strange.Token = "a\r\nX-Evil: 1"
		want("a token with a line break", strange, fleet.CodeInvalid)
		if c.bounded {
			want("over its owner's maximum", c.ask(11), fleet.CodeInvalid)
			want("under its owner's minimum", c.ask(0), fleet.CodeInvalid)
		}
		gone := c.ask(4)
		gone.Ref = c.ref("gone")
		want("a group that is not there", gone, fleet.CodeNotFound)
		for _, ref := range []string{"", "gpu", "../gpu", c.ref("gpu") + "/../../x", c.ref("a?b"), c.ref("") + "\n"} {
			bad := c.ask(4)
			bad.Ref = ref
			if _, err := g.Resize(t.Context(), bad); err == nil {
				t.Errorf("the reference %q was taken", ref)
			}
		}
		s.Meddle("gpu", 3)
		stale := c.ask(5)
		stale.Version = was.Version
		want("decided upon another version", stale, fleet.CodeConflict)
		if times, n := s.Resizes("gpu"); times != 0 || n != 3 {
			t.Errorf("resized %d times, to %d", times, n)
		}
	})
}

func TestThrottlingIsWaitedForWithinBounds(t *testing.T) {
	t.Parallel()
	everyCloud(t, func(t *testing.T, c grouped) {
		s := fake(t, gpu(c, 20))
		g := c.open(t, s)
		for _, op := range []string{c.read, c.resize} {
			s.Fail(fakecloud.Fault{Operation: op, Times: 2, How: fakecloud.Throttle})
		}
		if done, err := g.Resize(t.Context(), c.ask(5)); err != nil || done.Desired != 5 {
			t.Fatalf("%+v, %v", done, err)
		}
		s.Fail(fakecloud.Fault{Operation: c.resize, From: s.Calls(c.resize) + 1, How: fakecloud.Throttle})
		r := c.ask(6)
		r.Token = "later"
		_, err := g.Resize(t.Context(), r)
		var known *fleet.Error
		if !errors.As(err, &known) || known.Code != fleet.CodeRateLimited {
			t.Errorf("%v", err)
		}
		if _, n := s.Resizes("gpu"); n != 5 {
			t.Errorf("the size is %d", n)
		}
		s.Fail(fakecloud.Fault{Operation: c.read, From: s.Calls(c.read) + 1, How: fakecloud.Denied})
		if _, err := g.Describe(t.Context(), c.ref("gpu")); !errors.As(err, &known) || known.Code != fleet.CodeForbidden {
			t.Errorf("without the permission: %v", err)
		}
	})
}

func TestTheCloudsOwnScalingIsStoppedAndGivenBack(t *testing.T) {
	t.Parallel()
	everyCloud(t, func(t *testing.T, c grouped) {
		s := fake(t, gpu(c, 20, func(g *fakecloud.MachineGroup) { g.Scaler = "ON" }))
		g := c.open(t, s)
		stopped, err := g.Suspend(t.Context(), c.ref("gpu"))
		if err != nil || strings.Join(stopped.What, ",") != c.stocked || s.Scaling("gpu") != c.paused {
			t.Fatalf("%+v, %v, %q", stopped, err, s.Scaling("gpu"))
		}
		again, err := g.Suspend(t.Context(), c.ref("gpu"))
		if err != nil || len(again.What) != 0 {
			t.Errorf("a second time: %+v, %v", again, err)
		}
		if err := g.Resume(t.Context(), again); err != nil || s.Scaling("gpu") != c.paused {
			t.Errorf("nothing was to be resumed: %v, %q", err, s.Scaling("gpu"))
		}
		if err := g.Resume(t.Context(), stopped); err != nil || s.Scaling("gpu") != c.running {
			t.Errorf("%v, %q", err, s.Scaling("gpu"))
		}
		if err := g.Resume(t.Context(), cloud.Suspension{Ref: c.ref("gpu"), What: []string{"Launch"}}); err == nil {
			t.Error("something that was never stopped here was resumed")
		}
	})
}

func TestListsOfGroupsAreCompleteOrAnError(t *testing.T) {
	t.Parallel()
	everyCloud(t, func(t *testing.T, c grouped) {
		w := gpu(c, 5)
		for i := range 4 {
			g := w.Groups[0]
			g.Name = fmt.Sprint("g", 4-i)
			w.Groups = append(w.Groups, g)
		}
		s := fake(t, w)
		l, err := c.open(t, s).List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var refs, want []string
		for _, g := range l.Items {
			refs = append(refs, g.Ref)
		}
		for _, n := range []string{"g1", "g2", "g3", "g4", "gpu"} {
			want = append(want, c.ref(n))
		}
		if diff := cmp.Diff(want, refs); diff != "" {
			t.Errorf("groups (-want +got):\n%s", diff)
		}
		if s.Calls(c.list) < 3 {
			t.Errorf("%d pages", s.Calls(c.list))
		}
		for _, how := range []fakecloud.Failure{fakecloud.SamePage, fakecloud.Broken} {
			s := fake(t, w)
			s.Fail(fakecloud.Fault{Operation: c.list, From: 2, How: how})
			if l, err := c.open(t, s).List(t.Context()); err == nil || len(l.Items) != 0 {
				t.Errorf("%s: %d groups, %v", how, len(l.Items), err)
			}
		}
	})
}

func TestMixedGroupsSayWhatTheyAreMadeOf(t *testing.T) {
	t.Parallel()
	everyCloud(t, func(t *testing.T, c grouped) {
		weights := map[string][]string{"aws": {"g5.xlarge=1", "g5.2xlarge=2"}, "azure": {"Standard_A", "Standard_B"}, "gcp": {"a2-highgpu-1g", "a3-highgpu-8g"}}[c.cloud]
		s := fake(t, gpu(c, 20, func(g *fakecloud.MachineGroup) {
			g.Mixed, g.Types, g.Base, g.Share, g.Spot = true, weights, 1, 25, true
		}))
		got, err := c.open(t, s).Describe(t.Context(), c.ref("gpu"))
		if err != nil || len(got.Types) != 2 {
			t.Fatalf("%+v, %v", got, err)
		}
		second, _, _ := strings.Cut(weights[1], "=")
		if got.Types[1].InstanceType != second || got.Weighted != (c.cloud == "aws") || got.Weighted && got.Types[1].Weight != 2 {
			t.Errorf("types %+v", got.Types)
		}
		if c.cloud != "gcp" && (got.OnDemandBase == nil || *got.OnDemandBase != 1 || *got.OnDemandShare != 25 || got.Spot) {
			t.Errorf("%+v", got)
		}
		if c.cloud == "gcp" && !got.Spot {
			t.Errorf("%+v", got)
		}
	})
}

func TestAnotherWriterBetweenReadingAndWritingIsAConflictAtAzure(t *testing.T) {
	t.Parallel()
	c := groupedClouds()[1]
	s := fake(t, gpu(c, 20))
	g := c.open(t, s)
	s.Fail(fakecloud.Fault{Operation: c.resize, Times: 1, How: fakecloud.Meanwhile})
	_, err := g.Resize(t.Context(), c.ask(5))
	var known *fleet.Error
	if !errors.As(err, &known) || known.Code != fleet.CodeConflict {
		t.Errorf("%v", err)
	}
	if times, _ := s.Resizes("gpu"); times != 0 {
		t.Error("it was resized")
	}
}

func TestGoogleIsNotResizedUnderItsAutoscaler(t *testing.T) {
	t.Parallel()
	c := groupedClouds()[2]
	s := fake(t, gpu(c, 20, func(g *fakecloud.MachineGroup) { g.Scaler = "ONLY_SCALE_OUT" }))
	g := c.open(t, s)
	_, err := g.Resize(t.Context(), c.ask(5))
	var known *fleet.Error
	if !errors.As(err, &known) || known.Code != fleet.CodeConflict {
		t.Fatal(err)
	}
	stopped, err := g.Suspend(t.Context(), c.ref("gpu"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Resize(t.Context(), c.ask(5)); err != nil {
		t.Fatal(err)
	}
	if err := g.Resume(t.Context(), stopped); err != nil || s.Scaling("gpu") != "ONLY_SCALE_OUT " {
		t.Errorf("%v, %q", err, s.Scaling("gpu"))
	}
}

// Whatever a group says and whatever failed: reached means that no machine is missing, and failures from before do not count.
func TestPropertyJudge(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string) int { return rapid.IntRange(0, 12).Draw(t, name) }
		at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		r := cloud.Resized{Before: n("before"), Ready: n("was"), Desired: n("desired"), At: at}
		g := cloud.Group{Desired: n("now"), Ready: n("ready"), Coming: n("coming")}
		var fs []cloud.GroupFailure
		for range rapid.IntRange(0, 4).Draw(t, "failures") {
			fs = append(fs, cloud.GroupFailure{At: at.Add(time.Duration(rapid.IntRange(-3, 3).Draw(t, "at")) * time.Second), Kind: rapid.SampledFrom([]cloud.FailureKind{cloud.FailureStockOut, cloud.FailureQuota, cloud.FailureOther}).Draw(t, "kind")})
		}
		p := cloud.Judge(r, g, fs)
		for _, f := range p.Failures {
			if f.At.Before(at) {
				t.Fatal("a failure from before")
			}
		}
		switch p.State {
		case cloud.ProgressReached:
			if p.Missing != 0 && r.Desired >= r.Before || g.Desired != r.Desired {
				t.Fatalf("reached with %+v", p)
			}
		case cloud.ProgressStockOut, cloud.ProgressRefused, cloud.ProgressPartial:
			if len(p.Failures) == 0 {
				t.Fatalf("%s without a failure", p.State)
			}
		case cloud.ProgressPending, cloud.ProgressReplaced:
		default:
			t.Fatalf("state %q", p.State)
		}
	})
}
