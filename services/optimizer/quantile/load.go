package quantile

// load learns what one request costs and tells from the gauges how much work arrives. Requests in flight times their share would be too
// much while there is a queue: what waits is work of a few seconds, not a replica for as long as it waits.
type load struct {
	work, started float64 // decayed sums: replica-seconds done, requests begun
	queue         float64
}

const loadKeep = 0.9971 // per slot: half in an hour

// backlog is what waits, in replica-seconds.
func (l *load) backlog() float64 { return l.queue * part(l.work, l.started) }

// step returns the demand of the slot, in replicas.
func (l *load) step(g Gauges) float64 {
	grown := g.Queue - l.queue
	if l.started == 0 {
		grown = 0 // it was there before anybody looked
	}
	l.queue = g.Queue
	l.work = loadKeep*l.work + g.Busy*SlotSeconds
	l.started = loadKeep*l.started + max(0, g.Rate*SlotSeconds-grown)
	return max(0, g.Busy+grown*part(l.work, l.started)/SlotSeconds)
}

// part is a/b, and nothing of nothing.
func part(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
