package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/availability"
	"plimsoll.dev/services/fleet"
)

// NewsOf is what a cluster shows of the supply of machines in a span of its data time.
type NewsOf struct {
	Sightings []Sighting
	To        time.Time // read up to here: the span's end, or less when there was too much
	Unplaced  int       // stock-outs of which nobody can say which offering they are about
}

// cloudTook are words in the reason of a lost node that mean that the cloud took it. A node that just goes was given back by
// somebody, as far as anybody knows.
var cloudTook = []string{"spot", "preempt", "reclaim", "interrupt"}

// AvailabilityNews reads what the cluster reported in (from, to]: nodes that appeared, notices, losses, stock-outs and nodes that ended
// well. limit bounds each kind; when it is reached, To says how far the answer goes.
func AvailabilityNews(ctx context.Context, tx *Tx, cluster fleet.ClusterID, from, to time.Time, limit int) (NewsOf, error) {
	n := news{cluster: cluster, from: from, to: to, limit: limit}
	for _, read := range []func(context.Context, *Tx) error{n.events, n.nodes} {
		if err := read(ctx, tx); err != nil {
			return NewsOf{}, fmt.Errorf("read news of supply: %w", err)
		}
	}
	all := n.all[:0]
	for _, s := range n.all {
		if !s.Event.At.After(n.to) {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b Sighting) int {
		if c := a.Event.At.Compare(b.Event.At); c != 0 {
			return c
		}
		return strings.Compare(a.Source, b.Source)
	})
	return NewsOf{all, n.to, n.unplaced}, nil
}

type news struct {
	cluster  fleet.ClusterID
	from, to time.Time
	limit    int
	all      []Sighting
	lost     map[string]bool // nodes with a loss in the span
	unplaced int
}

func (n *news) add(source string, at time.Time, o fleet.Offering, k availability.Kind, machines, of int) {
	n.all = append(n.all, Sighting{source, availability.Event{At: at.UTC(), Offering: o, Kind: k, Machines: machines, Of: of}})
}

// events reads notices, losses and stock-outs.
func (n *news) events(ctx context.Context, tx *Tx) error {
	rows, err := tx.pgx.Query(ctx, `
SELECT e.at, e.stream, e.epoch, e.seq, e.position, e.kind, e.object, e.reason, e.message, coalesce(n.uid, ''), coalesce(n.cloud, ''), coalesce(n.region, ''),
  coalesce(n.zone, ''), coalesce(n.instance_type, ''), coalesce(n.purchase, ''), coalesce(alike.n, 0)
FROM cluster_event e
LEFT JOIN LATERAL (
  SELECT * FROM node n WHERE n.name = substr(e.object, 6) AND n.tenant_id = e.tenant_id AND n.cluster_id = e.cluster_id
    AND n.started_at <= e.at AND (n.ended_at IS NULL OR n.ended_at >= e.at - interval '15 minutes')
  ORDER BY n.started_at DESC, n.uid LIMIT 1
) n ON e.object LIKE 'Node/%'
LEFT JOIN LATERAL (
  SELECT count(*)::integer AS n FROM node o WHERE o.tenant_id = e.tenant_id AND o.cluster_id = e.cluster_id AND o.zone = n.zone
    AND o.instance_type = n.instance_type AND o.purchase = n.purchase AND o.started_at <= e.at AND (o.ended_at IS NULL OR o.ended_at >= e.at)
) alike ON n.uid IS NOT NULL
WHERE e.tenant_id = @tenant AND e.cluster_id = @cluster AND e.at > @from AND e.at <= @to AND e.kind IN ('interruption_notice', 'node_lost', 'capacity_failure')
ORDER BY e.at, e.stream, e.epoch, e.seq, e.position LIMIT @limit`,
		pgx.NamedArgs{"tenant": tx.Tenant, "cluster": n.cluster, "from": n.from, "to": n.to, "limit": n.limit})
	if err != nil {
		return err
	}
	defer rows.Close()
	n.lost = map[string]bool{}
	var dry []dryEvent
	count := 0
	var last time.Time
	for rows.Next() {
		var key EventKey
		var kind, object, reason, message, uid string
		var o fleet.Offering
		var alike int
		if err := rows.Scan(&key.At, &key.Stream, &key.Epoch, &key.Seq, &key.Position, &kind, &object, &reason, &message, &uid, &o.Cloud, &o.Region, &o.Zone,
			&o.InstanceType, &o.Purchase, &alike); err != nil {
			return err
		}
		count++
		last = key.At
		switch kind {
		case "capacity_failure":
			dry = append(dry, dryEvent{key, object, message})
		case "interruption_notice", "node_lost":
			if !placed(o) || (kind == "node_lost" && !tookByCloud(reason)) {
				continue
			}
			k := availability.KindNotice
			if kind == "node_lost" {
				k = availability.KindLost
			}
			n.lost[uid] = true
			n.add("loss/"+string(n.cluster)+"/"+uid, key.At, o, k, 1, max(alike, 1))
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	n.cut(count, last)
	return n.stockOuts(ctx, tx, dry)
}

// cut shortens the span when a query gave all it may: what comes at the same instant as the last row may be missing. A flood of one
// instant is cut at its end, so that reading goes on.
func (n *news) cut(count int, last time.Time) {
	if count < n.limit {
		return
	}
	to := last.Add(-time.Microsecond)
	if !to.After(n.from) {
		to = last
	}
	if to.Before(n.to) {
		n.to = to
	}
}

func placed(o fleet.Offering) bool {
	if o.Cloud == "" || o.Cloud == fleet.CloudOnPrem || o.Region == "" || o.InstanceType == "" {
		return false
	}
	_, err := fleet.ParsePurchase(string(o.Purchase))
	return err == nil
}

func tookByCloud(reason string) bool {
	reason = strings.ToLower(reason)
	return slices.ContainsFunc(cloudTook, func(word string) bool { return strings.Contains(reason, word) })
}

// nodes reads machines that appeared, and those that ended without a loss: they lived until then.
func (n *news) nodes(ctx context.Context, tx *Tx) error {
	for _, q := range []struct{ column, source string }{{"started_at", "had/"}, {"ended_at", "end/"}} {
		rows, err := tx.pgx.Query(ctx, `
SELECT uid, cloud, region, zone, instance_type, purchase, `+q.column+` FROM node
WHERE tenant_id = @tenant AND cluster_id = @cluster AND `+q.column+` > @from AND `+q.column+` <= @to ORDER BY `+q.column+`, uid LIMIT @limit`,
			pgx.NamedArgs{"tenant": tx.Tenant, "cluster": n.cluster, "from": n.from, "to": n.to, "limit": n.limit})
		if err != nil {
			return err
		}
		count := 0
		var last time.Time
		var uid string
		var o fleet.Offering
		_, err = pgx.ForEachRow(rows, []any{&uid, &o.Cloud, &o.Region, &o.Zone, &o.InstanceType, &o.Purchase, &last}, func() error {
			count++
			switch {
			case !placed(o):
			case q.source == "had/":
				n.add("had/"+string(n.cluster)+"/"+uid, last, o, availability.KindHad, 0, 0)
			case !n.lost[uid]:
				n.add("end/"+string(n.cluster)+"/"+uid, last, o, availability.KindRunning, 0, 0)
			}
			return nil
		})
		if err != nil {
			return err
		}
		n.cut(count, last)
	}
	return nil
}

// Running gives one event per offering of which the cluster has ready machines at the moment.
func Running(ctx context.Context, tx *Tx, cluster fleet.ClusterID, at time.Time) ([]availability.Event, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT DISTINCT cloud, region, zone, instance_type, purchase FROM node
WHERE tenant_id = $1 AND cluster_id = $2 AND ended_at IS NULL AND phase = 'ready' AND started_at <= $3 ORDER BY 1, 2, 3, 4, 5`, tx.Tenant, cluster, at)
	if err != nil {
		return nil, fmt.Errorf("list running offerings: %w", err)
	}
	var out []availability.Event
	var o fleet.Offering
	_, err = pgx.ForEachRow(rows, []any{&o.Cloud, &o.Region, &o.Zone, &o.InstanceType, &o.Purchase}, func() error {
		if placed(o) {
			out = append(out, availability.Event{At: at, Offering: o, Kind: availability.KindRunning})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list running offerings: %w", err)
	}
	return out, nil
}
