package availability

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/fleet"
)

var t0 = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

func spot(zone, name string) fleet.Offering {
	return fleet.Offering{Cloud: fleet.CloudAWS, Region: zone[:len(zone)-1], Zone: zone, InstanceType: name, Purchase: fleet.PurchaseSpot}
}

var here = spot("us-east-1a", "p3.2xlarge")

func at(minutes float64) time.Time { return t0.Add(time.Duration(minutes * float64(time.Minute))) }

func ev(minutes float64, o fleet.Offering, k Kind) Event {
	return Event{At: at(minutes), Offering: o, Kind: k}
}

func learned(t *testing.T, events ...Event) *Model {
	t.Helper()
	m := New(DefaultParams())
	if err := m.Observe(events...); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestWithoutDataTheScoreIsThePrior(t *testing.T) {
	t.Parallel()
	p := DefaultParams()
	for _, c := range []struct {
		name string
		o    fleet.Offering
	}{
		{"a type in the worst band everywhere", here},
		{"a type that the bands do not list", spot("us-east-1a", "zz9.plural")},
		{"another cloud", fleet.Offering{Cloud: fleet.CloudGCP, Region: "us-central1", Zone: "us-central1-a", InstanceType: "a2-highgpu-1g", Purchase: fleet.PurchaseSpot}},
		{"on demand", fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: "us-east-1a", InstanceType: "p3.2xlarge", Purchase: fleet.PurchaseOnDemand}},
		{"reserved", fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: "us-east-1a", InstanceType: "p3.2xlarge", Purchase: fleet.PurchaseReserved}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, prior := New(p).Score(c.o, t0), PriorOf(c.o)
			if s.PriorShare != 1 || !s.LastSeen.IsZero() || !s.BackoffUntil.IsZero() {
				t.Errorf("prior share %v, last seen %v, back-off %v", s.PriorShare, s.LastSeen, s.BackoffUntil)
			}
			if math.Abs(s.AvailableNow-prior.Presence) > 1e-9 {
				t.Errorf("available now %v, want the prior %v", s.AvailableNow, prior.Presence)
			}
			exposed := exposure(1, 2, p.LossFade, p.AgeFloor)
			if want := math.Pow(1+exposed*prior.Loss/p.Strength, -p.Strength); math.Abs(s.SurvivesNextHour-want) > 1e-9 {
				t.Errorf("survives %v, want %v", s.SurvivesNextHour, want)
			}
		})
	}
}

func TestOnDemandIsSaferThanSpot(t *testing.T) {
	t.Parallel()
	m, od := New(DefaultParams()), here
	od.Purchase = fleet.PurchaseOnDemand
	s, d := m.Score(here, t0), m.Score(od, t0)
	if !(d.SurvivesNextHour > s.SurvivesNextHour && d.AvailableNow > s.AvailableNow) {
		t.Errorf("on demand %v, Spot %v", d, s)
	}
}

func TestBandsAreInOrder(t *testing.T) {
	t.Parallel()
	for i := 1; i < len(bandLoss); i++ {
		if bandLoss[i] <= bandLoss[i-1] || bandGone[i] <= bandGone[i-1] {
			t.Errorf("band %d is no worse than the one below it", i)
		}
	}
	if BandsDate() == "" || len(bands().byType) < 500 {
		t.Errorf("bands of %q with %d types", BandsDate(), len(bands().byType))
	}
	if got := InterruptionShare(fleet.CloudAWS, "p3.2xlarge"); got != bandCentre[4] {
		t.Errorf("p3.2xlarge is interrupted %v a month, want the open band's %v", got, bandCentre[4])
	}
	if got := InterruptionShare(fleet.CloudGCP, "p3.2xlarge"); got == bandCentre[4] {
		t.Error("AWS's band was used for another cloud's type of the same name")
	}
}

func TestWhatHappensToAScore(t *testing.T) {
	t.Parallel()
	m := learned(t, ev(0, here, KindHad), ev(5, here, KindRunning), ev(60, here, KindRunning))
	calm := m.Score(here, at(61))
	if calm.AvailableNow < 0.9 || calm.PriorShare >= 1 || calm.LastSeen != at(60) {
		t.Fatalf("after an hour of running: %v, last seen %v", calm, calm.LastSeen)
	}
	if err := m.Observe(ev(62, here, KindNotice)); err != nil {
		t.Fatal(err)
	}
	noticed := m.Score(here, at(62))
	if noticed.AvailableNow > 0.01 || noticed.SurvivesNextHour >= calm.SurvivesNextHour || noticed.Interruptions < 0.99 {
		t.Errorf("after a notice: %v, interruptions %v", noticed, noticed.Interruptions)
	}
	if want := at(64); !noticed.BackoffUntil.Equal(want) {
		t.Errorf("back-off until %v, want %v", noticed.BackoffUntil, want)
	}
	later := m.Score(here, at(62+180))
	if later.AvailableNow <= noticed.AvailableNow || !later.BackoffUntil.IsZero() {
		t.Errorf("three hours later nobody knows: %v", later)
	}
}

func TestBackoffDoublesFromTwoToThirtyMinutes(t *testing.T) {
	t.Parallel()
	m := learned(t)
	clock := 0.0
	for i, want := range []float64{2, 4, 8, 16, 30, 30} {
		if err := m.Observe(ev(clock, here, KindExhausted)); err != nil {
			t.Fatal(err)
		}
		if got := m.Score(here, at(clock)).BackoffUntil.Sub(at(clock)).Minutes(); got != want {
			t.Errorf("stock-out %d: back-off of %v min, want %v", i+1, got, want)
		}
		clock += want
	}
	if err := m.Observe(ev(clock, here, KindHad), ev(clock+60, here, KindExhausted)); err != nil {
		t.Fatal(err)
	}
	if s := m.Score(here, at(clock+60)); s.BackoffUntil.Sub(at(clock+60)) != firstBackoff || s.Failures != 1 {
		t.Errorf("after a success the back-off starts again: %v, failures %d", s.BackoffUntil, s.Failures)
	}
}

func TestTenNoticesAtOnceAreOneFailure(t *testing.T) {
	t.Parallel()
	events := []Event{ev(0, here, KindHad), ev(30, here, KindRunning)}
	for range 10 {
		e := ev(31, here, KindNotice)
		e.Machines, e.Of = 1, 10
		events = append(events, e)
	}
	s := learned(t, events...).Score(here, at(31))
	if s.Failures != 1 || math.Abs(s.Interruptions-1) > 0.01 {
		t.Errorf("failures %d, interruptions %v, want one of each", s.Failures, s.Interruptions)
	}
}

func TestAZoneIsOneFailure(t *testing.T) {
	t.Parallel()
	others := []fleet.Offering{spot("us-east-1a", "g5.xlarge"), spot("us-east-1a", "m5.large"), spot("us-east-1a", "c5.large")}
	neighbour, elsewhere := spot("us-east-1a", "g6.xlarge"), spot("us-east-1b", "g6.xlarge")
	var calm, reclaim []Event
	for _, o := range append(others, neighbour, elsewhere) {
		calm = append(calm, ev(0, o, KindHad), ev(10, o, KindRunning), ev(20, o, KindRunning))
	}
	for _, o := range others {
		reclaim = append(reclaim, ev(21, o, KindNotice))
	}
	before, after := learned(t, calm...), learned(t, append(calm, reclaim...)...)
	b, a := before.Score(neighbour, at(21)), after.Score(neighbour, at(21))
	if a.SurvivesNextHour >= b.SurvivesNextHour-0.01 {
		t.Errorf("a reclaim of all other types of the zone moved the last one from %v to %v only", b.SurvivesNextHour, a.SurvivesNextHour)
	}
	b, a = before.Score(elsewhere, at(21)), after.Score(elsewhere, at(21))
	if a.SurvivesNextHour != b.SurvivesNextHour {
		t.Errorf("it moved another type in another zone: %v, %v", b.SurvivesNextHour, a.SurvivesNextHour)
	}
	unseen := spot("us-east-1a", "c7i.large")
	if b, a := before.Score(unseen, at(21)).AvailableNow, after.Score(unseen, at(21)).AvailableNow; a >= b {
		t.Errorf("a type never tried in that zone went from %v to %v", b, a)
	}
}

func TestSurvivorsOfAStockOutWereNotLost(t *testing.T) {
	t.Parallel()
	s := learned(t, ev(0, here, KindHad), ev(30, here, KindRunning), ev(31, here, KindExhausted), ev(60, here, KindRunning)).Score(here, at(60))
	if s.Interruptions != 0 || s.AvailableNow > 0.6 {
		t.Errorf("interruptions %v, available now %v", s.Interruptions, s.AvailableNow)
	}
	lost := learned(t, ev(0, here, KindHad), ev(30, here, KindRunning), ev(31, here, KindLost), ev(60, here, KindExhausted)).Score(here, at(60))
	if lost.Hazard <= s.Hazard {
		t.Errorf("hazard after a loss %v, after a stock-out that all survived %v", lost.Hazard, s.Hazard)
	}
}

func TestAPriceAtOnDemandIsAWarning(t *testing.T) {
	t.Parallel()
	price := func(r float64) Event { e := ev(0, here, KindPrice); e.Ratio = r; return e }
	cheap, dear := learned(t, price(0.3)).Score(here, at(1)), learned(t, price(1)).Score(here, at(1))
	if !(dear.Hazard > cheap.Hazard) || dear.PriceRatio != 1 {
		t.Errorf("hazard %v at on-demand price, %v at a third of it", dear.Hazard, cheap.Hazard)
	}
	if none := New(DefaultParams()).Score(here, at(1)); none.Hazard != cheap.Hazard {
		t.Errorf("a usual price changes nothing: %v, %v", none.Hazard, cheap.Hazard)
	}
}

func TestBadEventsTeachNothing(t *testing.T) {
	t.Parallel()
	m := learned(t, ev(0, here, KindHad))
	before := m.State()
	nan, noPlace := ev(1, here, KindPrice), ev(1, here, KindHad)
	nan.Ratio, noPlace.Offering.Region = math.NaN(), ""
	negative := ev(1, here, KindLost)
	negative.Machines = -1
	for name, bad := range map[string]Event{"unknown kind": ev(1, here, "maybe"), "price that is no number": nan, "no region": noPlace,
		"no time": {Offering: here, Kind: KindHad}, "negative machines": negative} {
		if err := m.Observe(ev(1, here, KindExhausted), bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if diff := cmp.Diff(before, m.State()); diff != "" {
		t.Errorf("the model changed: %s", diff)
	}
}

func TestALateEventCountsButDoesNotTurnTheState(t *testing.T) {
	t.Parallel()
	m := learned(t, ev(0, here, KindHad), ev(60, here, KindHad))
	if err := m.Observe(ev(30, here, KindNotice)); err != nil {
		t.Fatal(err)
	}
	s := m.Score(here, at(60))
	if s.AvailableNow < 0.9 || s.Interruptions < 0.9 {
		t.Errorf("available now %v, interruptions %v", s.AvailableNow, s.Interruptions)
	}
}

func TestLadderWaits(t *testing.T) {
	t.Parallel()
	b, od := spot("us-east-1b", "p3.2xlarge"), here
	od.Purchase = fleet.PurchaseOnDemand
	m := learned(t, ev(0, here, KindExhausted), ev(0, b, KindHad))
	now := at(1)
	dry, good, both := m.ExpectedWait([]fleet.Offering{here}, now), m.ExpectedWait([]fleet.Offering{b}, now), m.ExpectedWait([]fleet.Offering{here, b}, now)
	if !(good.Expected < dry.Expected && both.Expected < dry.Expected && both.WithinHour > good.WithinHour) {
		t.Errorf("good %v, dry then good %v, dry %v", good.Expected, both.Expected, dry.Expected)
	}
	if good.Expected > 2*time.Minute || good.First < 0.9 || dry.First != 0 {
		t.Errorf("good %+v, dry %+v", good, dry)
	}
	withOD := m.ExpectedWait([]fleet.Offering{here, od}, now)
	if withOD.Expected >= dry.Expected || withOD.WithinHour <= dry.WithinHour {
		t.Errorf("a rung on demand does not help: %+v, without %+v", withOD, dry)
	}
	if none := m.ExpectedWait(nil, now); none.Expected != ladderLimit || none.WithinHour != 0 {
		t.Errorf("no ladder: %+v", none)
	}
}

func TestStateRoundTrips(t *testing.T) {
	t.Parallel()
	events := []Event{ev(0, here, KindHad), ev(3, here, KindRunning), ev(40, here, KindNotice), ev(41, spot("us-east-1b", "p3.2xlarge"), KindExhausted)}
	m := learned(t, events...)
	rows := m.Changes()
	if !reflect.DeepEqual(rows, m.State()) || len(m.Changes()) != 0 {
		t.Error("a fresh model's changes are not its state, or are told twice")
	}
	back, err := Restore(DefaultParams(), rows)
	if err != nil {
		t.Fatal(err)
	}
	more := []Event{ev(50, here, KindExhausted), ev(300, here, KindHad)}
	for _, x := range []*Model{m, back} {
		if err := x.Observe(more...); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(m.State(), back.State()); diff != "" {
		t.Errorf("states differ: %s", diff)
	}
	if diff := cmp.Diff(m.Score(here, at(400)), back.Score(here, at(400))); diff != "" {
		t.Errorf("scores differ: %s", diff)
	}
	rows[0].Key = "offering/aws/x/y/z/spot"
	if _, err := Restore(DefaultParams(), rows); err == nil {
		t.Error("a state under another offering's key was taken")
	}
}

func BenchmarkObserve(b *testing.B) {
	m := New(DefaultParams())
	for i := 0; b.Loop(); i++ {
		k := KindHad
		if i%20 == 0 {
			k = KindExhausted
		}
		_ = m.Observe(ev(float64(i), here, k))
	}
}
