package availability

import (
	_ "embed" // the bands
	"math"
	"strconv"
	"strings"
	"sync"

	"plimsoll.dev/services/fleet"
)

// Prior is what to believe of an offering that nobody has tried, at the age of one hour: rates per hour and the share of hours in
// which an attempt succeeds.
type Prior struct{ Loss, Return, Presence float64 }

// bandCentre is the middle of a published band of monthly interruptions (under 5 %, 5 to 10, 10 to 15, 15 to 20, over 20 %); the open
// one is taken at 30 %.
var bandCentre = [5]float64{0.025, 0.075, 0.125, 0.175, 0.30}

// What to believe by band, at the age of one hour. The open band is measured: nine zones of a GPU type that the bands put at over 20 %
// everywhere, first 22.75 days of the trace in docs/availability.md (958 losses, 961 returns, 44 % of the hours without capacity). The
// others have no such measurement: their loss is the published share, read as that of machines which live a day, and their hours
// without capacity are scaled by the share.
var (
	bandLoss = [5]float64{0.0028, 0.0085, 0.0145, 0.021, 0.53}
	bandGone = [5]float64{0.037, 0.11, 0.18, 0.26, 0.44}
)

const bandReturn = 0.55

// Purchases that the cloud does not take back.
var (
	onDemandPrior = Prior{Loss: 0.0005, Return: 0.5, Presence: 0.97}
	reservedPrior = Prior{Loss: 0.0005, Return: 0.5, Presence: 0.995}
)

// PriorOf gives the prior of an offering from the bands of its type, or the mean of all types where it has none.
func PriorOf(o fleet.Offering) Prior {
	switch o.Purchase {
	case fleet.PurchaseOnDemand:
		return onDemandPrior
	case fleet.PurchaseReserved:
		return reservedPrior
	default:
		t := bands()
		if e, ok := t.byType[o.InstanceType]; ok && o.Cloud == fleet.CloudAWS {
			return e.prior
		}
		return t.mean.prior
	}
}

// forPrice raises the hazard where the Spot price has come up to the on-demand price. In the published bands the level of the saving
// says nothing (15 to 17 % a month from 30 to 80 % saving), but pools that are pinned at on-demand are interrupted a quarter more.
func (p Prior) forPrice(ratio float64) Prior {
	p.Loss *= 1 + 0.25*clamp((ratio-0.8)/0.2, 0, 1)
	return p
}

// InterruptionShare is the published share of Spot machines of a type that are interrupted in a month, over all regions; the mean of
// all types where the type is not listed.
func InterruptionShare(cloud fleet.Cloud, instanceType string) float64 {
	t := bands()
	if e, ok := t.byType[instanceType]; ok && cloud == fleet.CloudAWS {
		return e.share
	}
	return t.mean.share
}

// BandsDate is the day of the published bands, YYYY-MM-DD.
func BandsDate() string { return bands().date }

//go:embed bands.tsv
var bandsText string

type bandTable struct {
	date   string
	mean   banded
	byType map[string]banded
}

type banded struct {
	share float64
	prior Prior
}

// mix is the mean over regions: of the shares and hours plainly, of the rates by their logarithms, since they lie far apart.
func mix(regions [5]float64) banded {
	var n, share, logLoss, gone float64
	for i, k := range regions {
		n += k
		share += k * bandCentre[i]
		logLoss += k * math.Log(bandLoss[i])
		gone += k * bandGone[i]
	}
	return banded{share / n, Prior{Loss: math.Exp(logLoss / n), Return: bandReturn, Presence: 1 - gone/n}}
}

// bands parses the embedded table once: "# ..." lines, "date <day>", then a type and how many regions put it into each band.
var bands = sync.OnceValue(func() bandTable {
	t := bandTable{byType: map[string]banded{}}
	var all [5]float64
	for line := range strings.Lines(bandsText) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || strings.HasPrefix(line, "#"):
			continue
		case fields[0] == "date":
			t.date = fields[1]
			continue
		case len(fields) != 1+len(all):
			panic("availability: the embedded bands are broken at " + fields[0])
		}
		var regions [5]float64
		for i, f := range fields[1:] {
			k, err := strconv.Atoi(f)
			if err != nil || k < 0 {
				panic("availability: the embedded bands are broken at " + fields[0])
			}
			regions[i] = float64(k)
			all[i] += float64(k)
		}
		t.byType[fields[0]] = mix(regions)
	}
	t.mean = mix(all)
	return t
})
