package fleet

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"sort"
	"strconv"
	"strings"
)

// Money is an exact amount in nano-units (1e-9) of a currency. The range of +-9.2 billion units covers any single
// account here; sums that would leave it panic in Add, since silently wrapped money is worse than a stopped job.
type Money int64

// NanosPerUnit is the number of nano-units in one unit of currency.
const NanosPerUnit = 1_000_000_000

// ParseMoney reads a plain decimal such as "98.32" or "-0.000000001". More than nine decimals, exponents, signs other
// than a leading minus, and anything out of range are errors.
func ParseMoney(s string) (Money, error) {
	text, neg := s, false
	if strings.HasPrefix(text, "-") {
		text, neg = text[1:], true
	}
	whole, frac, _ := strings.Cut(text, ".")
	if whole == "" || len(frac) > 9 || strings.HasPrefix(whole, "+") || strings.HasPrefix(whole, "-") {
		return 0, Errorf(CodeInvalid, "money %q is not a decimal with at most nine places", s)
	}
	n, err := strconv.ParseInt(whole+frac+strings.Repeat("0", 9-len(frac)), 10, 64)
	if err != nil || n < 0 {
		return 0, Errorf(CodeInvalid, "money %q is not a decimal in range", s)
	}
	if neg {
		n = -n
	}
	return Money(n), nil
}

// MoneyFromFloat rounds a price given as a float (a catalogue figure) to the nearest nano-unit. It is for reading prices
// at the border, never for sums. NaN, infinities and amounts out of range are errors.
func MoneyFromFloat(f float64) (Money, error) {
	v := math.Round(f * NanosPerUnit)
	if math.IsNaN(v) || v > math.MaxInt64/2 || v < math.MinInt64/2 {
		return 0, Errorf(CodeInvalid, "amount %v is not money", f)
	}
	return Money(v), nil
}

// Float returns the amount in units, for charts and ratios only.
func (m Money) Float() float64 { return float64(m) / NanosPerUnit }

// String prints units with all nine decimals trimmed of trailing zeros, at least two.
func (m Money) String() string {
	sign, n := "", uint64(m) //nolint:gosec // negative amounts are turned next
	if m < 0 {
		sign, n = "-", uint64(-m) // right for the smallest amount too, which wraps around
	}
	frac := strings.TrimRight(fmt.Sprintf("%09d", n%NanosPerUnit), "0")
	for len(frac) < 2 {
		frac += "0"
	}
	return fmt.Sprintf("%s%d.%s", sign, n/NanosPerUnit, frac)
}

// Add sums two amounts and panics on overflow.
func (m Money) Add(o Money) Money {
	s := m + o
	if (o > 0 && s < m) || (o < 0 && s > m) {
		panic("fleet: money overflow")
	}
	return s
}

// MulDiv returns m*num/den rounded half away from zero, with an exact 128-bit intermediate. den must be positive.
func (m Money) MulDiv(num, den int64) Money {
	if den <= 0 {
		panic("fleet: MulDiv by a divisor that is not positive")
	}
	if m >= 0 && num >= 0 {
		hi, lo := bits.Mul64(uint64(m), uint64(num))
		lo, carry := bits.Add64(lo, uint64(den)/2, 0)
		hi += carry
		if hi < uint64(den) {
			if q, _ := bits.Div64(hi, lo, uint64(den)); q <= math.MaxInt64 {
				return Money(q)
			}
		}
		panic("fleet: money overflow")
	}
	v := new(big.Int).Mul(big.NewInt(int64(m)), big.NewInt(num))
	half := big.NewInt(den / 2)
	if v.Sign() < 0 {
		half.Neg(half)
	}
	v.Add(v, half).Quo(v, big.NewInt(den))
	if !v.IsInt64() {
		panic("fleet: money overflow")
	}
	return Money(v.Int64())
}

// Split divides m over weights by largest remainder, so that the parts always add up to m exactly. Weights must not be
// negative. If all weights are zero the parts are all zero and rest is m; otherwise rest is zero. Ties go to the lower index.
func (m Money) Split(weights []int64) (parts []Money, rest Money) {
	parts = make([]Money, len(weights))
	total := new(big.Int)
	for _, w := range weights {
		if w < 0 {
			panic("fleet: negative weight")
		}
		total.Add(total, big.NewInt(w))
	}
	if total.Sign() == 0 {
		return parts, m
	}
	type remainder struct {
		i int
		r *big.Int
	}
	neg := m < 0
	amount := new(big.Int).Abs(big.NewInt(int64(m)))
	rems := make([]remainder, 0, len(weights))
	left := new(big.Int).Set(amount)
	for i, w := range weights {
		q, r := new(big.Int).QuoRem(new(big.Int).Mul(amount, big.NewInt(w)), total, new(big.Int))
		parts[i] = Money(q.Int64())
		left.Sub(left, q)
		rems = append(rems, remainder{i, r})
	}
	sort.SliceStable(rems, func(a, b int) bool { return rems[a].r.Cmp(rems[b].r) > 0 })
	for k := int64(0); k < left.Int64(); k++ {
		parts[rems[k].i]++
	}
	if neg {
		for i := range parts {
			parts[i] = -parts[i]
		}
	}
	return parts, 0
}
