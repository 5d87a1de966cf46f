package jobs

import (
	"context"
	"fmt"
	"testing"
	"time"

	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// Thirty days of a cluster whose machines come and go, with a reservation that is bought up front in the middle of the month, a plan and committed use:
// every hour adds up, and the month as FOCUS breaks no rule, is the ledger's total, and has as bought what is used and unused.
func TestAMonthExportsWithoutABrokenRule(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a load test")
	}
	const days = 30
	e := newEstate(t)
	s := &story{chapters: []int{days*24*60 + 30}, commitments: []commitment.Commitment{
		{Ref: "ri", Kind: commitment.KindRegionalRI, Region: "us-east-1", InstanceType: "g5.xlarge", Quantity: 2000, Upfront: usd(t, "1234.567890123"), Recurring: usd(t, "0.123456789"), Owner: "team0",
			Term: fleet.Interval{From: start.Add(9*24*time.Hour + 17*time.Minute), To: start.Add(19*24*time.Hour + 43*time.Minute)}},
		{Ref: "sp", Kind: commitment.KindComputeSP, Spend: usd(t, "6.70"), DiscountPPM: 280_000, Owner: "team1", Term: fleet.Interval{From: start.AddDate(0, 0, 3), To: start.AddDate(1, 0, 0)}},
		{Ref: "cud", Kind: commitment.KindGCPResource, Region: "us-central1", Family: "n2", Resource: commitment.ResourceCPU, Quantity: 12_000, Recurring: usd(t, "0.21"), Term: fleet.Interval{From: start.AddDate(0, -1, 0), To: start.AddDate(1, 0, 0)}},
	}}
	for i := range days * 3 { // three machines come a day, and each stays for a day and a bit
		n := storyMachines[i%len(storyMachines)]
		n.cluster, n.uid, n.purchase = i%2, fmt.Sprintf("n%03d", i), fleet.PurchaseOnDemand
		if i%4 == 1 && n.cloud != fleet.CloudOnPrem {
			n.purchase = fleet.PurchaseSpot
		}
		n.from = start.Add(time.Duration(i) * 8 * time.Hour).Add(time.Duration(i*37) * time.Second)
		n.ready, n.to = n.from.Add(4*time.Minute), n.from.Add(27*time.Hour+time.Duration(i*977)*time.Millisecond)
		s.nodes = append(s.nodes, n)
		for j := range 3 {
			p := storyPod{cluster: n.cluster, uid: fmt.Sprintf("p%03d-%d", i, j), node: n.uid, workload: (i + j) % storyWorkloads, cpu: n.cpu / 5, mem: n.mem / 7, asked: "[]", from: n.from.Add(time.Duration(5+j) * time.Minute), to: n.to.Add(-time.Hour)}
			if len(n.shares) > 0 {
				p.asked = n.shares[j%len(n.shares)]
			}
			s.pods = append(s.pods, p)
		}
	}
	l := e.live(s)
	l.what = "a month"
	l.tell(0)
	l.cost()
	l.holds()
	rows := l.exportOf(start, start.AddDate(0, 0, days))
	if hours := l.number(`SELECT count(*) FROM cost_hour WHERE tenant_id = $1 AND state = 'closed'`, l.tenant); hours < days*24*2 || rows < 10_000 {
		t.Errorf("%d hours and %d rows", hours, rows)
	}
	// Over the reservation's whole term, what was billed is what it cost.
	var billed, effective fleet.Money
	l.tx(func(ctx context.Context, tx *store.Tx) error {
		return tx.PGX().QueryRow(ctx, `SELECT sum(p.upfront_nano + p.recurring_nano)::bigint, sum(p.bought_nano)::bigint FROM commitment_purchase p JOIN commitment c ON c.tenant_id = p.tenant_id AND c.id = p.commitment_id WHERE p.tenant_id = $1 AND c.ref = 'ri'`,
			l.tenant).Scan(&billed, &effective)
	})
	if want := s.commitments[0].Bought(s.commitments[0].Term); billed != effective || billed != want {
		t.Errorf("the reservation's term was billed %s, effective %s, costs %s", billed, effective, want)
	}
	t.Logf("%d rows of FOCUS, no rule broken; the reservation cost %s", rows, billed)
}
