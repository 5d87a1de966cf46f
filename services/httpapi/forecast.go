package httpapi

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/optimizer/quantile"
	"plimsoll.dev/services/store"
)

// WorkloadForecast is what an SLO rule has learned of a workload, and what it would have cost otherwise.
type WorkloadForecast struct {
	Status      string     `json:"status" enum:"none,waiting,learning,ready" doc:"none: the policy has no slo rule; waiting: nothing was learned yet; learning: the first hour, in which nothing is scaled down"`
	At          *time.Time `json:"at" doc:"end of the newest 15 s that were learned and kept; kept every five minutes"`
	Began       string     `json:"began" enum:",new,damaged,version,shape,clock" doc:"why learning began when it did; all but new threw away what was known"`
	BeganAt     *time.Time `json:"began_at"`
	Objective   float64    `json:"objective" doc:"share of requests that may be late"`
	Aim         float64    `json:"aim" doc:"share that is aimed at"`
	LateSeconds float64    `json:"late_seconds" doc:"a request that waits longer to start is late"`
	LeadSeconds int        `json:"lead_seconds" doc:"how far ahead is looked: a start and 15 s"`
	Hours       float64    `json:"hours" doc:"of experience"`
	HalfLife    float64    `json:"half_life_days" doc:"after which experience counts half: the span of mean_replicas, late and cycles_per_hour"`

	Now      *ForecastNow     `json:"now"`
	InCharge *ForecastChoice  `json:"in_charge"`
	RunnerUp *ForecastChoice  `json:"runner_up" doc:"the next cheapest that would have kept the objective; null: none would"`
	Own      *ForecastAccount `json:"own" doc:"the rule as it was, without the policy's bounds and damping"`
	HPA      *ForecastAccount `json:"hpa_70" doc:"a HorizontalPodAutoscaler at 70 % of what a replica holds, run beside it on the same demand"`
	Band     []ForecastPoint  `json:"band" doc:"every five minutes, oldest first; the last ones lie ahead"`
}

// ForecastNow is the newest forecast, in replicas.
type ForecastNow struct {
	Demand         float64 `json:"demand" doc:"replicas in use by what arrives"`
	Level          float64 `json:"level"`
	Middle         float64 `json:"middle" doc:"median of the demand lead_seconds from now"`
	Upper          float64 `json:"upper" doc:"the quantile of the one in charge"`
	Need           int     `json:"need" doc:"replicas for upper"`
	Want           int     `json:"want" doc:"the highest need of the hold, and what works off a backlog"`
	BacklogSeconds float64 `json:"backlog_replica_seconds"`
}

// ForecastChoice is a candidate and how it fared.
type ForecastChoice struct {
	Method      string  `json:"method" enum:"mean_30s,mean_2m,mean_5m,trend,linear,upper"`
	Quantile    float64 `json:"quantile"`
	HoldSeconds int     `json:"hold_seconds"`
	Expected    float64 `json:"expected_late" doc:"share of late requests, with what was to be expected beforehand"`
	ForecastAccount
}

// ForecastAccount is what something would have paid for and left late.
type ForecastAccount struct {
	Want          int     `json:"want" doc:"replicas asked for now"`
	MeanReplicas  float64 `json:"mean_replicas"`
	Late          float64 `json:"late" doc:"share of requests"`
	CyclesPerHour float64 `json:"cycles_per_hour" doc:"completed up-down-ups"`
	CostHour      *Money  `json:"cost_hour" doc:"of mean_replicas at what a replica costs now; null when unknown"`
}

// ForecastPoint is what was expected of a time, and what came.
type ForecastPoint struct {
	At     time.Time `json:"at"`
	Middle *float64  `json:"middle" doc:"replicas; null after a gap"`
	Upper  *float64  `json:"upper"`
	Demand *float64  `json:"demand" doc:"what came; null ahead and in a gap"`
	Want   *int      `json:"want" doc:"replicas asked for then"`
	HPA    *int      `json:"hpa_70" doc:"replicas that the HorizontalPodAutoscaler would have asked for"`
}

func (s *Server) registerForecast() {
	op(s, huma.Operation{OperationID: "get-workload-forecast", Method: http.MethodGet, Path: "/api/v1/workloads/{id}/forecast", Summary: "What an SLO rule expects, why, and what it would have cost otherwise", Tags: []string{"workloads"}, Errors: []int{404}},
		auth.RoleViewer, s.getForecast)
}

func (s *Server) getForecast(ctx context.Context, p auth.Principal, in *struct {
	WorkloadPath
	From time.Time `query:"from" doc:"default: 24 hours before to; two days are kept"`
	To   time.Time `query:"to" doc:"default: the newest forecast"`
}) (*struct{ Body WorkloadForecast }, error) {
	out := &struct{ Body WorkloadForecast }{Body: WorkloadForecast{Status: "none", Band: []ForecastPoint{}}}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		w, err := loadWorkload(ctx, tx, in.ID)
		if err != nil || w.PolicyVersion == 0 {
			return err
		}
		policy, findings := s.deps.DB.ParsePolicy(w.PolicyDoc)
		if policy.SLO == nil || optimizer.HasErrors(findings) {
			return nil
		}
		kept, err := store.LearnedOf(ctx, tx, []fleet.WorkloadID{in.ID})
		if err != nil {
			return err
		}
		shown, err := s.showWorkloads(ctx, tx, []store.WorkloadRow{w})
		if err != nil {
			return err
		}
		k := kept[in.ID]
		learned := optimizer.NewLearner(k.State, k.Began, policy.SLO, w.Class, 0)
		s.showForecast(&out.Body, policy.SLO, w.Class, learned, k)
		newest := tx.Now // what is expected lies after it
		if out.Body.At != nil {
			newest = out.Body.At.Add(time.Duration(out.Body.LeadSeconds)*time.Second + 5*time.Minute)
		}
		from, to, err := window(in.From, in.To, &newest, tx.Now, 24*time.Hour, 400*24*time.Hour)
		if err != nil {
			return err
		}
		out.Body.Band = between(out.Body.Band, from, to)
		return s.priceForecast(&out.Body, shown[0])
	})
	return out, err
}

// showForecast fills in what was learned. A learner that had to begin anew because what was kept is of no use has nothing to show.
func (s *Server) showForecast(out *WorkloadForecast, rule *optimizer.SLO, class string, l *optimizer.Learner, kept store.Learned) {
	out.Status, out.Objective, out.Aim, out.LateSeconds = "waiting", rule.Objective(class), rule.Aim(class), rule.LateSeconds
	if l.Kept < 0 {
		return
	}
	o := l.Policy.Outlook()
	at := slotEnd(o.Slot)
	out.Status, out.At, out.Began, out.BeganAt, out.Hours = "learning", &at, string(l.Began), &kept.BeganAt, o.Hours
	if o.Hours >= 1 {
		out.Status = "ready"
	}
	out.LeadSeconds, out.HalfLife = o.LeadSlots*quantile.SlotSeconds, l.Policy.HalfLifeDays()
	out.Now = &ForecastNow{Demand: o.Demand, Level: o.Level, Middle: o.Middle, Upper: o.Upper, Need: o.Need, Want: max(o.Want, o.CatchUp), BacklogSeconds: o.Backlog}
	out.InCharge = showChoice(o.Chief)
	if o.Runner != nil {
		out.RunnerUp = showChoice(*o.Runner)
	}
	own, hpa := showAccount(o.Own), showAccount(o.Plain)
	out.Own, out.HPA = &own, &hpa
	out.Band = band(l.Policy.Track(), o.LeadSlots)
}

func showChoice(s quantile.Standing) *ForecastChoice {
	return &ForecastChoice{Method: s.Cast.String(), Quantile: s.Quantile, HoldSeconds: s.Hold * quantile.SlotSeconds, Expected: s.Expected, ForecastAccount: showAccount(s)}
}

func showAccount(s quantile.Standing) ForecastAccount {
	return ForecastAccount{Want: s.Want, MeanReplicas: s.Mean, Late: s.Late, CyclesPerHour: s.Cycles}
}

func slotEnd(slot int64) time.Time { return time.Unix((slot+1)*quantile.SlotSeconds, 0).UTC() }

// band puts what was expected to the time that it was expected of, on a grid of five minutes, beside what came.
func band(track []quantile.Point, lead int) []ForecastPoint {
	const stride = 300 / quantile.SlotSeconds
	shift := int64(max(1, (lead+stride/2)/stride) * stride)
	points := map[int64]*ForecastPoint{}
	var order []int64
	point := func(slot int64) *ForecastPoint {
		if points[slot] == nil {
			points[slot] = &ForecastPoint{At: slotEnd(slot)}
			order = append(order, slot)
		}
		return points[slot]
	}
	for _, p := range track {
		q := point(p.Slot)
		q.Demand, q.Want, q.HPA = ptr(p.Demand), ptr(p.Want), ptr(p.Plain)
	}
	for _, p := range track {
		q := point(p.Slot + shift)
		q.Middle, q.Upper = ptr(p.Middle), ptr(p.Upper)
	}
	slices.Sort(order)
	out := make([]ForecastPoint, 0, len(order))
	for _, slot := range order {
		out = append(out, *points[slot])
	}
	return out
}

// between keeps the points of [from, to).
func between(points []ForecastPoint, from, to time.Time) []ForecastPoint {
	out := []ForecastPoint{}
	for _, p := range points {
		if !p.At.Before(from) && p.At.Before(to) {
			out = append(out, p)
		}
	}
	return out
}

// priceForecast says what mean replicas cost at what one costs now.
func (s *Server) priceForecast(out *WorkloadForecast, w Workload) error {
	if w.ReplicaHour == nil {
		return nil
	}
	one, err := fleet.ParseMoney(w.ReplicaHour.Amount)
	if err != nil {
		return fmt.Errorf("read a price: %w", err)
	}
	accounts := []*ForecastAccount{out.Own, out.HPA}
	for _, c := range []*ForecastChoice{out.InCharge, out.RunnerUp} {
		if c != nil {
			accounts = append(accounts, &c.ForecastAccount)
		}
	}
	for _, a := range accounts {
		if a != nil {
			a.CostHour = moneyOrNil(ptr(one.MulDiv(int64(math.Round(a.MeanReplicas*1e4)), 1e4)), s.prices().Currency())
		}
	}
	return nil
}
