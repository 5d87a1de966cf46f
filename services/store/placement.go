package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/market"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// Bounds of what one inventory says about rules.
const (
	maxPlacements   = 20_000
	maxLimits       = 20_000
	maxRequirements = 64
	maxRuleValues   = 256
	maxRuleTerms    = 64
)

// checkRules looks at everything that an inventory says about taints, placements and disruption limits.
func checkRules(inv *agentv1.Inventory) error {
	if len(inv.GetPlacements()) > maxPlacements {
		return tooMany("placements", len(inv.GetPlacements()), maxPlacements)
	}
	if len(inv.GetDisruptionLimits()) > maxLimits {
		return tooMany("disruption limits", len(inv.GetDisruptionLimits()), maxLimits)
	}
	for _, n := range inv.GetNodes() {
		if err := checkTexts(nil, n.GetProviderId()); err != nil {
			return err
		}
		if len(n.GetTaints()) > maxRequirements {
			return tooMany("taints on one node", len(n.GetTaints()), maxRequirements)
		}
		for _, t := range n.GetTaints() {
			if err := checkTexts(nil, t.GetKey(), t.GetValue(), t.GetEffect()); err != nil {
				return err
			}
		}
	}
	for _, p := range inv.GetPlacements() {
		if p.GetId() == 0 {
			return bad("a placement has no id")
		}
		if err := checkPlacement(p); err != nil {
			return err
		}
	}
	for _, l := range inv.GetDisruptionLimits() {
		if l.GetNamespace() == "" || l.GetName() == "" || min(l.GetAllowed(), l.GetHealthy(), l.GetWanted()) < 0 {
			return bad("a disruption limit has no name, or a count below zero")
		}
		if err := checkTexts(nil, l.GetNamespace(), l.GetName()); err != nil {
			return err
		}
		if err := checkRequirements(l.GetSelector()); err != nil {
			return err
		}
	}
	return nil
}

func checkPlacement(p *agentv1.Placement) error {
	for _, n := range []int{len(p.GetNodeTerms()), len(p.GetTolerations()), len(p.GetAffinity()), len(p.GetAntiAffinity()), len(p.GetSpread())} {
		if n > maxRuleTerms {
			return tooMany("rules of one pod", n, maxRuleTerms)
		}
	}
	lists := [][]*agentv1.NodeRequirement{p.GetSelector()}
	for _, t := range p.GetNodeTerms() {
		lists = append(lists, t.GetRequirements())
	}
	for _, t := range p.GetTolerations() {
		if err := checkTexts(nil, t.GetKey(), t.GetOperator(), t.GetValue(), t.GetEffect()); err != nil {
			return err
		}
	}
	for _, t := range append(slices.Clone(p.GetAffinity()), p.GetAntiAffinity()...) {
		if len(t.GetNamespaces()) > maxRuleValues {
			return tooMany("namespaces of one rule", len(t.GetNamespaces()), maxRuleValues)
		}
		if err := checkTexts(nil, append(slices.Clone(t.GetNamespaces()), t.GetTopology())...); err != nil {
			return err
		}
		lists = append(lists, t.GetSelector())
	}
	for _, s := range p.GetSpread() {
		if s.GetMaxSkew() < 1 {
			return bad("a spread of pods has a skew of %d", s.GetMaxSkew())
		}
		if err := checkTexts(nil, s.GetTopology()); err != nil {
			return err
		}
		lists = append(lists, s.GetSelector())
	}
	for _, l := range lists {
		if err := checkRequirements(l); err != nil {
			return err
		}
	}
	return nil
}

func checkRequirements(list []*agentv1.NodeRequirement) error {
	if len(list) > maxRequirements {
		return tooMany("requirements of one rule", len(list), maxRequirements)
	}
	for _, r := range list {
		if len(r.GetValues()) > maxRuleValues {
			return tooMany("values of one requirement", len(r.GetValues()), maxRuleValues)
		}
		if err := checkTexts(nil, append(slices.Clone(r.GetValues()), r.GetKey(), r.GetOperator())...); err != nil {
			return err
		}
	}
	return nil
}

// queuePlacements keeps rules once per cluster; a full inventory forgets those that no pod of it names. It comes before the pods.
func (s *Source) queuePlacements(b *pgx.Batch, tx *Tx, inv *agentv1.Inventory) {
	placements := unique(inv.GetPlacements(), func(p *agentv1.Placement) string { return fmt.Sprint(p.GetId()) })
	rows, ids := make([][]any, 0, len(placements)), make([]int64, 0, len(placements))
	for _, p := range placements {
		id := int64(p.GetId()) //nolint:gosec // the same 64 bits: a name, no number
		ids = append(ids, id)
		rows = append(rows, []any{tx.Tenant, s.Cluster, id, placementOf(p)})
	}
	queueRows(b, "INSERT INTO placement (tenant_id, cluster_id, id, rules)", "\nON CONFLICT (tenant_id, cluster_id, id) DO NOTHING", rows)
	if inv.GetSnapshot() {
		b.Queue(`DELETE FROM placement WHERE tenant_id = $1 AND cluster_id = $2 AND id <> ALL ($3)`, tx.Tenant, s.Cluster, ids)
	}
	if !inv.GetLimitsTold() {
		return
	}
	limits := unique(inv.GetDisruptionLimits(), func(l *agentv1.DisruptionLimit) string { return l.GetNamespace() + "/" + l.GetName() })
	rows, names := make([][]any, 0, len(limits)), make([]string, 0, len(limits))
	for _, l := range limits {
		names = append(names, l.GetNamespace()+"/"+l.GetName())
		rows = append(rows, []any{tx.Tenant, s.Cluster, l.GetNamespace(), l.GetName(), requirementsOf(l.GetSelector()), l.GetAllowed(), l.GetHealthy(), l.GetWanted()})
	}
	queueRows(b, "INSERT INTO disruption_limit (tenant_id, cluster_id, namespace, name, selector, allowed, healthy, wanted)", `
ON CONFLICT (tenant_id, cluster_id, namespace, name) DO UPDATE SET selector = excluded.selector, allowed = excluded.allowed, healthy = excluded.healthy, wanted = excluded.wanted
WHERE (disruption_limit.selector, disruption_limit.allowed, disruption_limit.healthy, disruption_limit.wanted) IS DISTINCT FROM (excluded.selector, excluded.allowed, excluded.healthy, excluded.wanted)`, rows)
	b.Queue(`DELETE FROM disruption_limit WHERE tenant_id = $1 AND cluster_id = $2 AND namespace || '/' || name <> ALL ($3)`, tx.Tenant, s.Cluster, names)
}

func requirementsOf(list []*agentv1.NodeRequirement) []capacity.Requirement {
	out := make([]capacity.Requirement, 0, len(list))
	for _, r := range list {
		out = append(out, capacity.Requirement{Key: r.GetKey(), Operator: r.GetOperator(), Values: r.GetValues()})
	}
	return out
}

func placementOf(p *agentv1.Placement) capacity.Placement {
	out := capacity.Placement{Selector: requirementsOf(p.GetSelector()), Incomplete: p.GetIncomplete()}
	for _, t := range p.GetNodeTerms() {
		out.NodeTerms = append(out.NodeTerms, requirementsOf(t.GetRequirements()))
	}
	for _, t := range p.GetTolerations() {
		out.Tolerations = append(out.Tolerations, capacity.Toleration{Key: t.GetKey(), Operator: t.GetOperator(), Value: t.GetValue(), Effect: t.GetEffect()})
	}
	terms := func(list []*agentv1.PodTerm) (out []capacity.PodTerm) {
		for _, t := range list {
			out = append(out, capacity.PodTerm{Topology: t.GetTopology(), Selector: requirementsOf(t.GetSelector()), Namespaces: t.GetNamespaces(), AllNamespaces: t.GetAllNamespaces()})
		}
		return out
	}
	out.Affinity, out.AntiAffinity = terms(p.GetAffinity()), terms(p.GetAntiAffinity())
	for _, s := range p.GetSpread() {
		out.Spread = append(out.Spread, capacity.TopologySpread{Topology: s.GetTopology(), MaxSkew: int64(s.GetMaxSkew()), Soft: s.GetSoft(), Selector: requirementsOf(s.GetSelector())})
	}
	return out
}

// taintsOf is nil where the agent tells no taints, which is not the same as none.
func taintsOf(n *agentv1.Node) any {
	if !n.GetTaintsTold() {
		return nil
	}
	out := make([]capacity.Taint, 0, len(n.GetTaints()))
	for _, t := range n.GetTaints() {
		out = append(out, capacity.Taint{Key: t.GetKey(), Value: t.GetValue(), Effect: t.GetEffect()})
	}
	return out
}

// rules reads what the inventory says about where pods may run, and puts it into the input.
func (c *capacityInput) rules(ctx context.Context, tx *Tx) error {
	told := &capacity.Told{PodLabels: c.labels, NodeLabels: make([]map[string]string, len(c.in.Nodes)), NodeTaints: make([][]capacity.Taint, len(c.in.Nodes)), NodeDrivers: make([]string, len(c.in.Nodes)), Placements: make([]*capacity.Placement, len(c.in.Pods))}
	node, pod := map[string]int{}, map[string][]int{}
	for i := range c.in.Nodes {
		node[c.in.Nodes[i].UID] = i
	}
	first := map[string]int{} // a pod that is only planned has the rules of its workload's pods
	for i := range c.in.Pods {
		if p := &c.in.Pods[i]; p.UID != "" {
			pod[p.UID] = append(pod[p.UID], i)
			if _, ok := first[p.Workload]; !ok && p.Workload != "" {
				first[p.Workload] = i
			}
		}
	}
	known := map[int64]*capacity.Placement{}
	b := &pgx.Batch{}
	b.Queue(`SELECT uid, labels, coalesce(taints, '[]'), gpu_driver FROM node WHERE tenant_id = $1 AND cluster_id = $2 AND ended_at IS NULL`, tx.Tenant, c.in.Cluster).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var uid string
			var labels map[string]string
			var taints []capacity.Taint
			var driver string
			if err := rows.Scan(&uid, &labels, &taints, &driver); err != nil {
				return err
			}
			if i, ok := node[uid]; ok {
				told.NodeLabels[i], told.NodeTaints[i], told.NodeDrivers[i] = labels, taints, driver
			}
		}
		return rows.Err()
	})
	b.Queue(`SELECT id, rules FROM placement WHERE tenant_id = $1 AND cluster_id = $2 LIMIT $3`, tx.Tenant, c.in.Cluster, 4*maxPlacements).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var id int64
			var doc []byte
			if err := rows.Scan(&id, &doc); err != nil {
				return err
			}
			p := &capacity.Placement{}
			if err := json.Unmarshal(doc, p); err != nil {
				return err
			}
			known[id] = p
		}
		return rows.Err()
	})
	b.Queue(`SELECT uid, placement FROM pod WHERE tenant_id = $1 AND cluster_id = $2 AND ended_at IS NULL AND placement <> 0`, tx.Tenant, c.in.Cluster).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var uid string
			var id int64
			if err := rows.Scan(&uid, &id); err != nil {
				return err
			}
			for _, i := range pod[uid] {
				told.Placements[i] = known[id]
			}
		}
		return rows.Err()
	})
	b.Queue(`SELECT namespace, name, selector, allowed FROM disruption_limit WHERE tenant_id = $1 AND cluster_id = $2 ORDER BY namespace, name`, tx.Tenant, c.in.Cluster).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var l capacity.DisruptionLimit
			if err := rows.Scan(&l.Namespace, &l.Name, &l.Selector, &l.Allowed); err != nil {
				return err
			}
			told.Limits = append(told.Limits, l)
		}
		return rows.Err()
	})
	if err := tx.pgx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("load rules of pods: %w", err)
	}
	for i := range c.in.Pods {
		p := &c.in.Pods[i]
		if like, ok := first[p.Workload]; ok && p.Planned {
			told.Placements[i], told.PodLabels[i] = told.Placements[like], told.PodLabels[like]
		}
	}
	notes, err := c.gentle(ctx, tx)
	if err != nil {
		return err
	}
	capacity.Rule(&c.in, told)
	capacity.Fit(&c.in, told, notes, market.ComputeCapability)
	return nil
}
