package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// Instance is a type of machine in the region where it is cheapest among those asked for.
type Instance struct {
	Cloud        fleet.Cloud    `json:"cloud"`
	Name         string         `json:"name"`
	Arch         string         `json:"arch"`
	CPUMilli     int64          `json:"cpu_milli"`
	MemMiB       int64          `json:"mem_mib"`
	GPUModel     fleet.GPUModel `json:"gpu_model,omitempty"`
	GPUCount     int            `json:"gpu_count"`
	GPUMemoryMiB int64          `json:"gpu_memory_mib" doc:"of one GPU"`
	Region       string         `json:"region"`
	OnDemand     *Money         `json:"on_demand" doc:"per hour; null: unknown"`
	Spot         *Money         `json:"spot" doc:"per hour; null: unknown"`
	PerGPU       *Money         `json:"per_gpu" doc:"the price that was sorted by, per GPU and hour; null: no GPU, or unknown"`
	Source       string         `json:"source" doc:"where the price came from, with its date; empty: no price is known"`

	NetworkMbps  *int64        `json:"network_mbps" doc:"AWS: what it always has; Azure and Google: the most it is sold with; null: unknown"`
	LocalDiskGiB *int64        `json:"local_disk_gib" doc:"NVMe in the machine; 0: none; null: unknown"`
	GPULink      market.Link   `json:"gpu_link" enum:",none,pcie,nvlink,nvswitch,infinity_fabric" doc:"how the GPUs of the machine reach each other; none: one GPU or no GPU; empty: unknown"`
	GPULinkGBps  *int64        `json:"gpu_link_gbyte_s" doc:"gigabytes a second of one GPU, both directions together; null: unknown"`
	Fabric       market.Fabric `json:"fabric" enum:",none,efa,infiniband,gpudirect" doc:"how machines reach each other without their processors; none: the network only; empty: unknown"`
	FabricGbps   *int64        `json:"fabric_gbps" doc:"gigabits a second of the machine; null: unknown"`
	MIG          *bool         `json:"mig" doc:"whether its GPUs can be split; null: unknown, or no GPU"`
	MIGProfiles  []MIGProfile  `json:"mig_profiles"`
	Allocatable  Allocatable   `json:"allocatable"`
	Sold         int           `json:"regions_sold" doc:"regions where the type is known to be sold"`
	Priced       int           `json:"regions_priced" doc:"of these, with a known on-demand price"`
	Doubts       []PriceDoubt  `json:"doubts" doc:"prices of the type that were not believed, in the regions asked for; they are not used"`
}

// MIGProfile is a way to cut a part out of a GPU.
type MIGProfile struct {
	Name string `json:"name" example:"1g.10gb"`
	Most int    `json:"most" doc:"at once on one GPU"`
}

// Allocatable is an estimate of what a node leaves to pods.
type Allocatable struct {
	CPUMilli *int64 `json:"cpu_milli" doc:"null: unknown"`
	MemMiB   *int64 `json:"mem_mib" doc:"null: unknown; what firmware and kernel keep is not taken off"`
	MaxPods  *int64 `json:"max_pods" doc:"null: unknown"`
	Rule     string `json:"rule" enum:",eks,aks,gke" doc:"whose published reservations; empty: none"`
}

// PriceDoubt is a price in quarantine.
type PriceDoubt struct {
	Region   string         `json:"region"`
	Purchase fleet.Purchase `json:"purchase" enum:"on_demand,spot"`
	Hour     Money          `json:"hour" doc:"as it was listed"`
	Expected Money          `json:"expected" doc:"about what it was held against"`
	Reason   string         `json:"reason" enum:"above_on_demand,off_on_demand,off_peers" doc:"against on demand, or against the same type in other regions"`
}

// CatalogCoverage says where a cloud's machines have a price.
type CatalogCoverage struct {
	Cloud    fleet.Cloud `json:"cloud"`
	Priced   []string    `json:"priced" doc:"regions with on-demand prices"`
	Unpriced []string    `json:"unpriced" doc:"regions that sell machines at prices that are not known"`
}

// CatalogSource says where figures of the catalogue come from.
type CatalogSource struct {
	Cloud   fleet.Cloud `json:"cloud"`
	Kind    string      `json:"kind" enum:"types,on_demand,spot,traits,network,pods,offered"`
	Name    string      `json:"name"`
	Date    string      `json:"date" format:"date"`
	Licence string      `json:"licence"`
	Origin  string      `json:"origin"`
}

// CatalogAnswer is the result of a search.
type CatalogAnswer struct {
	Date    string          `json:"date" format:"date" doc:"of the catalogue"`
	Sources []CatalogSource `json:"sources"`
	Total   int             `json:"total"`
	Items   []Instance      `json:"items" doc:"cheapest first, unknown prices last"`

	Coverage []CatalogCoverage `json:"coverage" doc:"of the whole catalogue"`
	Doubts   int               `json:"doubts" doc:"prices of the whole catalogue that were not believed"`
}

// OwnPrice is what a machine-hour costs the tenant by its own word.
type OwnPrice struct {
	Cloud        fleet.Cloud    `json:"cloud" enum:"aws,azure,gcp,onprem"`
	Region       string         `json:"region,omitempty" maxLength:"64" doc:"empty: all"`
	InstanceType string         `json:"instance_type" minLength:"1" maxLength:"128"`
	Purchase     fleet.Purchase `json:"purchase" enum:"on_demand,spot,reserved"`
	ValidFrom    time.Time      `json:"valid_from" doc:"hours from here on that have no price yet"`
	Hour         Money          `json:"hour"`
	CreatedBy    string         `json:"created_by"`
	CreatedAt    time.Time      `json:"created_at"`
}

func (s *Server) registerCatalog() {
	tags := []string{"prices"}
	op(s, huma.Operation{OperationID: "search-catalog", Method: http.MethodGet, Path: "/api/v1/catalog/instances", Summary: "Search machine types and their list prices", Tags: tags},
		auth.RoleViewer, s.searchCatalog)
	op(s, huma.Operation{OperationID: "list-own-prices", Method: http.MethodGet, Path: "/api/v1/prices", Summary: "Prices that the tenant set; they come before the catalogue", Tags: tags},
		auth.RoleViewer, s.listOwnPrices)
	op(s, huma.Operation{OperationID: "put-own-price", Method: http.MethodPut, Path: "/api/v1/prices", Summary: "Set a price from a moment on", Tags: tags, DefaultStatus: http.StatusNoContent, Errors: []int{422}},
		auth.RoleFinance, s.putOwnPrice)
}

func (s *Server) searchCatalog(_ context.Context, _ auth.Principal, in *struct {
	Query           string         `query:"q" maxLength:"100" doc:"part of the type's name or GPU model"`
	Cloud           fleet.Cloud    `query:"cloud" enum:"aws,azure,gcp"`
	Region          string         `query:"region" maxLength:"64"`
	GPUModel        fleet.GPUModel `query:"gpu_model" maxLength:"64"`
	MinGPUs         int            `query:"min_gpus" minimum:"0" maximum:"64"`
	MinGPUMemoryMiB int64          `query:"min_gpu_memory_mib" minimum:"0"`
	MinCPUMilli     int64          `query:"min_cpu_milli" minimum:"0"`
	MinMemMiB       int64          `query:"min_mem_mib" minimum:"0"`
	MIG             bool           `query:"mig" doc:"only GPUs that can be split"`
	MinNetworkMbps  int64          `query:"min_network_mbps" minimum:"0" doc:"machines whose network is not known are left out"`
	MinLocalDiskGiB int64          `query:"min_local_disk_gib" minimum:"0" doc:"NVMe in the machine; where it is not known, the machine is left out"`
	Fabric          market.Fabric  `query:"fabric" enum:"any,efa,infiniband,gpudirect"`
	Purchase        fleet.Purchase `query:"purchase" enum:"on_demand,spot" default:"on_demand" doc:"which price to sort by"`
	Limit           int            `query:"limit" minimum:"1" maximum:"500" default:"50"`
}) (*struct{ Body CatalogAnswer }, error) {
	book := s.prices()
	hits, total := book.Search(market.Filter{Text: in.Query, Cloud: in.Cloud, Region: in.Region, GPUModel: in.GPUModel, MinGPUs: in.MinGPUs,
		MinGPUMemoryMiB: in.MinGPUMemoryMiB, MinCPUMilli: in.MinCPUMilli, MinMemMiB: in.MinMemMiB, MIG: in.MIG, MinNetworkMbps: in.MinNetworkMbps,
		MinLocalDiskGiB: in.MinLocalDiskGiB, Fabric: in.Fabric, Purchase: in.Purchase, Limit: in.Limit})
	out := &struct{ Body CatalogAnswer }{Body: CatalogAnswer{Date: book.Date(), Total: total, Items: make([]Instance, 0, len(hits)), Doubts: book.DoubtCount()}}
	for _, src := range book.Sources() {
		out.Body.Sources = append(out.Body.Sources, CatalogSource(src))
	}
	for _, c := range book.Coverage() {
		out.Body.Coverage = append(out.Body.Coverage, CatalogCoverage{Cloud: c.Cloud, Priced: append([]string{}, c.Priced...), Unpriced: append([]string{}, c.Unpriced...)})
	}
	for _, h := range hits {
		out.Body.Items = append(out.Body.Items, showInstance(book, h, in.Region))
	}
	return out, nil
}

func showInstance(book *market.PriceBook, h market.Hit, asked string) Instance {
	cur := book.Currency()
	price := func(p fleet.Purchase) *Money {
		return moneyOrNil(book.Price(fleet.Offering{Cloud: h.Type.Cloud, Region: h.Region, InstanceType: h.Type.Name, Purchase: p}).Effective, cur)
	}
	t := h.Type
	v := Instance{Cloud: t.Cloud, Name: t.Name, Arch: t.Arch, CPUMilli: t.CPUMilli, MemMiB: t.MemMiB, GPUModel: t.GPUModel, GPUCount: t.GPUCount,
		GPUMemoryMiB: t.GPUMemoryMiB, Region: h.Region, OnDemand: price(fleet.PurchaseOnDemand), Spot: price(fleet.PurchaseSpot), Source: h.Price.Source,
		NetworkMbps: t.NetworkMbps, LocalDiskGiB: t.LocalDiskGiB, GPULink: t.Link, GPULinkGBps: t.LinkGBps, Fabric: t.Fabric, FabricGbps: t.FabricGbps,
		MIGProfiles: []MIGProfile{}, Allocatable: Allocatable(t.Allocatable()), Doubts: []PriceDoubt{}}
	if h.Price.Effective != nil && t.GPUCount > 0 {
		per := money(h.Price.Effective.MulDiv(1, int64(t.GPUCount)), cur)
		v.PerGPU = &per
	}
	if t.GPUCount == 0 {
		v.GPULink = market.LinkNone
	} else if profiles, known := book.MIG(t.GPUModel); known {
		can := len(profiles) > 0
		v.MIG = &can
		for _, p := range profiles {
			v.MIGProfiles = append(v.MIGProfiles, MIGProfile(p))
		}
	}
	v.Sold, v.Priced = book.RegionCount(t.Cloud, t.Name)
	for _, d := range book.Doubts(t.Cloud, t.Name) {
		if asked == "" || asked == d.Region {
			v.Doubts = append(v.Doubts, PriceDoubt{Region: d.Region, Purchase: d.Purchase, Hour: money(d.Hour, cur), Expected: money(d.Expected, cur), Reason: d.Reason})
		}
	}
	return v
}

func (s *Server) listOwnPrices(ctx context.Context, p auth.Principal, _ *struct{}) (*struct {
	Body struct {
		Items []OwnPrice `json:"items"`
	}
}, error) {
	out := &struct {
		Body struct {
			Items []OwnPrice `json:"items"`
		}
	}{}
	err := s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		prices, err := store.TenantPrices(ctx, tx)
		out.Body.Items = make([]OwnPrice, 0, len(prices))
		for _, t := range prices {
			out.Body.Items = append(out.Body.Items, OwnPrice{Cloud: t.Cloud, Region: t.Region, InstanceType: t.InstanceType, Purchase: t.Purchase,
				ValidFrom: t.ValidFrom.UTC(), Hour: s.money(t.Hour), CreatedBy: t.CreatedBy, CreatedAt: t.CreatedAt.UTC()})
		}
		return err
	})
	return out, err
}

func (s *Server) putOwnPrice(ctx context.Context, p auth.Principal, in *struct {
	Body struct {
		Cloud        fleet.Cloud    `json:"cloud" enum:"aws,azure,gcp,onprem"`
		Region       string         `json:"region,omitempty" maxLength:"64" doc:"empty: all"`
		InstanceType string         `json:"instance_type" minLength:"1" maxLength:"128"`
		Purchase     fleet.Purchase `json:"purchase" enum:"on_demand,spot,reserved"`
		ValidFrom    time.Time      `json:"valid_from,omitempty" doc:"default: always"`
		Hour         string         `json:"hour" maxLength:"24" example:"2.50" doc:"decimal, per machine-hour; 0: paid for elsewhere"`
	}
}) (*struct{}, error) {
	b := in.Body
	hour, err := fleet.ParseMoney(b.Hour)
	if err != nil || hour < 0 || hour > maxOwnPrice {
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: "the price must be a decimal from 0 to 100000", Field: "body.hour"}
	}
	if b.ValidFrom.IsZero() {
		b.ValidFrom = time.Unix(0, 0)
	}
	return nil, s.deps.DB.Tenant(ctx, p.Tenant, func(tx *store.Tx) error {
		err := store.SetTenantPrice(ctx, tx, store.TenantPrice{Cloud: b.Cloud, Region: b.Region, InstanceType: b.InstanceType, Purchase: b.Purchase,
			ValidFrom: b.ValidFrom.UTC(), Hour: hour, CreatedBy: p.Actor()})
		if err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Actor(), "price.set", string(b.Cloud)+"/"+b.InstanceType,
			map[string]string{"hour": hour.String(), "purchase": string(b.Purchase), "region": b.Region, "valid_from": b.ValidFrom.UTC().Format(time.RFC3339)})
	})
}

const maxOwnPrice = fleet.Money(100_000 * fleet.NanosPerUnit)
