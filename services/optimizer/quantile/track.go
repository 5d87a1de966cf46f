package quantile

// Point is the forecast as it was over five minutes: means but for Want and Plain, which are the highest.
type Point struct {
	Slot   int64   // the last of the five minutes
	Demand float64 // replicas in use
	// Middle and Upper are what was expected of the demand a start later than Slot: its median, and the quantile by which was sized.
	Middle, Upper float64
	Want          int // replicas asked for, before bounds and damping
	Plain         int // what a HorizontalPodAutoscaler at 70 % would have asked for
}

const (
	trackStride = 300 / SlotSeconds
	trackPoints = 48 * 3600 / 300
	trackUnit   = 256 // demand is kept in 1/256 of a replica
)

// track is the forecast of the last two days.
type track struct {
	points []point // oldest first, at most trackPoints
	open   point   // the one in the making
}

// point sums up to trackStride slots, in units; its numbers are whole so that they can be kept in few bytes.
type point struct {
	slot                  int64
	n                     int64
	demand, middle, upper int64 // sums while open, means after
	want, plain           int64
}

// add takes the slot that was just learned.
func (t *track) add(c *Policy) {
	at := c.queue[c.chief].at
	f := &c.casts[at.Cast]
	level := f.level()
	size := spread(level)
	o := &t.open
	o.slot, o.n = c.slot-1, o.n+1
	o.demand += units(c.demand())
	o.middle += units(level + f.middle*size)
	o.upper += units(level + f.edge[at.Quantile]*size)
	o.want, o.plain = max(o.want, int64(c.own.want)), max(o.plain, int64(c.plain.want))
	if c.slot%trackStride != 0 {
		return
	}
	o.demand, o.middle, o.upper = o.demand/o.n, o.middle/o.n, o.upper/o.n
	if len(t.points) >= trackPoints {
		t.points = append(t.points[:0], t.points[len(t.points)-trackPoints+1:]...)
	}
	t.points = append(t.points, *o)
	t.open = point{}
}

func units(v float64) int64 { return int64(min(max(v, 0), maxReplicas)*trackUnit + 0.5) }

// Track is the forecast of the last two days in steps of five minutes, oldest first; gaps are left out.
func (c *Policy) Track() []Point {
	out := make([]Point, 0, len(c.track.points))
	for _, p := range c.track.points {
		out = append(out, Point{Slot: p.slot, Demand: float64(p.demand) / trackUnit, Middle: float64(p.middle) / trackUnit,
			Upper: float64(p.upper) / trackUnit, Want: int(p.want), Plain: int(p.plain)})
	}
	return out
}
