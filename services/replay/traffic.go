package replay

import (
	"math"

	"plimsoll.dev/services/fleet"
)

const (
	hourMillis = 3_600_000
	dayMillis  = 24 * hourMillis
)

// Cycle is traffic made by people: a daily wave, quieter weekends, slow drift, and bursts that come by chance (Poisson), rise within a
// minute and die away. Stream tells several cycles of one seed apart.
type Cycle struct {
	Seed, Stream        uint64
	Low, High           float64 // requests per second at the quietest and the busiest hour of a working day
	PeakHour            float64 // hour of day (UTC) of the busiest moment
	Sharpness           float64 // over 1 makes the busy time shorter; default 1
	Weekend             float64 // factor on Saturday and Sunday; default 1
	Noise               float64 // sigma of the slow multiplicative drift
	BurstsPerDay        float64
	BurstHeight         float64 // mean extra load of a burst, in multiples of the load without it
	BurstSeconds        float64 // mean length
	TokensIn, TokensOut float64 // means per request
	TokenDrift          float64 // sigma of the drift of both
	WorkingDay          bool    // bursts only between 06:00 and 22:00
}

// At implements Source.
func (c Cycle) At(ms int64) Load {
	hour := float64(ms%dayMillis) / hourMillis
	wave := 0.5 * (1 + math.Cos(2*math.Pi*(hour-c.PeakHour)/24))
	if c.Sharpness > 0 && c.Sharpness != 1 {
		wave = math.Pow(wave, c.Sharpness)
	}
	rate := c.Low + (c.High-c.Low)*wave
	if day := weekday(ms); (day == 0 || day == 6) && c.Weekend > 0 {
		rate *= c.Weekend
	}
	if c.Noise > 0 {
		drift := 0.8*c.drift(ms, 20*60_000, 0) + 0.6*c.drift(ms, 4*60_000, 1)
		rate *= math.Exp(c.Noise*drift - c.Noise*c.Noise/2)
	}
	if c.BurstsPerDay > 0 {
		rate *= 1 + c.burst(ms)
	}
	in, out := c.TokensIn, c.TokensOut
	if c.TokenDrift > 0 {
		f := math.Exp(c.TokenDrift * c.drift(ms, 45*60_000, 2))
		in, out = in*f, out*math.Sqrt(f)
	}
	return Load{Rate: rate, TokensIn: in, TokensOut: out}
}

// weekday of a unix time: 0 is Sunday. 1970-01-01 was a Thursday.
func weekday(ms int64) int64 { return (ms/dayMillis + 4) % 7 }

// drift is smooth noise of unit variance: normal values at whole periods, joined by a cosine.
func (c Cycle) drift(ms, period int64, octave uint64) float64 {
	k := ms / period
	a := normal(draw(c.Seed, forNoise, c.Stream*8+octave, uint64(k)))
	b := normal(draw(c.Seed, forNoise, c.Stream*8+octave, uint64(k+1)))
	x := float64(ms%period) / float64(period)
	w := 0.5 * (1 - math.Cos(math.Pi*x))
	return (a*(1-w) + b*w) / math.Sqrt((1-w)*(1-w)+w*w)
}

// burst sums the bursts that began within the last two hours.
func (c Cycle) burst(ms int64) float64 {
	total := 0.0
	for k := ms/hourMillis - 2; k <= ms/hourMillis; k++ {
		if uniform(draw(c.Seed, forBurst, c.Stream*8, uint64(k))) > c.BurstsPerDay/24 {
			continue
		}
		begin := k*hourMillis + int64(hourMillis*uniform(draw(c.Seed, forBurst, c.Stream*8+1, uint64(k))))
		if hour := begin % dayMillis / hourMillis; c.WorkingDay && (hour < 6 || hour >= 22) {
			continue
		}
		age := float64(ms-begin) / 1000
		if age < 0 {
			continue
		}
		// Length and height are Gamma(2)-distributed: mostly moderate, now and then large.
		length := c.BurstSeconds * gamma2(c.Seed, c.Stream*8+2, uint64(k))
		height := c.BurstHeight * gamma2(c.Seed, c.Stream*8+4, uint64(k))
		rise := math.Min(1, age/45)
		fall := 1.0
		if age > length {
			fall = math.Exp(-(age - length) / 60)
		}
		total += height * rise * fall
	}
	return total
}

// gamma2 draws from a Gamma distribution of shape 2 and mean 1, cut at 3.
func gamma2(seed, stream, k uint64) float64 {
	v := (exponential(draw(seed, forBurst, stream, k)) + exponential(draw(seed, forBurst, stream+1, k))) / 2
	return math.Min(v, 3)
}

// Cron is work that a schedule puts into a queue: Count requests every Every seconds, Offset seconds after the full period, handed in
// over OverSeconds; each run varies by a third.
type Cron struct {
	Seed, Stream        uint64
	EverySeconds        int64
	OffsetSeconds       int64
	Count               float64
	OverSeconds         float64
	TokensIn, TokensOut float64
	SkipWeekends        bool
}

// At implements Source.
func (c Cron) At(ms int64) Load {
	every := c.EverySeconds * 1000
	if every <= 0 {
		every = hourMillis
	}
	since := ms - c.OffsetSeconds*1000
	k := since / every
	into := float64(since%every) / 1000
	load := Load{TokensIn: c.TokensIn, TokensOut: c.TokensOut}
	if day := weekday(ms); c.SkipWeekends && (day == 0 || day == 6) {
		return load
	}
	if c.OverSeconds > 0 && into < c.OverSeconds {
		size := math.Max(0.3, 1+normal(draw(c.Seed, forBurst, c.Stream*8, uint64(k)))/3)
		load.Rate = c.Count * size / c.OverSeconds
	}
	return load
}

// Sum is several sources into one workload; token means are weighted by rate.
type Sum []Source

// At implements Source.
func (s Sum) At(ms int64) Load {
	var total Load
	for _, part := range s {
		l := part.At(ms)
		total.Rate += l.Rate
		total.TokensIn += l.Rate * l.TokensIn
		total.TokensOut += l.Rate * l.TokensOut
	}
	if total.Rate > 0 {
		total.TokensIn /= total.Rate
		total.TokensOut /= total.Rate
	}
	return total
}

// checkLoad refuses what no source may say. It guards the World against a source that is not one of ours.
func checkLoad(l Load) error {
	if !positive(l.Rate, l.TokensIn, l.TokensOut) || l.Rate > 1e6 {
		return fleet.Errorf(fleet.CodeInvalid, "traffic of %v requests per second", l.Rate)
	}
	return nil
}
