package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/optimizer"
	"plimsoll.dev/services/spread"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

const (
	// servicePriceValid is how old the capacity plan may be whose prices are used.
	servicePriceValid = 15 * time.Minute
	// serviceNeedValid is how old the decision may be that says what a workload's signals ask for, in reports of the cluster.
	serviceNeedValid = 5 * time.Minute
	// lastReports are looked at for a workload's counts.
	lastReports = 20
)

// ServiceWork is what a service's plan is made from. The prices are still to be worked out, from what each cluster's newest capacity plan saw.
type ServiceWork struct {
	Service Service
	Input   spread.Input
	// Machines of each site's cluster, in the order of Input.Sites; nil: none are known, or too long ago.
	Machines []*capacity.Input
}

// LoadServiceWork reads it. nil: the service is off.
func LoadServiceWork(ctx context.Context, tx *Tx, id string) (*ServiceWork, error) {
	s, err := ServiceByID(ctx, tx, id)
	if err != nil || s.Mode == ModeOff {
		return nil, err
	}
	w := &ServiceWork{Service: s, Input: spread.Input{Service: s.Name, Now: tx.Now.UTC(), Mode: s.Mode, Rules: s.Rules, Memory: s.Memory, Sites: []spread.Site{}}}
	machines := map[fleet.ClusterID]*capacity.Input{}
	for _, x := range s.Sites {
		if x.Twice {
			continue
		}
		if len(w.Input.Sites) >= spread.MaxSites {
			return nil, fleet.Errorf(fleet.CodeTooLarge, "service %s has workloads in more than %d clusters", s.Name, spread.MaxSites)
		}
		site, err := loadSite(ctx, tx, x)
		if err != nil {
			return nil, err
		}
		if machines[x.Cluster], err = machinesOf(ctx, tx, x.Cluster, &site); err != nil {
			return nil, err
		}
		w.Input.Sites = append(w.Input.Sites, site)
	}
	spread.SortSites(w.Input.Sites)
	for _, site := range w.Input.Sites {
		w.Machines = append(w.Machines, machines[site.Cluster])
	}
	return w, nil
}

// loadSite reads how a workload of the service is, and whether it may be changed.
func loadSite(ctx context.Context, tx *Tx, x ServiceSite) (spread.Site, error) {
	site := spread.Site{Workload: x.Workload, Cluster: x.Cluster, Name: x.ClusterName, Key: x.Key, Rules: x.Rules, Steps: []spread.Step{}}
	var mode fleet.Mode
	var frozen, scalable bool
	var lastSeen, dataAt *time.Time
	var speed float64
	var limits AgentLimits
	var document *string
	var memory []byte
	err := tx.pgx.QueryRow(ctx, `
SELECT c.mode, c.frozen, c.last_seen_at, c.data_at, c.clock_speed, c.agent_limits, w.replicas, w.scalable, p.document, m.memory,
  (SELECT count(*)::int FROM pod d WHERE d.tenant_id = w.tenant_id AND d.cluster_id = w.cluster_id AND d.workload_key = w.key AND d.ended_at IS NULL AND d.phase = 'ready')
FROM workload w JOIN cluster c ON c.tenant_id = w.tenant_id AND c.id = w.cluster_id
LEFT JOIN LATERAL (SELECT document FROM policy p WHERE p.tenant_id = w.tenant_id AND p.workload_id = w.id ORDER BY version DESC LIMIT 1) p ON true
LEFT JOIN planner_memory m ON m.tenant_id = w.tenant_id AND m.workload_id = w.id
WHERE w.tenant_id = $1 AND w.id = $2`, tx.Tenant, x.Workload).Scan(&mode, &frozen, &lastSeen, &dataAt, &speed, &limits, &site.Replicas, &scalable, &document, &memory, &site.Ready)
	if err != nil {
		return site, fmt.Errorf("load site %s: %w", x.Key, err)
	}
	var policy *optimizer.Policy
	if document != nil && scalable {
		if p, findings := tx.policies.parse(*document); !optimizer.HasErrors(findings) {
			full := p.WithDefaults()
			policy, site.Min, site.Max = &full, full.Min, full.Max
		}
	}
	var m optimizer.Memory
	if memory != nil {
		if err := json.Unmarshal(memory, &m); err != nil {
			return site, fmt.Errorf("read planner memory of %s: %w", x.Workload, err)
		}
	}
	if dataAt != nil {
		if err := countsOf(ctx, tx, &site, *dataAt); err != nil {
			return site, err
		}
	}
	site.Replicas, site.Ready = max(site.Replicas, 0), min(site.Ready, max(site.Replicas, 0))
	fresh := dataAt != nil && m.LastAt != nil && dataAt.Sub(*m.LastAt) <= time.Duration(float64(serviceNeedValid)*max(speed, 1)) && len(m.Recommendations) > 0
	if fresh {
		need := min(max(m.Recommendations[len(m.Recommendations)-1].Needed, 0), spread.MaxDemand)
		site.Need = &need
	}
	switch allowed := limits.allow(mode); {
	case x.Gone:
		site.Held = spread.HeldGone
	case lastSeen == nil || dataAt == nil || tx.Now.Sub(*lastSeen) > ServiceSilent:
		site.Held = spread.HeldSilent
	case policy == nil:
		site.Held = spread.HeldPolicy
	case frozen || limits.Frozen:
		site.Held = spread.HeldFrozen
	case site.Replicas == 0 && site.Min > 0:
		site.Held = spread.HeldZero
	case !fresh || blind(m.LastBinding):
		site.Held = spread.HeldSignals
	case m.LastBinding == optimizer.ReasonConflict:
		site.Held = spread.HeldConflict
	case fleet.Stricter(allowed, policy.Mode) != fleet.ModeEnforce:
		site.Held = spread.HeldMode
	}
	return site, nil
}

// blind tells whether a decision could not believe the workload's signals.
func blind(c optimizer.ReasonCode) bool {
	switch c {
	case optimizer.ReasonNoSignal, optimizer.ReasonPartialSignal, optimizer.ReasonInvalidPolicy, optimizer.ReasonNotScalable:
		return true
	}
	return false
}

// countsOf takes a workload's counts from the newest of the cluster's reports that tells them.
func countsOf(ctx context.Context, tx *Tx, site *spread.Site, dataAt time.Time) error {
	rows, err := tx.pgx.Query(ctx, `SELECT body FROM observation WHERE tenant_id = $1 AND cluster_id = $2 AND at >= $3 ORDER BY at DESC, epoch DESC, seq DESC LIMIT $4`,
		tx.Tenant, site.Cluster, dataAt.Add(-SignalWindow), lastReports)
	if err != nil {
		return fmt.Errorf("load observations: %w", err)
	}
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return fmt.Errorf("load observations: %w", err)
	}
	for _, body := range bodies {
		var o agentv1.Observation
		if err := proto.Unmarshal(body, &o); err != nil {
			return fmt.Errorf("read observation: %w", err)
		}
		for _, w := range o.GetWorkloads() {
			if w.GetWorkload() == site.Key {
				site.Replicas, site.Ready = int(w.GetReplicas()), int(w.GetReady())
				return nil
			}
		}
	}
	return nil
}

// machinesOf reads what the cluster's newest capacity plan was made from, and where most of its machines are.
func machinesOf(ctx context.Context, tx *Tx, cluster fleet.ClusterID, site *spread.Site) (*capacity.Input, error) {
	h, _, err := CapacityPlan(ctx, tx, cluster, "")
	if IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	in, err := CapacityPlanInput(ctx, tx, cluster, h.ID)
	if err != nil {
		return nil, err
	}
	type place struct {
		cloud  fleet.Cloud
		region string
	}
	count, best := map[place]int{}, place{}
	for i := range in.Nodes {
		p := place{in.Nodes[i].Offering.Cloud, in.Nodes[i].Offering.Region}
		count[p]++
		if n, m := count[p], count[best]; best == (place{}) || n > m || n == m && cmp.Or(cmp.Compare(p.cloud, best.cloud), cmp.Compare(p.region, best.region)) < 0 {
			best = p
		}
	}
	site.Cloud, site.Region, site.PricedAt = best.cloud, best.region, h.CheckedAt.UTC()
	if tx.Now.Sub(h.CheckedAt) > servicePriceValid {
		return nil, nil
	}
	return &in, nil
}
