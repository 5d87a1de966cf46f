package jobs

import (
	"context"
	"testing"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// A region that was never priced is held against the same machine elsewhere: ten times off is not believed, and the machine stays unpriced there.
func TestAFirstPriceOfARegionIsHeldAgainstOtherRegions(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	s.account = s.add("far", "us-west-2")
	s.source.prices = map[string]map[string]string{"us-west-2": {"p5.48xlarge": "550.4", "g5.xlarge": "1.006", "m5.large": "0.0096"}}
	if done := s.must(); done.OnDemandChanged != 1 || done.Doubted != 2 {
		t.Errorf("%+v", done)
	}
	books := store.NewPriceBook(s.db, market.Catalogue())
	if err := books.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	for name, priced := range map[string]bool{"p5.48xlarge": false, "g5.xlarge": true, "m5.large": false} {
		p := books.Book().Price(fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-west-2", InstanceType: name, Purchase: fleet.PurchaseOnDemand})
		if (p.Effective != nil) != priced {
			t.Errorf("%s costs %v", name, p.Effective)
		}
	}
}
