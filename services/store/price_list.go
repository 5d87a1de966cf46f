package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
)

// PriceSource says how fresh a list of prices is.
type PriceSource struct {
	Cloud       fleet.Cloud
	Region      string
	Kind        string // on_demand or spot
	Source      string
	RefreshedAt time.Time
	Listed      int            // rows with a price
	Changed     int            // of these, new prices
	Skipped     map[string]int // rows without a price, or left out, by reason
	Doubted     []DoubtedPrice
}

// DoubtedPrice was listed and is not used.
type DoubtedPrice struct {
	InstanceType string `json:"instance_type"`
	Hour         string `json:"hour"`
	Expected     string `json:"expected"`
}

// PriceSources lists them by cloud, region and kind.
func PriceSources(ctx context.Context, tx *Tx) ([]PriceSource, error) {
	rows, err := tx.pgx.Query(ctx, `SELECT cloud, region, kind, source, refreshed_at, listed, changed, skipped, doubted FROM price_source ORDER BY cloud, region, kind`)
	if err != nil {
		return nil, fmt.Errorf("load price sources: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[PriceSource])
	if err != nil {
		return nil, fmt.Errorf("load price sources: %w", err)
	}
	return all, nil
}

// SavePriceSource notes that a list was read completely.
func SavePriceSource(ctx context.Context, tx *Tx, s PriceSource) error {
	if s.Skipped == nil {
		s.Skipped = map[string]int{}
	}
	skipped, err := json.Marshal(s.Skipped)
	if err != nil {
		return fmt.Errorf("encode price source: %w", err)
	}
	doubted, err := json.Marshal(noNil(s.Doubted[:min(len(s.Doubted), maxDoubted)]))
	if err != nil {
		return fmt.Errorf("encode price source: %w", err)
	}
	_, err = tx.pgx.Exec(ctx, `
INSERT INTO price_source (cloud, region, kind, source, refreshed_at, listed, changed, skipped, doubted) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (cloud, region, kind) DO UPDATE SET source = excluded.source, refreshed_at = excluded.refreshed_at, listed = excluded.listed, changed = excluded.changed,
  skipped = excluded.skipped, doubted = excluded.doubted`, s.Cloud, s.Region, s.Kind, s.Source, tx.Now, s.Listed, s.Changed, skipped, doubted)
	if err != nil {
		return fmt.Errorf("save price source: %w", err)
	}
	return nil
}

const maxDoubted = 100

// LockPrices lets one transaction at a time write the prices of a cloud.
func LockPrices(ctx context.Context, tx *Tx, cloud fleet.Cloud) error {
	if _, err := tx.pgx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('price list ' || $1, 0))`, string(cloud)); err != nil {
		return fmt.Errorf("wait to write prices: %w", err)
	}
	return nil
}

// ListedPrices are the newest prices of a cloud's region, by machine.
func ListedPrices(ctx context.Context, tx *Tx, cloud fleet.Cloud, region string) (map[string]market.ListPrice, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT DISTINCT ON (instance_type) cloud, region, instance_type, valid_from, hour_nano, source, seen_at FROM price_list
WHERE cloud = $1 AND region = $2 ORDER BY instance_type, valid_from DESC`, cloud, region)
	if err != nil {
		return nil, fmt.Errorf("load prices: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[market.ListPrice])
	if err != nil {
		return nil, fmt.Errorf("load prices: %w", err)
	}
	out := make(map[string]market.ListPrice, len(list))
	for _, p := range list {
		out[p.InstanceType] = p
	}
	return out, nil
}

// NewListPrice is a price to be kept, with the cloud's own id of it.
type NewListPrice struct {
	market.ListPrice
	ID string
}

// AddListPrices adds changes; one at the same moment is set anew.
func AddListPrices(ctx context.Context, tx *Tx, prices []NewListPrice) error {
	batch := &pgx.Batch{}
	for _, p := range prices {
		batch.Queue(`
INSERT INTO price_list (cloud, region, instance_type, valid_from, hour_nano, price_id, source, seen_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (cloud, region, instance_type, valid_from) DO UPDATE SET hour_nano = excluded.hour_nano, price_id = excluded.price_id, source = excluded.source, seen_at = excluded.seen_at`,
			p.Cloud, p.Region, p.InstanceType, p.From, p.Hour, p.ID, p.Source, tx.Now)
	}
	if err := tx.pgx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("save prices: %w", err)
	}
	return nil
}

// SeenListPrices notes that the newest prices of machines were listed again, unchanged.
func SeenListPrices(ctx context.Context, tx *Tx, cloud fleet.Cloud, region string, machines []string) error {
	_, err := tx.pgx.Exec(ctx, `
UPDATE price_list p SET seen_at = $4 FROM (SELECT instance_type, max(valid_from) AS valid_from FROM price_list WHERE cloud = $1 AND region = $2 AND instance_type = ANY($3)
GROUP BY instance_type) n WHERE p.cloud = $1 AND p.region = $2 AND p.instance_type = n.instance_type AND p.valid_from = n.valid_from`, cloud, region, machines, tx.Now)
	if err != nil {
		return fmt.Errorf("note prices: %w", err)
	}
	return nil
}

// MachineType is a machine as its cloud describes it. Traits that the cloud does not tell are nil or empty.
type MachineType struct {
	market.Machine
	GPUName string
}

// SaveMachineTypes keeps descriptions; newer ones replace older ones.
func SaveMachineTypes(ctx context.Context, tx *Tx, types []MachineType) error {
	for block := range slices.Chunk(types, 1000) {
		batch := &pgx.Batch{}
		for _, t := range block {
			batch.Queue(`
INSERT INTO machine_type (cloud, name, arch, cpu_milli, mem_mib, gpu_model, gpu_count, gpu_memory_mib, gpu_name, network_mbps, local_disk_gb, local_disk_gib, interconnect, fabric_gbps, address_pods, seen_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, coalesce($10::bigint, 0), coalesce($11::bigint, 0) * 1073741824 / 1000000000, $11, $12, $13, $14, $15)
ON CONFLICT (cloud, name) DO UPDATE SET arch = excluded.arch, cpu_milli = excluded.cpu_milli, mem_mib = excluded.mem_mib, gpu_model = excluded.gpu_model, gpu_count = excluded.gpu_count,
  gpu_memory_mib = excluded.gpu_memory_mib, gpu_name = excluded.gpu_name, network_mbps = excluded.network_mbps, local_disk_gb = excluded.local_disk_gb, local_disk_gib = excluded.local_disk_gib,
  interconnect = excluded.interconnect, fabric_gbps = excluded.fabric_gbps, address_pods = excluded.address_pods, seen_at = excluded.seen_at`,
				t.Cloud, t.Name, t.Arch, t.CPUMilli, t.MemMiB, t.GPUModel, t.GPUCount, t.GPUMemoryMiB, t.GPUName, t.NetworkMbps, t.LocalDiskGiB, t.Fabric, t.FabricGbps, t.AddressPods, tx.Now)
		}
		if err := tx.pgx.SendBatch(ctx, batch).Close(); err != nil {
			return fmt.Errorf("save machines: %w", err)
		}
	}
	return nil
}

// loadMachines reads all that were described by their clouds.
func loadMachines(ctx context.Context, tx *Tx) ([]market.Machine, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT cloud, name, arch, cpu_milli, mem_mib, gpu_model, gpu_count, gpu_memory_mib, nullif(network_mbps, 0), local_disk_gib, interconnect, fabric_gbps, address_pods
FROM machine_type ORDER BY cloud, name`)
	if err != nil {
		return nil, fmt.Errorf("load machines: %w", err)
	}
	machines, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m market.Machine, err error) {
		err = row.Scan(&m.Cloud, &m.Name, &m.Arch, &m.CPUMilli, &m.MemMiB, &m.GPUModel, &m.GPUCount, &m.GPUMemoryMiB, &m.NetworkMbps, &m.LocalDiskGiB, &m.Fabric, &m.FabricGbps, &m.AddressPods)
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("load machines: %w", err)
	}
	return machines, nil
}

// maxListPrices bounds what a book takes in: a hundred times what the three clouds list.
const maxListPrices = 5_000_000

// loadFresh reads all machines and prices that were read from the clouds.
func loadFresh(ctx context.Context, tx *Tx) ([]market.Machine, []market.ListPrice, error) {
	types, err := loadMachines(ctx, tx)
	if err != nil {
		return nil, nil, err
	}
	rows, err := tx.pgx.Query(ctx, `SELECT cloud, region, instance_type, valid_from, hour_nano, source, seen_at FROM price_list ORDER BY cloud, region, instance_type, valid_from LIMIT $1`, maxListPrices)
	if err != nil {
		return nil, nil, fmt.Errorf("load prices: %w", err)
	}
	prices, err := pgx.CollectRows(rows, pgx.RowToStructByPos[market.ListPrice])
	if err != nil {
		return nil, nil, fmt.Errorf("load prices: %w", err)
	}
	return types, prices, nil
}
