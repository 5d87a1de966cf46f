package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// EventKind says what changed. Listeners load the rest; a kind they do not know is ignored.
type EventKind string

// Kinds of events.
const (
	EventCluster  EventKind = "cluster"  // new data; id is empty
	EventConfig   EventKind = "config"   // mode or freeze changed: the agent must hear of it; id is empty
	EventPlan     EventKind = "plan"     // a plan was made; id is the plan's
	EventDecision EventKind = "decision" // a decision changed its state; id is the decision's
	EventCost     EventKind = "cost"     // hours were costed; id is empty
	EventAlert    EventKind = "alert"    // an alert was raised or resolved; id is the alert's
)

// Event tells listeners in all processes that something changed in a tenant.
type Event struct {
	Tenant  fleet.TenantID  `json:"t"`
	Cluster fleet.ClusterID `json:"c,omitempty"`
	Kind    EventKind       `json:"k"`
	ID      string          `json:"id,omitempty"`
}

const eventChannel = "plimsoll"

// Notify sends an event when the transaction commits. Equal events of one transaction arrive once.
func Notify(ctx context.Context, tx *Tx, kind EventKind, cluster fleet.ClusterID, id string) error {
	payload, err := json.Marshal(Event{Tenant: tx.Tenant, Cluster: cluster, Kind: kind, ID: id})
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	if _, err := tx.pgx.Exec(ctx, "SELECT pg_notify($1, $2)", eventChannel, string(payload)); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}

const (
	listenCheck    = 30 * time.Second // of a silent connection
	listenPause    = 250 * time.Millisecond
	listenMaxPause = 10 * time.Second
	listenDeadline = 10 * time.Second
)

// Listen passes on events until ctx ends, over one connection of its own. Whenever the connection is new, events may have been
// missed: resync is called before the first event. lost gets the error of each lost connection.
func (db *DB) Listen(ctx context.Context, resync func(), event func(Event), lost func(error)) error {
	pause := listenPause
	for {
		listening := false
		err := db.listenOnce(ctx, func() { listening = true; resync() }, event)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // told to end: that the connection went down with it is no news
		}
		lost(err)
		if listening {
			pause = listenPause
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, listenMaxPause)
	}
}

func (db *DB) listenOnce(ctx context.Context, resync func(), event func(Event)) error {
	dial, cancel := context.WithTimeout(ctx, listenDeadline)
	defer cancel()
	conn, err := pgx.ConnectConfig(dial, db.pool.Config().ConnConfig)
	if err != nil {
		return fmt.Errorf("connect to listen: %w", err)
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(clean)
	}()
	if _, err := conn.Exec(dial, "LISTEN "+eventChannel); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	resync()
	for {
		wait, cancel := context.WithTimeout(ctx, listenCheck)
		n, err := conn.WaitForNotification(wait)
		expired := wait.Err() != nil
		cancel()
		switch {
		case err == nil:
			var e Event
			if json.Unmarshal([]byte(n.Payload), &e) == nil { // anything else on the channel is not ours
				event(e)
			}
		case ctx.Err() != nil:
			return ctx.Err()
		case expired && !conn.IsClosed(): // silence: ask whether the other side is still there
			check, cancel := context.WithTimeout(ctx, listenDeadline)
			err := conn.Ping(check)
			cancel()
			if err != nil {
				return fmt.Errorf("listen: %w", err)
			}
		default:
			return fmt.Errorf("listen: %w", err)
		}
	}
}
