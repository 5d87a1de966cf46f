package market

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"plimsoll.dev/services/fleet"
)

// SuspectReason says why the guard does not believe a price.
type SuspectReason string

// Reasons for quarantine.
const (
	SuspectNotPositive  SuspectReason = "not_positive"  // zero or negative
	SuspectNotANumber   SuspectReason = "not_a_number"  // NaN or infinite
	SuspectTooHigh      SuspectReason = "too_high"      // above what any machine costs
	SuspectCurrency     SuspectReason = "currency"      // a currency that the history is not kept in
	SuspectOffHistory   SuspectReason = "off_history"   // five times off the median of the pool's own history
	SuspectOffOnDemand  SuspectReason = "off_on_demand" // Spot five times above on demand, or a first price below a twentieth of it
	SuspectOffCatalogue SuspectReason = "off_catalogue" // on demand five times off what the catalogue lists
	SuspectConflict     SuspectReason = "conflict"      // another price is known of the same pool and second
)

// SuspectReasons lists them all, for closed sets of labels.
func SuspectReasons() []SuspectReason {
	return []SuspectReason{SuspectNotPositive, SuspectNotANumber, SuspectTooHigh, SuspectCurrency, SuspectOffHistory, SuspectOffOnDemand, SuspectOffCatalogue, SuspectConflict}
}

// Suspect is a price that the guard kept out of the history.
type Suspect struct {
	Change   SpotChange
	Reason   SuspectReason
	Expected Listed // what it was held against; none for reasons that need no comparison
}

const (
	guardFactor = 5  // off by more than this, either way
	guardWindow = 64 // changes whose median is the history's level
	guardLeast  = 5  // changes that a level needs
	// Spot at a fifth of on demand is common (one row in thirteen of a year of AWS GPU prices), so the list price only judges
	// below a twentieth, and only while the pool has no history of its own.
	guardSpotFloor = 20
)

// ReadPrice reads a price as sources write it: a decimal, "" for none listed. More than nine decimals are rounded to the nearest
// nano-unit. A number that cannot be a price gives the reason; what is no number at all is an error.
func ReadPrice(text string) (Listed, SuspectReason, error) {
	if text == "" {
		return 0, "", nil
	}
	if m, ok := readDecimal(text); ok {
		switch {
		case m <= 0:
			return 0, SuspectNotPositive, nil
		case m > maxHourlyNano:
			return 0, SuspectTooHigh, nil
		}
		return Listed(m), "", nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.ContainsAny(text, "xX_pP") {
		return 0, "", fleet.Errorf(fleet.CodeInvalid, "%.40q is not a price", text)
	}
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return 0, SuspectNotANumber, nil
	case f <= 0:
		return 0, SuspectNotPositive, nil
	}
	m, err := fleet.MoneyFromFloat(f)
	switch {
	case err != nil || m > maxHourlyNano:
		return 0, SuspectTooHigh, nil //nolint:nilerr // what is no money is told as a suspect
	case m == 0:
		return 0, SuspectNotPositive, nil
	}
	return Listed(m), "", nil
}

// readDecimal reads a plain decimal of at most six digits before the point without going through a float.
func readDecimal(s string) (nano int64, ok bool) {
	neg := strings.HasPrefix(s, "-")
	if neg {
		s = s[1:]
	}
	whole, frac, point := strings.Cut(s, ".")
	if whole == "" || len(whole) > 6 || point && frac == "" || len(frac) > 40 {
		return 0, false
	}
	for i := range len(whole) {
		if whole[i] < '0' || whole[i] > '9' {
			return 0, false
		}
		nano = nano*10 + int64(whole[i]-'0')
	}
	for i := range 9 {
		nano *= 10
		if i < len(frac) {
			nano += int64(frac[i] - '0')
		}
	}
	for i := range len(frac) {
		if frac[i] < '0' || frac[i] > '9' {
			return 0, false
		}
	}
	if len(frac) > 9 && frac[9] >= '5' {
		nano++
	}
	if neg {
		nano = -nano
	}
	return nano, true
}

// Guard holds new prices of one pool against what is known of it.
type Guard struct {
	// Trust lets every price in that is one: for sources that are known to jump, such as the auctions before 2017.
	Trust bool
	// Since is the moment before which history does not count: a person said that the level had really changed. Unix seconds.
	Since int64
	// Catalogue is the on-demand price that the catalogue lists; none: no comparison.
	Catalogue Listed
}

// Joined is a history with new changes in it.
type Joined struct {
	Changes   []SpotChange // sorted
	Added     int          // new changes that were kept
	Unchanged int          // said what was known already
	Suspects  []Suspect    // sorted by time; not in Changes
}

// Join puts new changes into a stored history, both sorted by time. What is stored stays as it is, also where a new change before
// it says the same: it tells that another price of that second contradicts it. Joining the same changes twice gives the same history.
func (g Guard) Join(stored, fresh []SpotChange) Joined {
	if !slices.IsSortedFunc(fresh, func(a, b SpotChange) int { return cmp.Compare(a.At, b.At) }) {
		fresh = slices.Clone(fresh)
		sortChanges(fresh)
	}
	j := joiner{guard: g, out: make([]SpotChange, 0, len(stored)+len(fresh))}
	for len(stored) > 0 || len(fresh) > 0 {
		if len(fresh) == 0 || len(stored) > 0 && stored[0].At <= fresh[0].At {
			j.keep(stored[0])
			stored = stored[1:]
			continue
		}
		j.judge(fresh[0])
		fresh = fresh[1:]
	}
	j.result.Changes = j.out
	return j.result
}

type joiner struct {
	guard          Guard
	out            []SpotChange
	said           int64 // when something was believed last, new or not
	spot, onDemand window
	result         Joined
}

func (j *joiner) last() (SpotChange, bool) {
	if len(j.out) == 0 {
		return SpotChange{}, false
	}
	return j.out[len(j.out)-1], true
}

// keep appends a believed change.
func (j *joiner) keep(c SpotChange) {
	j.out, j.said = append(j.out, c), c.At
	if c.At >= j.guard.Since {
		j.spot.add(c.Spot)
		j.onDemand.add(c.OnDemand)
	}
}

func (j *joiner) judge(c SpotChange) {
	last, ok := j.last()
	switch {
	case ok && last.same(c):
		j.result.Unchanged++
		j.said = c.At
		return
	case ok && j.said == c.At:
		j.result.Suspects = append(j.result.Suspects, Suspect{c, SuspectConflict, last.Spot})
		return
	}
	if reason, expected := j.doubt(c); reason != "" {
		j.result.Suspects = append(j.result.Suspects, Suspect{c, reason, expected})
		return
	}
	j.keep(c)
	j.result.Added++
}

// doubt names what speaks against a price.
func (j *joiner) doubt(c SpotChange) (SuspectReason, Listed) {
	if j.guard.Trust {
		return "", 0
	}
	if level := j.onDemand.level(); off(c.OnDemand, level) {
		return SuspectOffHistory, level
	}
	if off(c.OnDemand, j.guard.Catalogue) {
		return SuspectOffCatalogue, j.guard.Catalogue
	}
	level := j.spot.level()
	if off(c.Spot, level) {
		return SuspectOffHistory, level
	}
	list := c.OnDemand
	if list == 0 {
		list = j.guard.Catalogue
	}
	if c.Spot > 0 && list > 0 && (c.Spot > list*guardFactor || level == 0 && c.Spot < list/guardSpotFloor) {
		return SuspectOffOnDemand, list
	}
	return "", 0
}

// off says whether two known prices are more than the guard's factor apart.
func off(a, b Listed) bool {
	return a > 0 && b > 0 && (a > b*guardFactor || b > a*guardFactor)
}

// window keeps the last prices and their order, for a running median.
type window struct {
	ring   [guardWindow]Listed
	sorted []Listed
	n      int
}

func (w *window) add(l Listed) {
	if l == 0 {
		return
	}
	if w.n >= guardWindow {
		i, _ := slices.BinarySearch(w.sorted, w.ring[w.n%guardWindow])
		w.sorted = slices.Delete(w.sorted, i, i+1)
	}
	w.ring[w.n%guardWindow] = l
	w.n++
	i, _ := slices.BinarySearch(w.sorted, l)
	w.sorted = slices.Insert(w.sorted, i, l)
}

// level is the median, none before there are enough prices.
func (w *window) level() Listed {
	if len(w.sorted) < guardLeast {
		return 0
	}
	return w.sorted[len(w.sorted)/2]
}
