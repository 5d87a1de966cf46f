package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/availability"
	"plimsoll.dev/services/fleet"
)

// dryEvent is a stock-out as the agent reported it: the pool and a sentence.
type dryEvent struct {
	key             EventKey
	object, message string
}

// poolOffering is what a pool of the cluster has had, newest first.
type poolOffering struct {
	pool     string
	offering fleet.Offering
}

// stockOuts finds the offering of each stock-out: what the sentence names, and what the pool has had for the rest.
func (n *news) stockOuts(ctx context.Context, tx *Tx, dry []dryEvent) error {
	if len(dry) == 0 {
		return nil
	}
	rows, err := tx.pgx.Query(ctx, `
SELECT pool, cloud, region, zone, instance_type, purchase FROM node WHERE tenant_id = $1 AND cluster_id = $2
GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY pool, max(started_at) DESC, cloud, region, zone, instance_type, purchase LIMIT 10000`, tx.Tenant, n.cluster)
	if err != nil {
		return err
	}
	known, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p poolOffering, err error) {
		o := &p.offering
		err = row.Scan(&p.pool, &o.Cloud, &o.Region, &o.Zone, &o.InstanceType, &o.Purchase)
		return p, err
	})
	if err != nil {
		return err
	}
	for _, e := range dry {
		o, ok := offeringOf(e.object, e.message, known)
		if !ok {
			n.unplaced++
			continue
		}
		n.add(fmt.Sprintf("dry/%s/%s/%d/%d/%d", n.cluster, e.key.Stream, e.key.Epoch, e.key.Seq, e.key.Position), e.key.At, o, availability.KindExhausted, 0, 0)
	}
	return nil
}

// offeringOf reads a sentence like "no g5.xlarge spot in us-east-1a": of its words those count that are a type, a zone or a way of
// buying that this cluster has had, or a zone of a region it has had. What it does not name is taken from the pool if that has had one
// value only; a stock-out without a sure offering teaches nothing.
func offeringOf(object, message string, known []poolOffering) (o fleet.Offering, ok bool) {
	pool := strings.TrimPrefix(object, "NodePool/")
	own := slices.DeleteFunc(slices.Clone(known), func(p poolOffering) bool { return p.pool != pool })
	if len(own) == 0 {
		own = known
	}
	words := strings.FieldsFunc(message, func(r rune) bool { return strings.ContainsRune(" ,;:()[]\"'/", r) })
	for i, w := range words {
		words[i] = strings.TrimRight(w, ".")
	}
	o.InstanceType = named(words, own, known, func(p poolOffering) string { return p.offering.InstanceType })
	o.Purchase = fleet.Purchase(named(words, own, nil, func(p poolOffering) string { return string(p.offering.Purchase) }))
	for _, w := range words {
		if p, err := fleet.ParsePurchase(w); err == nil {
			o.Purchase = p
			break
		}
	}
	o.Zone, o.Region, o.Cloud = zoneOf(words, own, known)
	return o, placed(o) && o.Zone != ""
}

// zoneOf is the zone that the sentence names: one the cluster has had, or one of a region it has had; else the pool's only one.
func zoneOf(words []string, own, known []poolOffering) (zone, region string, cloud fleet.Cloud) {
	all := slices.Concat(own, known)
	for _, p := range all {
		if o := p.offering; o.Zone != "" && slices.Contains(words, o.Zone) {
			return o.Zone, o.Region, o.Cloud
		}
	}
	for _, p := range all {
		r := p.offering.Region
		i := slices.IndexFunc(words, func(w string) bool {
			return r != "" && strings.HasPrefix(w, r) && len(w) > len(r) && len(w) <= len(r)+2
		})
		if i >= 0 {
			return words[i], r, p.offering.Cloud
		}
	}
	zone = named(nil, own, nil, func(p poolOffering) string { return p.offering.Zone })
	for _, p := range own {
		if p.offering.Zone == zone {
			return zone, p.offering.Region, p.offering.Cloud
		}
	}
	return "", "", ""
}

// named is the one value of the known ones that the sentence has as a word; else the pool's, if there is no choice.
func named(words []string, own, known []poolOffering, of func(poolOffering) string) string {
	for _, p := range slices.Concat(own, known) {
		if v := of(p); v != "" && slices.Contains(words, v) {
			return v
		}
	}
	value := ""
	for _, p := range own {
		switch v := of(p); {
		case value == "":
			value = v
		case v != value:
			return ""
		}
	}
	return value
}
