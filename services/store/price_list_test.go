package store_test

import (
	"context"
	"testing"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// What a cloud tells of a machine is in the book after a reload; what it does not tell stays unknown, and is never none.
func TestTraitsThatACloudToldAreInTheBook(t *testing.T) {
	t.Parallel()
	db, _ := open(t)
	ctx := context.Background()
	n := func(v int64) *int64 { return &v }
	size := func(name string) fleet.InstanceType {
		return fleet.InstanceType{Cloud: fleet.CloudAWS, Name: name, Arch: "amd64", CPUMilli: 2000, MemMiB: 8192}
	}
	told := market.Machine{InstanceType: size("zz9.told"), Traits: market.Traits{NetworkMbps: n(2500), LocalDiskGiB: n(0), Fabric: market.FabricEFA, FabricGbps: n(2), AddressPods: n(29)}}
	silent := market.Machine{InstanceType: size("zz9.silent")}
	err := db.Global(ctx, func(tx *store.Tx) error {
		if err := store.SaveMachineTypes(ctx, tx, []store.MachineType{{Machine: told}, {Machine: silent}}); err != nil {
			return err
		}
		return store.SavePriceSource(ctx, tx, store.PriceSource{Cloud: fleet.CloudAWS, Region: "us-east-1", Kind: "on_demand", Source: "test"})
	})
	if err != nil {
		t.Fatal(err)
	}
	book := store.NewPriceBook(db, market.Catalogue())
	if err := book.Reload(ctx); err != nil {
		t.Fatal(err)
	}
	got, ok := book.Book().Machine(fleet.CloudAWS, "zz9.told")
	if !ok || got.NetworkMbps == nil || *got.NetworkMbps != 2500 || got.LocalDiskGiB == nil || *got.LocalDiskGiB != 0 || got.Fabric != market.FabricEFA || got.FabricGbps == nil || got.AddressPods == nil || *got.AddressPods != 29 {
		t.Errorf("told: %+v, %t", got, ok)
	}
	if a := got.Allocatable(); a.MemMiB == nil || *a.MemMiB != 8192-255-11*29-100 {
		t.Errorf("allocatable: %+v", a)
	}
	if got, ok := book.Book().Machine(fleet.CloudAWS, "zz9.silent"); !ok || got.Traits != (market.Traits{}) {
		t.Errorf("silent: %+v, %t", got, ok)
	}
}
