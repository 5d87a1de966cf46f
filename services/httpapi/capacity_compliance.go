package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/store"
)

// NodeComplianceList is how a cluster's machines stand against its capacity policy.
type NodeComplianceList struct {
	At        *time.Time       `json:"at" doc:"data time; null: the cluster never reported"`
	Version   int              `json:"policy_version" doc:"of the cluster's own policy; 0: it never had one"`
	Default   int              `json:"default_version" doc:"of the tenant's default where that holds; 0 with policy_version 0: nothing is asked of machines"`
	Server    string           `json:"kubernetes_version" doc:"of the API server, which kubelets are held against; empty: not told"`
	Checked   int              `json:"checked" doc:"machines, without those of the control plane"`
	Breaking  int              `json:"breaking" doc:"machines with findings"`
	Unknown   int              `json:"unknown" doc:"machines without findings of which some rule could not be checked"`
	Items     []NodeCompliance `json:"items" doc:"machines with findings or rules that could not be checked, findings first, by name, at most 2000"`
	Truncated bool             `json:"truncated"`
}

// NodeCompliance is what was found on one machine.
type NodeCompliance struct {
	Node      string          `json:"node"`
	Pool      string          `json:"pool"`
	Offering  PlannedOffering `json:"offering"`
	Findings  []NodeFinding   `json:"findings"`
	Unchecked []string        `json:"unchecked" doc:"rules that nobody can tell about: type, zone, taint, driver, kubelet, pool_taint"`
}

// NodeFinding is a rule that a machine does not obey.
type NodeFinding struct {
	Code string `json:"code" enum:"type,zone,spot,age,label,taint,driver,driver_differs,kubelet_old,kubelet_new,pool_label,pool_taint,startup_taint,pool_age"`
	Want string `json:"want"`
	Got  string `json:"got" doc:"empty: it has none"`
}

func (s *Server) registerCompliance() {
	op(s, huma.Operation{OperationID: "list-node-compliance", Method: http.MethodGet, Path: "/api/v1/clusters/{id}/node-compliance", Summary: "Machines that do not obey the cluster's capacity policy, and why", Tags: []string{"capacity"}, Errors: []int{http.StatusNotFound},
		Description: "What may be bought (types, zones, Spot) and what the policy's node_rules ask of machines; and kubelets that are newer than the API server, or more than three minor versions older. It reports and alerts; no machine is drained because of it."}, auth.RoleViewer, s.listNodeCompliance)
}

func (s *Server) listNodeCompliance(ctx context.Context, p auth.Principal, q *clusterOnly) (*struct{ Body NodeComplianceList }, error) {
	out := &struct{ Body NodeComplianceList }{NodeComplianceList{Items: []NodeCompliance{}}}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		c, err := store.NodeCompliance(ctx, tx, q.ID)
		if err != nil {
			return err
		}
		out.Body.At, out.Body.Version, out.Body.Default, out.Body.Server = c.At, c.Version, c.Default, c.Server
		for _, findings := range []bool{true, false} {
			for _, n := range c.Nodes {
				if n.Exempt || (len(n.Findings) > 0) != findings {
					continue
				}
				out.Body.Checked++
				switch {
				case findings:
					out.Body.Breaking++
				case len(n.Unchecked) == 0:
					continue
				default:
					out.Body.Unknown++
				}
				if len(out.Body.Items) == maxMapNodes {
					out.Body.Truncated = true
					continue
				}
				v := NodeCompliance{Node: n.Name, Pool: n.Pool, Offering: offeringView(n.Offering), Findings: []NodeFinding{}, Unchecked: n.Unchecked}
				for _, f := range n.Findings {
					v.Findings = append(v.Findings, NodeFinding(f))
				}
				out.Body.Items = append(out.Body.Items, v)
			}
		}
		return nil
	})
	return out, err
}
