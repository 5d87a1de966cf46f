package lab

import (
	"math"
	"math/rand/v2"
	"sort"

	"plimsoll.dev/services/fleet"
)

// Source says how a load is drawn from clients.
type Source struct {
	Name    string
	Clients []Client
	Keep    float64 // every request is kept with this chance; 1 keeps all
	Seconds int     // length
	Seed    uint64
	Replica Replica
	// mix of tokens for clients that publish none; default: of all clients.
	mix []TokenWindow
}

// Draw makes the requests of every client one by one and adds up what they hold. Arrivals are a renewal process in operational time: a
// client's rate sets how fast that time runs, the published coefficient of variation the shape of the gamma-distributed steps, and
// thinning adds up a geometric number of steps, which is exact for gamma steps (Weibull ones are matched by their variation). Tokens are
// drawn from the published quantiles, input and output independent. This is a resampling: rates and spreads are the source's, the single
// requests are not. Sums are integers, so neither order nor rounding changes a trace.
func Draw(s Source) (*Trace, error) {
	if s.Seconds <= 0 || s.Seconds > maxSlots*SlotSeconds || s.Seconds%SlotSeconds != 0 || !(s.Keep > 0 && s.Keep <= 1) || !s.Replica.Valid() || len(s.Clients) == 0 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "load %s: %d clients over %d s, keeping %v of the requests: impossible", s.Name, len(s.Clients), s.Seconds, s.Keep)
	}
	d := &drawing{source: s, slots: make([]tally, s.Seconds/SlotSeconds+1), skip: 1}
	if s.Keep < 1 {
		d.skip = -1 / math.Log1p(-s.Keep)
	}
	if len(d.source.mixed()) == 0 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "load %s: no client has a distribution of tokens", s.Name)
	}
	for i := range s.Clients {
		d.client(&s.Clients[i])
	}
	return d.trace()
}

// tally is one slot: work that begins or ends in it changes the level from the next slot on. Work is in microseconds x millionths of a replica.
type tally struct {
	inside   int64 // work of the slot itself beyond the level
	level    int64 // change of the level, in millionths of a replica, from the next slot on
	requests int64
}

const (
	micro       = 1_000_000
	slotMicro   = SlotSeconds * micro
	tokenLevels = 256
)

type drawing struct {
	source   Source
	slots    []tally
	skip     float64 // mean of the exponential whose whole part counts the requests that are left out
	held     int64   // work of all requests
	inFlight int64   // their time in service
}

// client draws one caller's requests.
func (d *drawing) client(c *Client) {
	tokens := d.source.tokens(c)
	r := rand.New(rand.NewPCG(d.source.Seed, uint64(c.ID)*0x9e3779b97f4a7c15+1)) //nolint:gosec // mixed into a seed: wrapping around is meant
	mix := mixer{replica: d.source.Replica, windows: tokens, at: -1}
	end := float64(d.source.Seconds)
	left := -1.0 // operational time to the next arrival; drawn with the first window
	for i := range c.Rates {
		w := &c.Rates[i]
		from, to := float64(w.Offset), math.Min(float64(w.Offset+rateWindow), end)
		if from >= end {
			return
		}
		shape := shapeOf(w.CV)
		if left < 0 {
			left = d.step(r, shape) * r.Float64()
		}
		mix.moveTo(w.Offset)
		for at := from; ; {
			if next := at + left/w.Rate; next < to {
				at = next
				d.request(int64(at*micro), mix.draw(r))
				left = d.step(r, shape)
				continue
			}
			left -= (to - at) * w.Rate
			break
		}
	}
}

// shapeOf is the shape of a gamma distribution with this coefficient of variation, held to what can be drawn.
func shapeOf(cv float64) float64 { return 1 / math.Min(math.Max(cv*cv, 0.01), 400) }

// step is the operational time to the next request that is kept.
func (d *drawing) step(r *rand.Rand, shape float64) float64 {
	n := 1.0
	if d.source.Keep < 1 { // geometric: how many steps to one that is kept
		n += math.Floor(r.ExpFloat64() * d.skip)
	}
	a := n * shape
	if a > 0.95 && a < 1.05 { // as good as exponential
		return r.ExpFloat64() * n
	}
	return gamma(r, a) / shape
}

// gamma draws by Marsaglia and Tsang (2000), below shape 1 with their power of a uniform.
func gamma(r *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(r, shape+1) * math.Pow(1-r.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		u := 1 - r.Float64()
		if u < 1-0.0331*x*x*x*x || math.Log(u) < 0.5*x*x+d*(1-v+math.Log(v)) {
			return d * v
		}
	}
}

// job is what one request costs: prefill alone on a replica, then a place in the batch.
type job struct{ prefill, decode int64 } // microseconds

// request adds one request that starts at a time.
func (d *drawing) request(at int64, j job) {
	place := int64(math.Round(micro / (d.source.Replica.OutputPerSecond * d.source.Replica.SecondsPerToken)))
	d.change(at, micro)
	d.change(at+j.prefill, place-micro)
	d.change(at+j.prefill+j.decode, -place)
	d.slots[at/slotMicro].requests++
	d.held += j.prefill + j.decode/micro*place + j.decode%micro*place/micro
	d.inFlight += j.prefill + j.decode
}

// change moves the level at a time by millionths of a replica.
func (d *drawing) change(at, by int64) {
	s := at / slotMicro
	if s >= int64(len(d.slots)) {
		return
	}
	d.slots[s].inside += (slotMicro - at%slotMicro) * by
	d.slots[s].level += by
}

func (d *drawing) trace() (*Trace, error) {
	if d.inFlight == 0 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "load %s: no request at all", d.source.Name)
	}
	n := len(d.slots) - 1
	t := &Trace{Name: d.source.Name, Rho: make([]float64, n), Requests: make([]float64, n), Share: float64(d.held) / float64(d.inFlight), To: n}
	level := int64(0)
	for i := range n {
		t.Rho[i] = (float64(level)*slotMicro + float64(d.slots[i].inside)) / (micro * slotMicro)
		t.Requests[i] = float64(d.slots[i].requests)
		level += d.slots[i].level
	}
	return t, t.Check()
}

// mixer draws jobs from the token distribution in force.
type mixer struct {
	replica Replica
	windows []TokenWindow
	at      int // index of the window that the tables are of
	prefill [tokenLevels]int64
	decode  [tokenLevels]int64
}

// moveTo takes the newest window that is not later than offset, or the first.
func (m *mixer) moveTo(offset int) {
	i := max(0, sort.Search(len(m.windows), func(i int) bool { return m.windows[i].Offset > offset })-1)
	if i == m.at {
		return
	}
	m.at = i
	w := &m.windows[i]
	table(&m.prefill, w.Input, micro/m.replica.PromptPerSecond)
	table(&m.decode, w.Output, micro*m.replica.SecondsPerToken)
}

func (m *mixer) draw(r *rand.Rand) job {
	bits := r.Uint64()
	return job{m.prefill[bits%tokenLevels], m.decode[bits/tokenLevels%tokenLevels]}
}

// table samples the quantile function of a spread evenly: straight lines in the logarithm between the published points, over the
// logarithm of the tail's weight; then all is scaled so that the mean is the published one.
func table(out *[tokenLevels]int64, s Spread, perToken float64) {
	p50, p90, p99 := max(s.P50, 1), max(s.P90, 1), max(s.P99, 1)
	sum := 0.0
	var v [tokenLevels]float64
	for i := range v {
		u := (float64(i) + 0.5) / tokenLevels
		switch {
		case u < 0.5: // the lower half mirrors the step from p50 to p90
			v[i] = p50 * math.Pow(p50/p90, (0.5-u)/0.4)
		case u < 0.9:
			v[i] = p50 * math.Pow(p90/p50, math.Log2(0.5/(1-u))/math.Log2(5))
		default:
			v[i] = p90 * math.Pow(p99/p90, math.Log10(0.1/(1-u)))
		}
		sum += v[i]
	}
	scale := max(s.Mean, 1) * tokenLevels / sum
	for i := range v {
		out[i] = int64(math.Round(v[i] * scale * perToken))
	}
}

// pool is the mix of tokens of all clients together, weighted by rate.
func pool(clients []Client) []TokenWindow {
	var sum TokenWindow
	weight := 0.0
	for _, c := range clients {
		for _, w := range c.Tokens {
			sum.Input.add(w.Input, w.Rate)
			sum.Output.add(w.Output, w.Rate)
			weight += w.Rate
		}
	}
	if weight == 0 {
		return nil
	}
	sum.Input.divide(weight)
	sum.Output.divide(weight)
	return []TokenWindow{sum}
}

func (s *Spread) add(o Spread, weight float64) {
	s.Mean += weight * o.Mean
	s.P50 += weight * o.P50
	s.P90 += weight * o.P90
	s.P99 += weight * o.P99
}

func (s *Spread) divide(by float64) {
	*s = Spread{s.Mean / by, s.P50 / by, s.P90 / by, s.P99 / by}
}

// mixed is the mix of tokens for clients that publish none.
func (s *Source) mixed() []TokenWindow {
	if s.mix == nil {
		s.mix = pool(s.Clients)
	}
	return s.mix
}

func (s *Source) tokens(c *Client) []TokenWindow {
	if len(c.Tokens) == 0 {
		return s.mixed()
	}
	return c.Tokens
}

// Work is the replicas a client needs on average over a span, from the published rates and mean tokens.
func (s *Source) Work(c *Client, from, to int) float64 {
	tokens := s.tokens(c)
	sum := 0.0
	for _, w := range c.Rates {
		if w.Offset < from || w.Offset >= to {
			continue
		}
		t := &tokens[max(0, sort.Search(len(tokens), func(i int) bool { return tokens[i].Offset > w.Offset })-1)]
		sum += w.Rate * rateWindow * (t.Input.Mean/s.Replica.PromptPerSecond + t.Output.Mean/s.Replica.OutputPerSecond)
	}
	return sum / float64(to-from)
}
