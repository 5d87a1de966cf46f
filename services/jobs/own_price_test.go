package jobs

import (
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
)

// A price that a tenant sets is what its machine costs, with GPUs and without; it is split as any other price of such a machine is.
func TestAPriceOfOnesOwnIsTheMachinesWholePrice(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	e.node("listed", "p5.48xlarge", fleet.PurchaseOnDemand, start)
	e.node("gpus", "p5.48xlarge", fleet.PurchaseOnDemand, start.Add(time.Hour))
	e.node("plain", "m5.large", fleet.PurchaseOnDemand, start.Add(time.Hour))
	e.exec(`UPDATE node SET ended_at = $2 WHERE tenant_id = $1 AND uid = 'listed'`, e.tenant, start.Add(time.Hour))
	e.dataAt(start.Add(80 * time.Minute))
	e.catchUp() // the first hour closes at the list price
	e.setPrice("p5.48xlarge", "20.325")
	e.setPrice("m5.large", "2")
	e.dataAt(start.Add(2*time.Hour + 30*time.Minute))
	e.catchUp()
	sum := func(hour int, resource string) fleet.Money {
		return fleet.Money(e.number(`SELECT coalesce(sum(amount_nano), 0)::bigint FROM cost_hour_line WHERE tenant_id = $1 AND hour = $2 AND ($3 = '' OR resource = $3)`, e.tenant, start.Add(time.Duration(hour)*time.Hour), resource))
	}
	if got := sum(1, ""); got != usd(t, "22.325") {
		t.Errorf("both machines cost %s, want 20.325 and 2", got)
	}
	it, _ := market.Catalogue().InstanceType(fleet.CloudAWS, "p5.48xlarge")
	_, _, want := market.Catalogue().Weights(fleet.CloudAWS).Split(usd(t, "20.325"), it.CPUMilli, it.MemMiB, it.GPUModel, it.GPUCount)
	if got := sum(1, "gpu"); got != want || got < usd(t, "10") {
		t.Errorf("its GPUs are %s of the set price, want %s", got, want)
	}
	if listed, own := sum(0, "gpu").Float()/sum(0, "").Float(), want.Float()/20.325; listed-own > 1e-6 || own-listed > 1e-6 {
		t.Errorf("GPUs are %.4f of the list price and %.4f of the set one", listed, own)
	}
}
