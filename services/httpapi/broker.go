package httpapi

import (
	"context"
	"sync"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// subscriptionBuffer is how many events a slow listener may lag behind before it loses them and is told to look again.
const subscriptionBuffer = 64

// broker passes the database's events on to the listeners of this process: dashboards by tenant, agents by cluster.
type broker struct {
	mu   sync.Mutex
	subs map[*subscription]struct{} // guarded by mu
}

// subscription is one listener. After resync the listener must load everything anew: events were lost.
type subscription struct {
	tenant  fleet.TenantID
	cluster fleet.ClusterID // empty: all of the tenant
	events  chan store.Event
	resync  chan struct{}
}

func newBroker() *broker { return &broker{subs: map[*subscription]struct{}{}} }

func (b *broker) subscribe(tenant fleet.TenantID, cluster fleet.ClusterID) *subscription {
	s := &subscription{tenant: tenant, cluster: cluster, events: make(chan store.Event, subscriptionBuffer), resync: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subs[s] = struct{}{}
	return s
}

func (b *broker) unsubscribe(s *subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.subs, s)
}

// publish never blocks: whoever does not keep up gets a resync instead.
func (b *broker) publish(e store.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subs {
		if s.tenant != e.Tenant || (s.cluster != "" && s.cluster != e.Cluster) {
			continue
		}
		select {
		case s.events <- e:
		default:
			s.lag()
		}
	}
}

func (b *broker) resyncAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subs {
		s.lag()
	}
}

func (s *subscription) lag() {
	select {
	case s.resync <- struct{}{}:
	default: // told already
	}
}

// Run passes on the database's events to dashboards and agents until ctx ends. Without it the API answers, but nothing is live.
func (s *Server) Run(ctx context.Context) error {
	return s.deps.DB.Listen(ctx, s.broker.resyncAll, s.broker.publish, func(err error) {
		s.deps.Log.Warn("lost the connection that listens for events", "error", err)
	})
}
