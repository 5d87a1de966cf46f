package market

import (
	"hash/fnv"
	"math"
	"time"

	"plimsoll.dev/services/fleet"
)

// DemoSpotSource is what prices that are made up for the demo are labelled with, wherever they are shown.
const DemoSpotSource = "generated for the demo"

// DemoSpotEvery is how often the demo looks at a price.
const DemoSpotEvery = 6 * time.Hour

// DemoSpotPools lists pools for the demo whose list price the book knows: machines of three clouds, those of the demo cluster
// among them, in a few regions and zones.
func DemoSpotPools(b *PriceBook) []SpotPool {
	var pools []SpotPool
	for _, m := range []struct {
		cloud    fleet.Cloud
		machines []string
		regions  []string
		zones    []string // put behind the region; empty: one price for the region
	}{
		{fleet.CloudAWS, []string{"g4dn.xlarge", "g5.xlarge", "g5.2xlarge", "g6.xlarge", "g6.12xlarge", "m6i.2xlarge", "p4d.24xlarge", "p5.48xlarge"}, []string{"eu-west-1", "us-east-1", "us-west-2"}, []string{"a", "b", "c", "d"}},
		{fleet.CloudAzure, []string{"Standard_NC24ads_A100_v4", "Standard_ND96isr_H100_v5"}, []string{"eastus", "westeurope"}, []string{""}},
		{fleet.CloudGCP, []string{"a2-highgpu-1g", "a3-highgpu-8g", "g2-standard-8"}, []string{"europe-west4", "us-central1"}, []string{"-a", "-b", "-c"}},
	} {
		for _, region := range m.regions {
			for _, machine := range m.machines {
				if b.Price(fleet.Offering{Cloud: m.cloud, Region: region, InstanceType: machine, Purchase: fleet.PurchaseOnDemand}).List == nil {
					continue
				}
				for _, z := range m.zones {
					p := SpotPool{Cloud: m.cloud, Region: region, InstanceType: machine, Product: ProductLinux}
					if z != "" {
						p.Zone = region + z
					}
					pools = append(pools, p)
				}
			}
		}
	}
	return pools
}

// DemoSpot makes up what looks at a pool would have seen in [from, to): a level by the machine's price and place, drifts of weeks,
// days and hours, times of scarcity near the list price, and for dear machines times without Spot. It is a function of its
// arguments: a later call goes on where an earlier one ended. Looks that saw no change are in it.
func DemoSpot(seed uint64, p SpotPool, list fleet.Money, from, to time.Time) []SpotChange {
	g := demoWalk{seed: seed, kind: hashOf(string(p.Cloud), p.InstanceType), place: hashOf(string(p.Cloud), p.InstanceType, p.Region, p.Zone)}
	step := int64(DemoSpotEvery / time.Second)
	var out []SpotChange
	for at := (from.Unix() + step - 1) / step * step; at < to.Unix(); at += step {
		c := SpotChange{At: at + int64(g.uniform(9, at)*1200), OnDemand: Listed(list)} // a look takes place within twenty minutes
		if c.At >= to.Unix() {
			break
		}
		// Clouds publish Spot prices with four decimals.
		if share := g.share(at, list); share > 0 {
			c.Spot = max(100_000, Listed(math.Round(float64(list)*share/1e5))*1e5)
		}
		out = append(out, c)
	}
	return out
}

type demoWalk struct{ seed, kind, place uint64 }

// share of the list price; 0: no Spot.
func (g demoWalk) share(at int64, list fleet.Money) float64 {
	dear := list > 20*fleet.NanosPerUnit
	const day = 86400
	level := 0.28 + 0.14*fraction(g.kind^g.seed)
	scarce := 0.03 // chance of a scarce time that begins in a block of nine days
	if dear {
		level, scarce = level+0.18, 0.2
	}
	level *= 1 + 0.22*(fraction(g.place^g.seed)-0.5) + 0.09*g.drift(1, at, 19*day) + 0.025*g.drift(2, at, 3*day) + 0.004*g.drift(3, at, 10*3600)
	block := at / (9 * day)
	begin := block*9*day + int64(g.uniform(4, block)*3*day)
	if length := int64((1.5 + 4*g.uniform(5, block)) * day); g.uniform(6, block) < scarce && at >= begin && at < begin+length {
		if dear && g.uniform(7, block) < 0.3 && at >= begin+length/2 {
			return 0
		}
		// In within twelve hours, out as slowly.
		edge := math.Min(1, math.Min(float64(at-begin), float64(begin+length-at))/(12*3600))
		level += edge * (0.97 - level)
	}
	return math.Max(0.08, math.Min(1, level))
}

// drift is smooth noise of about unit variance.
func (g demoWalk) drift(stream uint64, at, period int64) float64 {
	k, x := at/period, float64(at%period)/float64(period)
	w := 0.5 * (1 - math.Cos(math.Pi*x))
	point := func(k int64) float64 { return 3.4 * (g.uniform(stream, k) - 0.5) }
	return point(k)*(1-w) + point(k+1)*w
}

func (g demoWalk) uniform(stream uint64, k int64) float64 {
	return fraction(scramble(g.seed^g.place) ^ stream*0x9e3779b97f4a7c15 ^ uint64(k)*0xd1342543de82ef95) //nolint:gosec // bits
}

// fraction maps a number to [0, 1).
func fraction(z uint64) float64 { return float64(scramble(z)>>11) / (1 << 53) }

// scramble is the finalizer of SplitMix64 (Steele, Lea, Flood 2014).
func scramble(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func hashOf(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = h.Write([]byte(p + "\x00"))
	}
	return h.Sum64()
}
