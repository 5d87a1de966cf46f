package jobs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/spread"
	"plimsoll.dev/services/store"
)

// Kinds of alert of services that run in several clusters.
const (
	AlertServiceShort  = "service_short"
	AlertServiceSilent = "service_silent"
)

// shortHold is for how long a service must lack replicas without a break before that is told: what starts is not lacking.
const shortHold = 5 * time.Minute

// lack is a part of a service that has fewer replicas ready than it is to have, or that may not have more.
type lack struct {
	Cluster string `json:"cluster"`
	Ready   int    `json:"ready"`
	Wanted  int    `json:"wanted"`
	Why     string `json:"why"` // not_ready: asked for; not_asked: its policy has not raised yet; what holds it; of what no cluster may have, the bound in the way
}

// shortage is what a service lacks.
type shortage struct {
	wanted, ready, lacking int
	parts                  []lack
}

// shortOf works out what a service lacks. What advice would have is not wanted yet. A silent cluster is in neither what is wanted nor what is ready. Replicas
// that are ready beyond one part's target stand in for another's, as while a service moves; where load stays in its cluster, none do for what a part's own
// signals ask for.
func shortOf(p *spread.Plan, traffic spread.Traffic, clusters map[fleet.ClusterID]store.SeenCluster) shortage {
	var s shortage
	behind := 0
	for i := range p.Parts {
		q := &p.Parts[i]
		if q.Held == spread.HeldSilent || q.Held == spread.HeldGone {
			continue
		}
		l := lack{Cluster: clusters[q.Cluster].Name, Ready: q.Ready, Wanted: q.Target, Why: "not_ready"}
		if p.Mode != fleet.ModeEnforce {
			l.Wanted = q.From
		}
		s.wanted, s.ready = s.wanted+l.Wanted, s.ready+l.Ready
		if traffic == spread.TrafficLocal && q.Need != nil {
			behind += max(min(*q.Need, l.Wanted)-l.Ready, 0)
		}
		switch {
		case l.Ready >= l.Wanted && p.Missing == 0:
			continue
		case q.Held != "":
			l.Why = string(q.Held)
		case l.Ready >= l.Wanted:
			l.Why = q.Bound
		case q.From < l.Wanted:
			l.Why = "not_asked"
		}
		s.parts = append(s.parts, l)
	}
	s.lacking = max(s.wanted-s.ready, behind) + p.Missing
	s.wanted += p.Missing
	return s
}

// services tells of services that lack replicas for a while and of clusters of theirs that say nothing. Of a service without a fresh plan nothing is known: what is
// open stays so.
func (w *Watch) services(ctx context.Context, tx *store.Tx) error {
	list, clusters, err := store.WatchedServices(ctx, tx)
	if err != nil {
		return err
	}
	now, err := store.DataNow(ctx, tx)
	if err != nil {
		return err
	}
	openShort, err := openOfServices(ctx, tx, AlertServiceShort)
	if err != nil {
		return err
	}
	openSilent, err := openOfServices(ctx, tx, AlertServiceSilent)
	if err != nil {
		return err
	}
	var short, silent []sign
	var calm []string // services that are not known to be short
	since := map[string]*time.Time{}
	for i := range list {
		s := &list[i]
		if s.Plan == nil {
			calm, short, silent = append(calm, s.ID), append(short, openShort[s.ID]...), append(silent, openSilent[s.ID]...)
			continue
		}
		silent = append(silent, silentSigns(tx, s, clusters, now)...)
		lacks := shortOf(s.Plan, s.Traffic, clusters)
		if lacks.lacking == 0 {
			calm = append(calm, s.ID)
			continue
		}
		from := s.ShortSince
		if from == nil {
			from = &s.Plan.At
		}
		since[s.ID] = from
		if tx.Now.Sub(*from) >= shortHold || openShort[s.ID] != nil {
			short = append(short, shortSign(s, lacks, *from, now))
		}
	}
	if err := w.signs(ctx, tx, AlertServiceSilent, clearSoon, silent); err != nil {
		return err
	}
	if err := w.signs(ctx, tx, AlertServiceShort, clearSoon, short); err != nil {
		return err
	}
	if openShort, err = openOfServices(ctx, tx, AlertServiceShort); err != nil {
		return err
	}
	for _, id := range calm { // while it is told, a moment of calm does not make it another trouble
		if openShort[id] == nil {
			since[id] = nil
		}
	}
	return store.SaveShortSince(ctx, tx, since)
}

// openOfServices are the open alerts of a kind, by the service's id.
func openOfServices(ctx context.Context, tx *store.Tx, kind string) (map[string][]sign, error) {
	alerts, err := store.Alerts(ctx, tx, store.AlertFilter{OnlyOpen: true, Kind: kind, Limit: maxOpenAlerts})
	if err != nil {
		return nil, err
	}
	out := map[string][]sign{}
	for _, a := range alerts {
		id, _, _ := strings.Cut(strings.TrimPrefix(a.Subject, "service/"), "/")
		out[id] = append(out[id], sign{subject: a.Subject, severity: a.Severity, at: a.OpenedAt})
	}
	return out, nil
}

func shortSign(s *store.WatchedService, lacks shortage, since, now time.Time) sign {
	where := make([]string, 0, len(lacks.parts))
	for _, l := range lacks.parts {
		where = append(where, fmt.Sprintf("%s %d/%d (%s)", l.Cluster, l.Ready, l.Wanted, l.Why))
	}
	severity := store.SeverityWarning
	if lacks.ready == 0 {
		severity = store.SeverityCritical
	}
	return sign{"service/" + s.ID, severity, now, map[string]any{"service_id": s.ID, "service": s.Name, "wanted": lacks.wanted, "ready": lacks.ready, "lacking": lacks.lacking,
		"missing": s.Plan.Missing, "since": since.UTC().Format(time.RFC3339), "where": strings.Join(where, ", "), "parts": lacks.parts}}
}

// silentSigns are of the clusters that the newest plan took for silent and that said nothing since.
func silentSigns(tx *store.Tx, s *store.WatchedService, clusters map[fleet.ClusterID]store.SeenCluster, now time.Time) (found []sign) {
	for i := range s.Plan.Parts {
		q := &s.Plan.Parts[i]
		c := clusters[q.Cluster]
		if q.Held != spread.HeldSilent || c.SeenAt != nil && c.SeenAt.After(tx.Now.Add(-store.ServiceSilent)) {
			continue
		}
		detail := map[string]any{"service_id": s.ID, "service": s.Name, "workload_id": q.Workload, "cluster_id": q.Cluster, "cluster": c.Name, "replicas": q.Target}
		if c.SeenAt != nil {
			detail["since"] = c.SeenAt.UTC().Format(time.RFC3339)
		}
		found = append(found, sign{"service/" + s.ID + "/" + string(q.Workload), store.SeverityWarning, now, detail})
	}
	return found
}
