package lab

import (
	"slices"
	"sort"

	"plimsoll.dev/services/fleet"
)

// Workload is one row of the scoreboard: which clients of which model, thinned how far, over which span.
type Workload struct {
	Name    string
	Model   string
	Note    string // how it is built, in a sentence
	Seconds int
	From    int // first second that is judged as test; what lies before is history
	pick    func(s *Source)
}

const week = 7 * 86400

// Workloads of the scoreboard, in its order. How each is built is a choice; docs/replay.md gives the reasons.
func Workloads() []Workload {
	return []Workload{
		{Name: "tenA", Model: "m-large", Seconds: 2 * week, From: week, Note: "ten clients as they are", pick: pickTenA},
		{Name: "largeS", Model: "m-large", Seconds: 2 * week, From: week, Note: "all clients, thinned to 6 requests per second", pick: func(s *Source) { s.thinToRate(6) }},
		{Name: "midM", Model: "m-mid", Seconds: 2 * week, From: week, Note: "all clients but one, thinned to 9.5 replicas", pick: pickMidM},
		{Name: "r1", Model: "deepseek-r1", Seconds: 86400, Note: "all clients, one day, thinned to 16.4 replicas", pick: func(s *Source) { s.thinToWork(16.4) }},
		{Name: "tenJumpy", Model: "m-large", Seconds: 2 * week, From: week, Note: "ten clients as they are, some of which jump tenfold within minutes", pick: pickTenJumpy},
		{Name: "tenSpiky", Model: "m-large", Seconds: 2 * week, From: week, Note: "seven clients that are on and off", pick: pickSpiky},
	}
}

// Build draws the workload from the clients of its model.
func (w *Workload) Build(clients []Client, seed uint64, r Replica) (*Trace, error) {
	s := &Source{Name: w.Name, Clients: clients, Keep: 1, Seconds: w.Seconds, Seed: seed, Replica: r}
	if len(clients) == 0 || pool(clients) == nil {
		return nil, fleet.Errorf(fleet.CodeInvalid, "workload %s: the data hold no clients of %s with tokens", w.Name, w.Model)
	}
	w.pick(s)
	t, err := Draw(*s)
	if err != nil {
		return nil, err
	}
	t.From = w.From / SlotSeconds
	return t, nil
}

// thinToRate keeps so many requests per second on average.
func (s *Source) thinToRate(rate float64) {
	sum := 0.0
	for _, c := range s.Clients {
		for _, w := range c.Rates {
			sum += w.Rate * rateWindow
		}
	}
	s.Keep = min(1, rate*float64(s.Seconds)/max(sum, rate))
}

// thinToWork keeps so many replicas of work on average.
func (s *Source) thinToWork(work float64) {
	sum := 0.0
	for i := range s.Clients {
		sum += s.Work(&s.Clients[i], 0, s.Seconds)
	}
	s.Keep = min(1, work/max(sum, 1e-9))
}

// clientWork is a client with its mean and largest need in replicas over ten minutes, and the share of windows it is active in.
type clientWork struct {
	client     Client
	mean, peak float64
	active     float64
}

func (s *Source) ranked() []clientWork {
	out := make([]clientWork, 0, len(s.Clients))
	for _, c := range s.Clients {
		k := clientWork{client: c, mean: s.Work(&c, 0, s.Seconds), active: float64(len(c.Rates)*rateWindow) / float64(s.Seconds)}
		for _, w := range c.Rates {
			k.peak = max(k.peak, s.Work(&Client{Rates: []RateWindow{w}, Tokens: c.Tokens}, w.Offset, w.Offset+rateWindow))
		}
		out = append(out, k)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].mean > out[j].mean })
	return out
}

func (s *Source) keep(want int, ok func(k clientWork) bool) {
	kept := []Client{}
	s.mix = pool(s.Clients)
	for _, k := range s.ranked() {
		if ok(k) && len(kept) < want {
			kept = append(kept, k.client)
		}
	}
	slices.SortFunc(kept, func(a, b Client) int { return a.ID - b.ID })
	s.Clients = kept
}

// pickTenA takes the ten largest of the clients that are nearly always there, none over two replicas on average or nine times its mean at peak.
func pickTenA(s *Source) {
	s.keep(10, func(k clientWork) bool { return k.active >= 0.7 && k.mean < 2 && k.peak <= 9*k.mean })
}

// pickTenJumpy is the same without the limit on peaks: harder than any workload of the specification.
func pickTenJumpy(s *Source) {
	s.keep(10, func(k clientWork) bool { return k.active >= 0.7 && k.mean < 2 && k.peak < 10 })
}

// pickSpiky takes the seven largest of those that come and go.
func pickSpiky(s *Source) {
	s.keep(7, func(k clientWork) bool { return k.active < 0.5 && k.peak < 40 })
}

// pickMidM leaves out the clients that alone would need more than all others together, then thins.
func pickMidM(s *Source) {
	s.keep(maxClients, func(k clientWork) bool { return k.peak < 1000 })
	s.thinToWork(9.5)
}
