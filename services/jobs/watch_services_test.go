package jobs

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/spread"
	"plimsoll.dev/services/store"
)

// splits keeps a plan of the service as if it were made just now.
func (p *pair) splits(missing int, parts ...spread.Part) func() {
	return func() {
		p.t.Helper()
		p.dear.tx(func(ctx context.Context, tx *store.Tx) error {
			s, err := store.ServiceByID(ctx, tx, p.service)
			if err != nil {
				return err
			}
			plan := &spread.Plan{At: tx.Now, Outcome: spread.OutcomeKeep, Mode: s.Mode, Missing: missing, Parts: parts}
			in := spread.Input{Now: tx.Now, Mode: s.Mode, Rules: s.Rules}
			for _, q := range parts {
				in.Sites = append(in.Sites, spread.Site{Workload: q.Workload, Cluster: q.Cluster})
			}
			_, err = store.SaveServicePlan(ctx, tx, p.service, s.Version, in, plan, time.Millisecond)
			return err
		})
	}
}

func (p *pair) part(c *estate, from, ready, target int, held spread.Held) spread.Part {
	return spread.Part{Workload: p.ids[c], Cluster: c.cluster, From: from, Ready: ready, Target: target, Held: held}
}

// later makes the service short for longer, in place of waiting.
func (p *pair) later(minutes int) {
	p.dear.exec(`UPDATE service SET short_since = short_since - $3 * interval '1 minute' WHERE tenant_id = $1 AND id = $2`, p.dear.tenant, p.service, minutes)
}

func newWatchedPair(t *testing.T, rules spread.Rules) *pair {
	t.Helper()
	e := newEstate(t)
	p := &pair{t: t, dear: e, cheap: e.second(), ids: map[*estate]fleet.WorkloadID{}}
	e.exec(`UPDATE cluster SET name = 'a-dear' WHERE tenant_id = $1 AND id = $2`, e.tenant, p.dear.cluster)
	e.exec(`UPDATE cluster SET name = 'b-cheap' WHERE tenant_id = $1 AND id = $2`, e.tenant, p.cheap.cluster)
	for _, c := range []*estate{p.dear, p.cheap} {
		p.ids[c] = c.planned("web", fleet.ModeEnforce)
	}
	p.save(fleet.ModeEnforce, rules, 0)
	return p
}

func TestAServiceThatLacksReplicasIsToldAfterFiveMinutes(t *testing.T) {
	t.Parallel()
	p := newWatchedPair(t, spread.Rules{Traffic: spread.TrafficBalanced})
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	fine := p.splits(0, p.part(p.dear, 4, 4, 4, ""), p.part(p.cheap, 2, 2, 2, ""))
	short := p.splits(0, p.part(p.dear, 4, 4, 4, ""), p.part(p.cheap, 5, 2, 5, ""))
	passes := func(minutes int, then func()) func() { return func() { p.later(minutes); then() } }
	p.dear.rounds(AlertServiceShort, 2, []round{
		{"all are ready", at(0), fine, 0},
		{"it grows", at(1), short, 0},
		{"for four minutes", at(5), passes(4, short), 0},
		{"ready for a moment: it begins anew", at(6), fine, 0},
		{"short again", at(7), short, 0},
		{"for four minutes", at(11), passes(4, short), 0},
		{"for five minutes", at(12), passes(1, short), 1},
		{"ready for a moment", at(13), fine, 1},
		{"short again: the same trouble", at(14), short, 1},
		{"ready", at(15), fine, 1},
		{"and again: the same", at(16), short, 1},
		{"no plan is fresh: nothing is known", at(17), func() {
			p.dear.exec(`UPDATE service SET checked_at = now() - interval '6 minutes' WHERE tenant_id = $1`, p.dear.tenant)
		}, 1},
		{"nor half an hour later", at(47), nil, 1},
		{"ready", at(48), fine, 1},
		{"for five minutes", at(53), fine, 0},
		{"short: another trouble, that has to last", at(54), passes(60, short), 0},
		{"a plan is missing: whether it lasts is not known", at(55), func() {
			p.dear.exec(`UPDATE service SET checked_at = NULL WHERE tenant_id = $1`, p.dear.tenant)
		}, 0},
		{"short", at(70), passes(15, short), 0},
		{"for five minutes", at(75), passes(5, short), 1},
		{"it is switched off", at(76), func() { p.save(store.ModeOff, spread.Rules{}, 1) }, 1},
		{"for five minutes", at(81), nil, 0},
	})
	var detail map[string]any
	var doc string
	p.dear.tx(func(ctx context.Context, tx *store.Tx) error {
		return tx.PGX().QueryRow(ctx, `SELECT detail::text FROM alert WHERE tenant_id = $1 AND kind = $2 ORDER BY id LIMIT 1`, tx.Tenant, AlertServiceShort).Scan(&doc)
	})
	if err := json.Unmarshal([]byte(doc), &detail); err != nil {
		t.Fatal(err)
	}
	since, err := time.Parse(time.RFC3339, detail["since"].(string))
	if err != nil || time.Since(since) < 5*time.Minute || time.Since(since) > 30*time.Minute {
		t.Errorf("since %v %v", since, err)
	}
	if detail["service"] != "web" || detail["lacking"] != 3.0 || detail["wanted"] != 9.0 || detail["ready"] != 6.0 || detail["where"] != "b-cheap 2/5 (not_ready)" {
		t.Errorf("%v", detail)
	}
	if n := p.dear.number(`SELECT count(*) FROM alert WHERE tenant_id <> $1 AND subject = 'service/' || $2`, p.dear.tenant, p.service); n != 0 {
		t.Errorf("%d alerts of other tenants", n)
	}
}

func TestAServiceOfAnotherTenantIsNotTold(t *testing.T) {
	t.Parallel()
	p, other := newWatchedPair(t, spread.Rules{}), newWatchedPair(t, spread.Rules{})
	short := p.splits(0, p.part(p.dear, 4, 0, 4, ""))
	short()
	other.splits(0, other.part(other.dear, 4, 4, 4, ""))()
	p.dear.look(AlertServiceShort, start)
	other.later(10) // not p's
	if open := p.dear.look(AlertServiceShort, start); len(open) != 0 {
		t.Errorf("%+v", open)
	}
	p.later(10)
	if open := other.dear.look(AlertServiceShort, start); len(open) != 0 {
		t.Errorf("another tenant is told: %+v", open)
	}
	open := p.dear.look(AlertServiceShort, start)
	if len(open) != 1 || open[0].Subject != "service/"+p.service || open[0].Severity != store.SeverityCritical {
		t.Errorf("none is ready: %+v", open)
	}
	if open := other.dear.look(AlertServiceShort, start); len(open) != 0 {
		t.Errorf("another tenant sees it: %+v", open)
	}
}

func TestASilentClusterOfAServiceIsToldAndIsNoShortage(t *testing.T) {
	t.Parallel()
	p := newWatchedPair(t, spread.Rules{Traffic: spread.TrafficBalanced})
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	fine := p.splits(0, p.part(p.dear, 4, 4, 4, ""), p.part(p.cheap, 5, 2, 5, ""))
	silent := p.splits(0, p.part(p.dear, 4, 4, 4, ""), p.part(p.cheap, 5, 2, 5, spread.HeldSilent))
	seen := func(ago string, then func()) func() {
		return func() {
			p.cheap.exec(`UPDATE cluster SET last_seen_at = now() - $3::interval WHERE tenant_id = $1 AND id = $2`, p.cheap.tenant, p.cheap.cluster, ago)
			then()
		}
	}
	p.dear.rounds(AlertServiceSilent, 1, []round{
		{"it reports", at(0), seen("1 second", fine), 0},
		{"silent", at(1), seen("3 minutes", silent), 1},
		{"still", at(30), func() { p.later(30); silent() }, 1},
		{"it reports, and no plan saw it yet", at(31), seen("1 second", silent), 1},
		{"silent again: the same", at(33), seen("3 minutes", silent), 1},
		{"it reports", at(34), seen("1 second", fine), 1},
		{"for five minutes", at(39), fine, 0},
		{"silent by an old plan alone", at(40), seen("1 second", silent), 0},
	})
	if _, ever := p.dear.alerts(AlertServiceShort); ever != 0 {
		t.Errorf("silence counts as shortage")
	}
}

func TestAnAlertOfAServiceLeadsToItsPage(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	hook := e.channel(newSealer(t), store.ChannelTeams, "https://example.com/…", "https://example.com/x")
	e.tx(func(ctx context.Context, tx *store.Tx) error {
		if _, err := store.SaveRoute(ctx, tx, store.Route{Name: "all", Channel: hook, MinSeverity: store.SeverityInfo, Resolved: true}); err != nil {
			return err
		}
		for _, subject := range []string{"service/s1", "service/s2/w", "cluster/c"} {
			if err := openAlert(ctx, tx, e.log, AlertServiceSilent, subject, store.SeverityWarning, tx.Now, map[string]any{"service": "web", "cluster": "a"}); err != nil {
				return err
			}
		}
		ids, err := announce(ctx, tx, "https://plimsoll.example.com", e.log)
		if len(ids) != 3 {
			t.Errorf("%d deliveries", len(ids))
		}
		return err
	})
	for _, link := range []string{"/services/s1", "/services/s2", "/alerts"} {
		if n := e.number(`SELECT count(*) FROM webhook_delivery WHERE tenant_id = $1 AND payload LIKE '%"https://plimsoll.example.com' || $2 || '"%'`, e.tenant, link); n != 1 {
			t.Errorf("%d notices lead to %s", n, link)
		}
	}
}

func TestWhatAServiceLacks(t *testing.T) {
	t.Parallel()
	need := func(n int) *int { return &n }
	part := func(from, ready, target int, needed *int, held spread.Held) spread.Part {
		return spread.Part{Cluster: "c", From: from, Ready: ready, Target: target, Need: needed, Held: held, Bound: "max"}
	}
	for _, c := range []struct {
		what    string
		traffic spread.Traffic
		mode    fleet.Mode
		missing int
		parts   []spread.Part
		wanted  int
		lacking int
		why     string // of the first that lacks
	}{
		{"all ready", spread.TrafficBalanced, fleet.ModeEnforce, 0, []spread.Part{part(4, 4, 4, nil, "")}, 4, 0, ""},
		{"pods start", spread.TrafficBalanced, fleet.ModeEnforce, 0, []spread.Part{part(6, 4, 6, nil, "")}, 6, 2, "not_ready"},
		{"its policy has not raised", spread.TrafficBalanced, fleet.ModeEnforce, 0, []spread.Part{part(4, 4, 6, nil, "")}, 6, 2, "not_asked"},
		{"held, with a pod that is not ready", spread.TrafficBalanced, fleet.ModeEnforce, 0, []spread.Part{part(4, 3, 4, nil, spread.HeldFrozen)}, 4, 1, "frozen"},
		{"it moves: what is to go stands in", spread.TrafficBalanced, fleet.ModeEnforce, 0, []spread.Part{part(4, 4, 1, nil, ""), part(5, 2, 5, nil, "")}, 6, 0, "not_ready"},
		{"load that stays is not served elsewhere", spread.TrafficLocal, fleet.ModeEnforce, 0, []spread.Part{part(6, 6, 3, need(3), ""), part(3, 1, 3, need(3), "")}, 6, 2, "not_ready"},
		{"a local move whose load is still at home", spread.TrafficLocal, fleet.ModeEnforce, 0, []spread.Part{part(4, 4, 1, need(4), ""), part(5, 2, 5, need(2), "")}, 6, 0, "not_ready"},
		{"advice is not wanted", spread.TrafficBalanced, fleet.ModeRecommend, 0, []spread.Part{part(2, 2, 9, nil, "")}, 2, 0, ""},
		{"no cluster may have more", spread.TrafficBalanced, fleet.ModeEnforce, 3, []spread.Part{part(4, 4, 4, nil, "")}, 7, 3, "max"},
		{"silent and gone parts are in neither", spread.TrafficLocal, fleet.ModeEnforce, 0, []spread.Part{part(4, 0, 4, need(4), spread.HeldSilent), part(4, 0, 4, nil, spread.HeldGone)}, 0, 0, ""},
	} {
		plan := &spread.Plan{Mode: c.mode, Missing: c.missing, Parts: c.parts}
		got, why := shortOf(plan, c.traffic, nil), ""
		if len(got.parts) > 0 {
			why = got.parts[0].Why
		}
		if got.wanted != c.wanted || got.lacking != c.lacking || why != c.why {
			t.Errorf("%s: %+v", c.what, got)
		}
	}
}
