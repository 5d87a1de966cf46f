package cloud_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/cloud/fakecloud"
	"plimsoll.dev/services/fleet"
)

// What every adapter must do, whatever it speaks: a list is complete or an error, throttling is waited for within bounds, a price that
// cannot be one is unknown and never zero, and the same answers give the same list in the same order.

// source is what jobs asks of an adapter.
type source interface {
	InstanceTypes(ctx context.Context, region string) (cloud.List[cloud.InstanceType], error)
	OnDemandPrices(ctx context.Context, region string) (cloud.List[cloud.Price], error)
	SpotPrices(ctx context.Context, region string, since time.Time) (cloud.List[cloud.SpotPrice], error)
	Commitments(ctx context.Context) (cloud.List[cloud.Commitment], error)
	CapacityReservations(ctx context.Context) (cloud.List[cloud.Capacity], error)
	Check(ctx context.Context) []cloud.Check
}

type subject struct {
	name   string
	region string
	world  func() fakecloud.World
	open   func(t *testing.T, s *fakecloud.Server, retry cloud.Retry) source
	lists  []listing
	links  bool // pages name each other by links
	// partial: operations in whose answers the cloud itself can say that something is missing.
	partial []string
}

// listing is one of the lists: the operations behind it that have pages, and what it must say of the subject's world.
type listing struct {
	name       string
	operations []string
	want       []string
	skipped    map[cloud.SkipReason]int
}

func subjects() []subject { return []subject{amazon(), microsoft(), googled()} }

var (
	quick = cloud.Retry{Attempts: 4, Base: time.Millisecond, Max: 5 * time.Millisecond}
	since = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
)

// read renders a list line by line, so that all five can be compared alike.
func read(ctx context.Context, src source, s subject, name string) (lines []string, skipped map[cloud.SkipReason]int, err error) {
	switch name {
	case "machines":
		l, e := src.InstanceTypes(ctx, s.region)
		for _, t := range l.Items {
			lines = append(lines, fmt.Sprintf("%s %s %dm %dMi %dx%s(%s) %dMi net=%d disk=%d,%t %s:%d pods=%d spot=%t", t.Name, t.Arch, t.CPUMilli, t.MemMiB, t.GPUCount, t.GPUModel, t.GPUName, t.GPUMemoryMiB, t.NetworkMbps, t.LocalDiskGB, t.LocalDiskTold, t.Interconnect, t.FabricGbps, t.AddressPods, t.SpotSold))
		}
		skipped, err = l.Skipped, e
	case "prices":
		l, e := src.OnDemandPrices(ctx, s.region)
		for _, p := range l.Items {
			lines = append(lines, fmt.Sprintf("%s %s %s %s %s", p.Offering.Region, p.Offering.InstanceType, p.Offering.Purchase, amount(p.Hour), p.ID))
		}
		skipped, err = l.Skipped, e
	case "spot":
		l, e := src.SpotPrices(ctx, s.region, since)
		for _, p := range l.Items {
			lines = append(lines, fmt.Sprintf("%s %s %s %s %s", p.Region, p.Zone, p.InstanceType, p.At.Format(time.RFC3339), amount(p.Hour)))
		}
		skipped, err = l.Skipped, e
	case "commitments":
		l, e := src.Commitments(ctx)
		for _, c := range l.Items {
			lines = append(lines, fmt.Sprintf("%s %s %s/%s %s%s%s %s %d up=%s hour=%s spend=%s rates=%v %s..%s", c.Ref, c.Kind, c.Region, c.Zone, c.InstanceType, c.Family, c.GPUModel, c.Resource, c.QuantityMill,
				amount(c.Upfront), amount(c.Recurring), amount(c.Spend), c.Rates, c.From.Format(time.DateOnly), c.To.Format(time.DateOnly)))
		}
		skipped, err = l.Skipped, e
	case "capacity":
		l, e := src.CapacityReservations(ctx)
		for _, c := range l.Items {
			lines = append(lines, fmt.Sprintf("%s %s/%s %s %d of %d", c.Ref, c.Region, c.Zone, c.InstanceType, c.Available, c.Total))
		}
		skipped, err = l.Skipped, e
	}
	return lines, skipped, err
}

func amount(m *fleet.Money) string {
	if m == nil {
		return "unknown"
	}
	return m.String()
}

// every runs a test for each list of each cloud, against a server of its own.
func every(t *testing.T, test func(t *testing.T, s subject, l listing)) {
	t.Helper()
	for _, s := range subjects() {
		for _, l := range s.lists {
			t.Run(s.name+"/"+l.name, func(t *testing.T) {
				t.Parallel()
				test(t, s, l)
			})
		}
	}
}

func serve(t *testing.T, s subject) *fakecloud.Server {
	t.Helper()
	server := fakecloud.New(s.world())
	t.Cleanup(server.Close)
	return server
}

func TestListsAreCompleteOverAllPagesAndInOneOrder(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, s subject, l listing) {
		server := serve(t, s)
		src := s.open(t, server, quick)
		lines, skipped, err := read(t.Context(), src, s, l.name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(l.want, lines); diff != "" {
			t.Errorf("list (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(l.skipped, skipped); diff != "" {
			t.Errorf("skipped (-want +got):\n%s", diff)
		}
		for _, op := range l.operations {
			if server.Calls(op) < 2 {
				t.Errorf("%s has %d pages in this world; the suite needs two", op, server.Calls(op))
			}
		}
		again, _, err := read(t.Context(), s.open(t, server, quick), s, l.name)
		if err != nil || !slices.Equal(lines, again) {
			t.Errorf("the second look differs (%v):\n%s", err, cmp.Diff(lines, again))
		}
	})
}

func TestFailureInTheMiddleOfPagingGivesAnErrorAndNothing(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, s subject, l listing) {
		for _, op := range l.operations {
			for _, how := range []fakecloud.Failure{fakecloud.Throttle, fakecloud.Broken, fakecloud.Cut, fakecloud.HalfBody, fakecloud.Denied, fakecloud.Stranger} {
				server := serve(t, s)
				server.Fail(fakecloud.Fault{Operation: op, From: 2, How: how})
				lines, skipped, err := read(t.Context(), s.open(t, server, quick), s, l.name)
				var known *fleet.Error
				if err == nil || !errors.As(err, &known) || known.Message == "" {
					t.Errorf("%s %s: error %v, want one for people", op, how, err)
				}
				if len(lines) > 0 || len(skipped) > 0 {
					t.Errorf("%s %s: %d rows of a broken list came through", op, how, len(lines))
				}
				if n := server.Calls(op); n < 2 || n > 1+quick.Attempts {
					t.Errorf("%s %s: %d calls, want 2 to %d", op, how, n, 1+quick.Attempts)
				}
				want := map[fakecloud.Failure]fleet.Code{fakecloud.Throttle: fleet.CodeRateLimited, fakecloud.Denied: fleet.CodeForbidden, fakecloud.Stranger: fleet.CodeUnauthorized}
				code, refused := want[how]
				if !refused {
					code = fleet.CodeUnavailable
				}
				if known != nil && known.Code != code {
					t.Errorf("%s %s: code %s, want %s (%v)", op, how, known.Code, code, err)
				}
				if (how == fakecloud.Denied || how == fakecloud.Stranger) && server.Calls(op) != 2 {
					t.Errorf("%s %s: was asked %d times again, which changes nothing", op, how, server.Calls(op)-2)
				}
			}
		}
	})
}

func TestThrottledThenFineGivesTheWholeList(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, s subject, l listing) {
		for _, how := range []fakecloud.Failure{fakecloud.Throttle, fakecloud.Broken, fakecloud.Cut} {
			server := serve(t, s)
			for _, op := range l.operations {
				server.Fail(fakecloud.Fault{Operation: op, From: 1, Times: 1, How: how})
				server.Fail(fakecloud.Fault{Operation: op, From: 3, Times: 2, How: how})
			}
			lines, _, err := read(t.Context(), s.open(t, server, quick), s, l.name)
			if err != nil {
				t.Errorf("%s: %v", how, err)
				continue
			}
			if diff := cmp.Diff(l.want, lines); diff != "" {
				t.Errorf("%s (-want +got):\n%s", how, diff)
			}
		}
	})
}

func TestAPageThatNamesItselfIsAnError(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, s subject, l listing) {
		failures := []fakecloud.Failure{fakecloud.SamePage}
		if s.links {
			failures = append(failures, fakecloud.ForeignLink)
		}
		for _, op := range l.operations {
			failures := failures
			if slices.Contains(s.partial, op) {
				failures = append(slices.Clone(failures), fakecloud.Partial)
			}
			for _, how := range failures {
				server := serve(t, s)
				server.Fail(fakecloud.Fault{Operation: op, From: 1, How: how})
				lines, _, err := read(t.Context(), s.open(t, server, quick), s, l.name)
				if err == nil || len(lines) > 0 {
					t.Errorf("%s %s: %d rows and error %v", op, how, len(lines), err)
				}
				if n := server.Calls(op); n > 4 {
					t.Errorf("%s %s: %d calls", op, how, n)
				}
			}
		}
	})
}

func TestEveryListHasADeadline(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, s subject, l listing) {
		server := serve(t, s)
		for _, op := range l.operations {
			server.Fail(fakecloud.Fault{Operation: op, How: fakecloud.Throttle})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		started := time.Now()
		lines, _, err := read(ctx, s.open(t, server, cloud.Retry{Attempts: 100_000, Base: 20 * time.Millisecond, Max: 40 * time.Millisecond}), s, l.name)
		if err == nil || len(lines) > 0 {
			t.Errorf("%d rows and error %v", len(lines), err)
		}
		if took := time.Since(started); took > 10*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestNothingIsReadAfterTheCallerLeft(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, s subject, l listing) {
		server := serve(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		src := s.open(t, server, quick)
		cancel()
		if lines, _, err := read(ctx, src, s, l.name); err == nil || len(lines) > 0 {
			t.Errorf("%d rows and error %v", len(lines), err)
		}
	})
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	for _, s := range subjects() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, s)
			for _, c := range s.open(t, server, quick).Check(t.Context()) {
				if c.Problem != "" || c.Name == "" {
					t.Errorf("%s: %s", c.Name, c.Problem)
				}
			}
			server = serve(t, s)
			denied := s.lists[0].operations[0]
			server.Fail(fakecloud.Fault{Operation: denied, How: fakecloud.Denied})
			var problems []string
			for _, c := range s.open(t, server, quick).Check(t.Context()) {
				if c.Problem != "" {
					problems = append(problems, c.Problem)
				}
			}
			if len(problems) != 1 || !strings.Contains(problems[0], "lack a permission") {
				t.Errorf("without %s: %q", denied, problems)
			}
		})
	}
}
