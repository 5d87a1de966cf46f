package collect

import (
	"regexp"
	"slices"
	"strings"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	corev1 "k8s.io/api/core/v1"
)

// failure is an attempt to get a machine that found none, with what is known of what was asked for.
type failure struct {
	object, workload, reason, message string

	claim  *nodeClaim        // Karpenter's
	wanted map[string]string // labels that the node would have had
}

// failure reads an event. The caller holds mu.
func (l *supplyLog) failure(v *view, e *corev1.Event) failure {
	f := failure{reason: e.Reason, message: e.Message}
	o := e.InvolvedObject
	f.object = o.Kind + "/" + o.Name
	switch o.Kind {
	case "NodeClaim":
		pool := o.Name
		if f.claim = l.claims[o.Name]; f.claim != nil {
			pool = f.claim.pool()
		} else if i := strings.LastIndexByte(pool, '-'); i > 0 { // Karpenter names a claim after its pool
			pool = pool[:i]
		}
		f.object = "NodePool/" + pool
	case "Pod":
		f.object = "Pod/" + o.Namespace + "/" + o.Name
		if p := v.byName[o.Namespace+"/"+o.Name]; p != nil {
			f.workload, f.wanted = v.podWorkload[p], p.Spec.NodeSelector
			if pool := firstLabel(f.wanted, poolLabels); pool != "" {
				f.object = "NodePool/" + pool
			}
		}
	}
	if group := groupName.FindStringSubmatch(e.Message); group != nil {
		f.object = "NodePool/" + poolOfGroup(group[1], v.nodes)
	}
	return f
}

var groupName = regexp.MustCompile(`[Gg]roup (\S+?)(?:: |,|$)`)

// poolOfGroup is the pool of the cluster that the name of a cloud's group of machines has in it: "eks-gpu-5ac0" is that of
// the pool gpu. Without one it is the last part of the name.
func poolOfGroup(group string, nodes []*corev1.Node) string {
	flat := "-" + strings.NewReplacer("/", "-", "_", "-").Replace(group) + "-"
	best := ""
	for _, n := range nodes {
		pool := firstLabel(n.Labels, poolLabels)
		if len(pool) > len(best) && strings.Contains(flat, "-"+strings.ReplaceAll(pool, "_", "-")+"-") {
			best = pool
		}
	}
	if best == "" {
		best = group[strings.LastIndexByte(group, '/')+1:]
	}
	return best
}

// What a sentence can name: types, zones and ways of buying.
var (
	typeName = regexp.MustCompile(`\b(?:[a-z]{1,3}\d[a-z0-9-]{0,12}\.(?:nano|micro|small|medium|\d{0,3}x?large|metal(?:-\d+xl)?)|` +
		`(?:[acegmnt]\d{1,2}[a-z]{0,2})-(?:standard|highmem|highcpu|highgpu|megagpu|ultragpu|ultramem|megamem|medium|small|micro)(?:-\d{1,4}g?)?|Standard_[A-Za-z0-9_]{1,60})\b`)
	zoneName = regexp.MustCompile(`\b(?:[a-z]{2}(?:-[a-z]+){1,2}-\d[a-f]|[a-z]+-[a-z]+\d{1,2}-[a-f])\b`)
	spotName = regexp.MustCompile(`(?i)\b(spot|preemptible)\b`)
	fullName = regexp.MustCompile(`(?i)\bon[- ]demand\b`)
	// elsewhere begins AWS's advice where else to look, which is no failure there.
	elsewhere = regexp.MustCompile(`You can currently get`)
)

// tellFailure tells a failure as "no TYPE PURCHASE in ZONE", once for each offering that it surely is about: those of the
// sentence, else the few that were asked for. What is not known is left out.
func tellFailure(tell func(*agentv1.Event), f failure) {
	sentence := f.message
	if i := elsewhere.FindStringIndex(sentence); i != nil {
		sentence = sentence[:i[0]]
	}
	named := unique(typeName.FindAllString(sentence, -1))
	zones := unique(zoneName.FindAllString(sentence, -1))
	purchase := ""
	switch {
	case spotName.MatchString(sentence):
		purchase = "spot"
	case fullName.MatchString(sentence):
		purchase = "on-demand"
	}
	if c := f.claim; c != nil {
		named, zones = orElse(named, c.values(corev1.LabelInstanceTypeStable)), orElse(zones, c.values(corev1.LabelTopologyZone))
		if ways := c.values("karpenter.sh/capacity-type"); purchase == "" && len(ways) == 1 { // of two only one was tried
			purchase = ways[0]
		}
	}
	if f.wanted != nil {
		if x := firstLabel(f.wanted, []string{corev1.LabelInstanceTypeStable, corev1.LabelInstanceType}); x != "" {
			named = orElse(named, []string{x})
		}
		if x := firstLabel(f.wanted, []string{corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone}); x != "" {
			zones = orElse(zones, []string{x})
		}
		if purchase == "" && purchaseOf(f.wanted) == "spot" {
			purchase = "spot"
		}
	}
	if len(named) > maxSupplyOfferings || len(named)*len(zones) > maxSupplyOfferings { // which of them were tried, nobody says
		named = nil
	}
	if len(zones) > maxSupplyOfferings {
		zones = nil
	}
	if len(named) == 0 {
		named = []string{""}
	}
	if len(zones) == 0 {
		zones = []string{""}
	}
	for _, t := range named {
		for _, z := range zones {
			message := "no " + strings.TrimSpace(orWord(t, "machine")+" "+purchase)
			if z != "" {
				message += " in " + z
			}
			tell(&agentv1.Event{Kind: "capacity_failure", Object: f.object, Workload: f.workload, Reason: stockOutReason(f), Message: message})
		}
	}
}

// cloudCodes are the clouds' own words for a stock-out, which say more than the autoscaler's.
var cloudCodes = regexp.MustCompile(`InsufficientInstanceCapacity|InsufficientReservedInstanceCapacity|UnfulfillableCapacity|ZONE_RESOURCE_POOL_EXHAUSTED(?:_WITH_DETAILS)?|` +
	`ZonalAllocationFailed|OverconstrainedZonalAllocationRequest|AllocationFailed|SkuNotAvailable`)

func stockOutReason(f failure) string {
	if code := cloudCodes.FindString(f.message); code != "" {
		return code
	}
	return f.reason
}

func unique(words []string) []string {
	slices.Sort(words)
	return slices.Compact(words)
}

func orElse(a, b []string) []string {
	if len(a) > 0 {
		return a
	}
	return unique(slices.Clone(b))
}

func orWord(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
