package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/spread"
	"plimsoll.dev/services/store"
)

func (s *Server) registerServices() {
	tags := []string{"services"}
	missing := []int{http.StatusNotFound}
	op(s, huma.Operation{OperationID: "list-services", Method: http.MethodGet, Path: "/api/v1/services", Summary: "Services that run in several clusters, and labels of workloads that nobody declared as one", Tags: tags}, auth.RoleViewer, s.listServices)
	op(s, huma.Operation{OperationID: "create-service", Method: http.MethodPost, Path: "/api/v1/services", Summary: "Declare that workloads of several clusters are one service", Tags: tags, DefaultStatus: http.StatusCreated, Errors: []int{409, 413, 422},
		Description: "Workloads are named here, or have the label plimsoll.dev/service with the service's name; one per cluster. In recommend the split is shown and nothing is changed. In enforce each cluster's policy is bounded by its part, and goes by its own guards."},
		auth.RoleOperator, s.createService)
	op(s, huma.Operation{OperationID: "get-service", Method: http.MethodGet, Path: "/api/v1/services/{id}", Summary: "A service, its rules and its workloads", Tags: tags, Errors: missing}, auth.RoleViewer, s.getService)
	op(s, huma.Operation{OperationID: "set-service", Method: http.MethodPut, Path: "/api/v1/services/{id}", Summary: "Change a service; version is the one that was read", Tags: tags, Errors: []int{404, 409, 422}}, auth.RoleOperator, s.setService)
	op(s, huma.Operation{OperationID: "delete-service", Method: http.MethodDelete, Path: "/api/v1/services/{id}", Summary: "Forget a service: its workloads go by their own policies again", Tags: tags, Errors: missing, DefaultStatus: http.StatusNoContent}, auth.RoleOperator, s.deleteService)
	op(s, huma.Operation{OperationID: "get-service-plan", Method: http.MethodGet, Path: "/api/v1/services/{id}/plan", Summary: "How a service's replicas are split over its clusters, why, and what else was considered", Tags: tags, Errors: missing,
		Description: "The newest plan, or an older one by id. weight of each part is for balancers: the share of the load that the replicas ready there can take."}, auth.RoleViewer, s.getServicePlan)
}

// ServiceRules are what a split must keep. Whatever is left out is the default.
type ServiceRules struct {
	Traffic      string   `json:"traffic,omitempty" enum:"local,balanced,shared" doc:"local (default): load stays in its cluster until somebody moves it; balanced: a balancer sends it to where replicas are ready; shared: all clusters take from one queue"`
	Headroom     float64  `json:"headroom,omitempty" minimum:"0" maximum:"1" doc:"share of the demand that is left when any one cluster is lost; 0: no such rule"`
	Clouds       []string `json:"clouds,omitempty" maxItems:"10" doc:"empty: all"`
	Regions      []string `json:"regions,omitempty" maxItems:"100" doc:"empty: all"`
	MoveCost     string   `json:"move_cost,omitempty" maxLength:"30" doc:"decimal; of one replica that moves to another cluster; default 0.05"`
	HorizonHours int64    `json:"horizon_hours,omitempty" minimum:"0" maximum:"720" doc:"within which a move must pay; default 6"`
	Gain         float64  `json:"gain,omitempty" minimum:"0" maximum:"1" doc:"share of the cost that a move must save; default 0.05"`
	DwellSec     int64    `json:"dwell_sec,omitempty" minimum:"0" maximum:"604800" doc:"between two moves for price; default 1800"`
	WindowSec    int64    `json:"window_sec,omitempty" minimum:"0" maximum:"3600" doc:"the demand is the highest of so many seconds; default 300"`
	Step         float64  `json:"step,omitempty" minimum:"0" maximum:"1" doc:"share of a cluster's replicas that one step takes away, one at least; default 0.25"`
	PatienceSec  int64    `json:"patience_sec,omitempty" minimum:"0" maximum:"86400" doc:"how long replicas wait for load that does not come before the move is given up; default 1800"`
}

// ServiceSiteRules bound one cluster's part.
type ServiceSiteRules struct {
	Min          int     `json:"min,omitempty" minimum:"0" maximum:"20000"`
	Max          int     `json:"max,omitempty" minimum:"0" maximum:"20000" doc:"0: none beyond the policy's own"`
	MinShare     float64 `json:"min_share,omitempty" minimum:"0" maximum:"1"`
	MaxShare     float64 `json:"max_share,omitempty" minimum:"0" maximum:"1" doc:"0: none"`
	EgressGBHour float64 `json:"egress_gb_hour,omitempty" minimum:"0" maximum:"1000000" doc:"data that one replica sends out of the place in an hour"`
	EgressPrice  string  `json:"egress_price,omitempty" maxLength:"30" doc:"decimal; per GB"`
	Penalty      string  `json:"penalty,omitempty" maxLength:"30" doc:"decimal; per replica-hour: what being served from there is worth less, such as latency"`
}

// ServiceSiteInput names one workload of a service.
type ServiceSiteInput struct {
	WorkloadID string           `json:"workload_id" format:"uuid"`
	Rules      ServiceSiteRules `json:"rules,omitempty"`
}

// ServiceDoc is a service as it is written.
type ServiceDoc struct {
	Name  string             `json:"name" minLength:"1" maxLength:"63" doc:"also the value of the label plimsoll.dev/service"`
	Mode  string             `json:"mode" enum:"off,recommend,enforce"`
	Rules ServiceRules       `json:"rules,omitempty"`
	Sites []ServiceSiteInput `json:"sites,omitempty" maxItems:"32" doc:"one workload per cluster; those with the label need not be named"`
}

// ServiceSummary is a service in a line.
type ServiceSummary struct {
	ID       string              `json:"id"`
	Name     string              `json:"name"`
	Mode     string              `json:"mode" enum:"off,recommend,enforce"`
	Clusters int                 `json:"clusters"`
	Plan     *ServicePlanSummary `json:"plan" doc:"the newest; null: none yet"`
}

// ServicePlanSummary is a plan in a line.
type ServicePlanSummary struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at" doc:"of the newest computation that said this"`
	FirstAt time.Time `json:"first_at"`
	Outcome string    `json:"outcome" enum:"keep,move,size,held"`
	Target  int       `json:"target" doc:"replicas of all parts"`
	Before  Money     `json:"before" doc:"per hour: what the replicas there are cost where they may be changed"`
	After   Money     `json:"after" doc:"per hour: of the target"`
}

// ServiceSiteView is one workload of a service.
type ServiceSiteView struct {
	WorkloadID fleet.WorkloadID `json:"workload_id"`
	Workload   string           `json:"workload" doc:"namespace/Kind/name"`
	ClusterID  fleet.ClusterID  `json:"cluster_id"`
	Cluster    string           `json:"cluster"`
	Rules      ServiceSiteRules `json:"rules"`
	Labelled   bool             `json:"labelled" doc:"it is there by its label alone"`
	Twice      bool             `json:"twice" doc:"another workload of this cluster counts instead"`
	Gone       bool             `json:"gone"`
}

// ServiceView is a service.
type ServiceView struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Mode      string            `json:"mode" enum:"off,recommend,enforce"`
	Version   int               `json:"version"`
	Rules     ServiceRules      `json:"rules"`
	Sites     []ServiceSiteView `json:"sites"`
	UpdatedBy string            `json:"updated_by"`
	UpdatedAt time.Time         `json:"updated_at"`
	CheckedAt *time.Time        `json:"checked_at" doc:"when it was last planned; null: never"`
}

// ServiceMarginal is what one replica costs at a place, per hour.
type ServiceMarginal struct {
	Price    Money           `json:"price" doc:"its share of the machine, commitments counted"`
	Weighed  Money           `json:"weighed" doc:"with the risk of losing the machine and of not getting it; by this places are compared"`
	Extra    Money           `json:"extra" doc:"data that leaves the place, and the penalty"`
	Kind     string          `json:"kind" enum:"runs,spare,new" doc:"runs there, room on a machine that runs, or a new machine"`
	Offering PlannedOffering `json:"offering"`
}

// ServicePart is one cluster's part.
type ServicePart struct {
	WorkloadID fleet.WorkloadID `json:"workload_id"`
	Workload   string           `json:"workload"`
	ClusterID  fleet.ClusterID  `json:"cluster_id"`
	Cluster    string           `json:"cluster"`
	Cloud      string           `json:"cloud"`
	Region     string           `json:"region"`
	Held       string           `json:"held,omitempty" enum:"silent,frozen,mode,policy,conflict,zero,signals,price,gone" doc:"why it keeps what it has; absent: it may be changed"`
	From       int              `json:"from" doc:"replicas now"`
	Ready      int              `json:"ready"`
	Need       *int             `json:"need" doc:"what its own signals ask for; null: not known"`
	Target     int              `json:"target"`
	Floor      *int             `json:"floor" doc:"for its policy, now; null: none"`
	Cap        *int             `json:"cap" doc:"for its policy, now; null: none"`
	Bound      string           `json:"bound,omitempty" enum:"price,min,max,min_share,max_share,headroom,reach,not_allowed,churn,gain,dwell,rest" doc:"what settled the target: price, or the rule in the way of a cheaper split"`
	Wait       string           `json:"wait,omitempty" enum:"ready,load,step" doc:"why more is not taken away yet"`
	Last       *ServiceMarginal `json:"last" doc:"of the last replica of the target"`
	Next       *ServiceMarginal `json:"next" doc:"of one more; null: there is none to be had"`
	Weight     float64          `json:"weight" doc:"share of the load that the replicas ready there can take"`
	PricedAt   *time.Time       `json:"priced_at" doc:"of the capacity plan that its prices are from"`
}

// ServiceOption is a split that was looked at.
type ServiceOption struct {
	Name     string `json:"name" enum:"plan,keep,best,even,no_headroom,single"`
	Cluster  string `json:"cluster,omitempty" doc:"of single"`
	Counts   []int  `json:"counts" doc:"by part; empty: there is no such split"`
	Replicas int    `json:"replicas"`
	Cost     *Money `json:"cost" doc:"per hour"`
	Delta    *Money `json:"delta" doc:"against the plan, per hour"`
	WhyNot   string `json:"why_not,omitempty" enum:"dearer,headroom,rules,churn,gain,dwell,rest,min,max,reach,not_allowed"`
}

// ServicePlanView is a plan.
type ServicePlanView struct {
	ServicePlanSummary
	Mode     string          `json:"mode" enum:"recommend,enforce"`
	Stale    bool            `json:"stale" doc:"it was not planned for two minutes"`
	Asked    int             `json:"asked" doc:"what the signals ask for"`
	Demand   int             `json:"demand" doc:"the highest of the window"`
	Missing  int             `json:"missing" doc:"of the demand, that no cluster may have"`
	Survives int             `json:"survives" doc:"replicas left when the cluster with the most is lost"`
	Relaxed  []string        `json:"relaxed" doc:"rules that could not be kept: headroom, shares"`
	Stays    string          `json:"stays,omitempty" enum:"churn,gain,dwell,rest" doc:"why a cheaper split is not taken"`
	Moves    int             `json:"moves" doc:"replicas that begin in another cluster"`
	Saving   *Money          `json:"saving" doc:"per hour, against keeping the split at the same demand; null: nothing moves for price"`
	Parts    []ServicePart   `json:"parts"`
	Options  []ServiceOption `json:"options"`
}

type servicesOutput struct {
	Body struct {
		Items    []ServiceSummary `json:"items"`
		Labelled []LabelledName   `json:"labelled" doc:"labels that workloads of several clusters have, and that nobody declared"`
	}
}

// LabelledName is the value of a label that workloads of several clusters have.
type LabelledName struct {
	Name     string `json:"name"`
	Clusters int    `json:"clusters"`
}

func (s *Server) listServices(ctx context.Context, p auth.Principal, _ *struct{}) (*servicesOutput, error) {
	out := &servicesOutput{}
	out.Body.Items, out.Body.Labelled = []ServiceSummary{}, []LabelledName{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		list, err := store.Services(ctx, tx)
		if err != nil {
			return err
		}
		plans, err := store.NewestServicePlans(ctx, tx)
		if err != nil {
			return err
		}
		for _, x := range list {
			v := ServiceSummary{ID: x.ID, Name: x.Name, Mode: string(x.Mode)}
			for _, site := range x.Sites {
				if !site.Twice {
					v.Clusters++
				}
			}
			if h, ok := plans[x.ID]; ok {
				sum := s.servicePlanSummary(h)
				v.Plan = &sum
			}
			out.Body.Items = append(out.Body.Items, v)
		}
		labels, err := store.LabelledServices(ctx, tx)
		for _, l := range labels {
			out.Body.Labelled = append(out.Body.Labelled, LabelledName{l.Name, l.Clusters})
		}
		return err
	})
	return out, err
}

type serviceOnly struct {
	ID string `path:"id" format:"uuid"`
}

type serviceOutput struct{ Body ServiceView }

func (s *Server) getService(ctx context.Context, p auth.Principal, q *serviceOnly) (*serviceOutput, error) {
	out := &serviceOutput{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) (err error) {
		out.Body, err = serviceView(ctx, tx, q.ID)
		return err
	})
	return out, err
}

func serviceView(ctx context.Context, tx *store.Tx, id string) (ServiceView, error) {
	x, err := store.ServiceByID(ctx, tx, id)
	if err != nil {
		return ServiceView{}, err
	}
	v := ServiceView{ID: x.ID, Name: x.Name, Mode: string(x.Mode), Version: x.Version, Rules: serviceRulesOf(x.Rules), Sites: []ServiceSiteView{}, UpdatedBy: x.UpdatedBy, UpdatedAt: x.UpdatedAt.UTC(), CheckedAt: x.CheckedAt}
	for _, site := range x.Sites {
		v.Sites = append(v.Sites, ServiceSiteView{WorkloadID: site.Workload, Workload: site.Key, ClusterID: site.Cluster, Cluster: site.ClusterName, Rules: siteRulesOf(site.Rules),
			Labelled: site.Labelled, Twice: site.Twice, Gone: site.Gone})
	}
	return v, nil
}

type createServiceInput struct{ Body ServiceDoc }

func (s *Server) createService(ctx context.Context, p auth.Principal, q *createServiceInput) (*serviceOutput, error) {
	return s.saveService(ctx, p, "", 0, q.Body)
}

type setServiceInput struct {
	ID   string `path:"id" format:"uuid"`
	Body struct {
		Version int        `json:"version" minimum:"1"`
		Service ServiceDoc `json:"service"`
	}
}

func (s *Server) setService(ctx context.Context, p auth.Principal, q *setServiceInput) (*serviceOutput, error) {
	return s.saveService(ctx, p, q.ID, q.Body.Version, q.Body.Service)
}

func (s *Server) saveService(ctx context.Context, p auth.Principal, id string, version int, doc ServiceDoc) (*serviceOutput, error) {
	x, err := doc.service()
	if err != nil {
		return nil, err
	}
	x.ID, x.Version = id, version
	out := &serviceOutput{}
	err = s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		saved, err := store.SaveService(ctx, tx, x, p.Actor())
		if err != nil {
			return err
		}
		action := "service.set"
		if version == 0 {
			action = "service.create"
		}
		if err := store.Audit(ctx, tx, p.Actor(), action, "service:"+saved, map[string]string{"name": x.Name, "mode": string(x.Mode), "sites": strconv.Itoa(len(x.Sites)), "traffic": string(x.Rules.Traffic)}); err != nil {
			return err
		}
		out.Body, err = serviceView(ctx, tx, saved)
		return err
	})
	return out, err
}

func (s *Server) deleteService(ctx context.Context, p auth.Principal, q *serviceOnly) (*struct{}, error) {
	return nil, s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		if err := store.DeleteService(ctx, tx, q.ID); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "service.delete", "service:"+q.ID, nil)
	})
}

type servicePlanInput struct {
	ID   string `path:"id" format:"uuid"`
	Plan string `query:"plan" format:"uuid" doc:"empty: the newest"`
}

type servicePlanOutput struct {
	Body struct {
		Plan    *ServicePlanView     `json:"plan" doc:"null: none was made yet"`
		History []ServicePlanSummary `json:"history" doc:"plans that said something new, newest first, at most 50"`
	}
}

// servicePlanStale is how long a service may go without a plan before what is shown is old.
const servicePlanStale = 2 * time.Minute

func (s *Server) getServicePlan(ctx context.Context, p auth.Principal, q *servicePlanInput) (*servicePlanOutput, error) {
	out := &servicePlanOutput{}
	out.Body.History = []ServicePlanSummary{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		x, err := store.ServiceByID(ctx, tx, q.ID)
		if err != nil {
			return err
		}
		h, in, plan, err := store.ServicePlan(ctx, tx, q.ID, q.Plan)
		if store.IsNotFound(err) && q.Plan == "" {
			return nil
		}
		if err != nil {
			return err
		}
		v := s.servicePlan(h, &in, plan)
		v.Stale = q.Plan == "" && (x.Mode == store.ModeOff || tx.Now.Sub(h.At) > servicePlanStale)
		out.Body.Plan = &v
		list, err := store.ServicePlans(ctx, tx, q.ID, 50)
		for _, h := range list {
			out.Body.History = append(out.Body.History, s.servicePlanSummary(h))
		}
		return err
	})
	return out, err
}

func (s *Server) servicePlanSummary(h store.ServicePlanHead) ServicePlanSummary {
	return ServicePlanSummary{ID: h.ID, At: h.At.UTC(), FirstAt: h.FirstAt.UTC(), Outcome: string(h.Outcome), Target: h.Target, Before: s.money(h.Before), After: s.money(h.After)}
}

func (s *Server) servicePlan(h store.ServicePlanHead, in *spread.Input, p *spread.Plan) ServicePlanView {
	currency := s.prices().Currency()
	v := ServicePlanView{ServicePlanSummary: s.servicePlanSummary(h), Mode: string(p.Mode), Asked: p.Asked, Demand: p.Demand, Missing: p.Missing, Survives: p.Survives, Relaxed: append([]string{}, p.Relaxed...),
		Stays: p.Stays, Moves: p.Moves, Saving: moneyOrNil(p.Saving, currency), Parts: []ServicePart{}, Options: []ServiceOption{}}
	for i := range p.Parts {
		q, site := &p.Parts[i], &in.Sites[i]
		part := ServicePart{WorkloadID: q.Workload, Workload: site.Key, ClusterID: q.Cluster, Cluster: site.Name, Cloud: string(site.Cloud), Region: site.Region, Held: string(q.Held), From: q.From, Ready: q.Ready,
			Need: q.Need, Target: q.Target, Floor: q.Floor, Cap: q.Cap, Bound: q.Bound, Wait: q.Wait, Last: s.marginalOf(q.Last), Next: s.marginalOf(q.Next), Weight: float64(q.Weight) / 1000}
		if !site.PricedAt.IsZero() {
			at := site.PricedAt.UTC()
			part.PricedAt = &at
		}
		v.Parts = append(v.Parts, part)
	}
	for _, o := range p.Options {
		v.Options = append(v.Options, ServiceOption{Name: o.Name, Cluster: o.Site, Counts: append([]int{}, o.Counts...), Replicas: o.Replicas, Cost: moneyOrNil(o.Cost, currency), Delta: moneyOrNil(o.Delta, currency), WhyNot: o.WhyNot})
	}
	return v
}

func (s *Server) marginalOf(m *spread.Marginal) *ServiceMarginal {
	if m == nil {
		return nil
	}
	return &ServiceMarginal{Price: s.money(m.Price), Weighed: s.money(m.Weighed), Extra: s.money(m.Extra), Kind: string(m.Kind), Offering: PlannedOffering(m.Offering)}
}

// milli turns a share into thousandths.
func milli(share float64) int64 { return int64(math.Round(share * 1000)) }

// amount reads a decimal that may be left out.
func amount(text, field string) (*fleet.Money, error) {
	if text == "" {
		return nil, nil
	}
	m, err := fleet.ParseMoney(text)
	if err != nil {
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: field + " is no amount such as 0.05", Field: "body." + field, Err: err}
	}
	return &m, nil
}

func amountText(m *fleet.Money) string {
	if m == nil {
		return ""
	}
	return m.String()
}

func (d *ServiceDoc) service() (x store.Service, err error) {
	r := d.Rules
	x = store.Service{Name: d.Name, Mode: fleet.Mode(d.Mode), Rules: spread.Rules{Traffic: spread.Traffic(r.Traffic), HeadroomMilli: milli(r.Headroom), Regions: r.Regions, HorizonHours: r.HorizonHours,
		GainMilli: milli(r.Gain), DwellSec: r.DwellSec, WindowSec: r.WindowSec, StepMilli: milli(r.Step), PatienceSec: r.PatienceSec}}
	for _, c := range r.Clouds {
		x.Rules.Clouds = append(x.Rules.Clouds, fleet.Cloud(c))
	}
	if x.Rules.MoveCost, err = amount(r.MoveCost, "rules.move_cost"); err != nil {
		return x, err
	}
	for i, site := range d.Sites {
		at := fmt.Sprintf("sites[%d].rules.", i)
		one := store.ServiceSite{Workload: fleet.WorkloadID(site.WorkloadID), Rules: spread.SiteRules{Min: site.Rules.Min, Max: site.Rules.Max, MinShareMilli: milli(site.Rules.MinShare),
			MaxShareMilli: milli(site.Rules.MaxShare), EgressGBHour: site.Rules.EgressGBHour}}
		if one.Rules.EgressPrice, err = amount(site.Rules.EgressPrice, at+"egress_price"); err != nil {
			return x, err
		}
		if one.Rules.Penalty, err = amount(site.Rules.Penalty, at+"penalty"); err != nil {
			return x, err
		}
		var bad *fleet.Error
		if err := one.Rules.Validate(); errors.As(err, &bad) { // the room knows one site, the caller sent several
			bad.Field = "body." + at + strings.TrimPrefix(bad.Field, "body.sites.")
			return x, bad
		}
		x.Sites = append(x.Sites, one)
	}
	return x, nil
}

func serviceRulesOf(r spread.Rules) ServiceRules {
	out := ServiceRules{Traffic: string(r.Traffic), Headroom: float64(r.HeadroomMilli) / 1000, Regions: r.Regions, MoveCost: amountText(r.MoveCost), HorizonHours: r.HorizonHours, Gain: float64(r.GainMilli) / 1000,
		DwellSec: r.DwellSec, WindowSec: r.WindowSec, Step: float64(r.StepMilli) / 1000, PatienceSec: r.PatienceSec}
	for _, c := range r.Clouds {
		out.Clouds = append(out.Clouds, string(c))
	}
	return out
}

func siteRulesOf(r spread.SiteRules) ServiceSiteRules {
	return ServiceSiteRules{Min: r.Min, Max: r.Max, MinShare: float64(r.MinShareMilli) / 1000, MaxShare: float64(r.MaxShareMilli) / 1000, EgressGBHour: r.EgressGBHour, EgressPrice: amountText(r.EgressPrice), Penalty: amountText(r.Penalty)}
}
