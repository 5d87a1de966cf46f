package cloud

import (
	"math"
	"math/big"
	"strings"

	"plimsoll.dev/services/fleet"
)

// MaxHour is above what any machine costs per hour, in any of the currencies that are read here.
const MaxHour = fleet.Money(100_000 * fleet.NanosPerUnit)

// ReadHour reads a price per machine-hour. What cannot be one comes back as nil with the reason.
func ReadHour(text string) (*fleet.Money, SkipReason) {
	m, reason := ReadAmount(text)
	switch {
	case reason != "":
		return nil, reason
	case m <= 0:
		return nil, SkipNotPositive
	case m > MaxHour:
		return nil, SkipMalformed
	}
	return &m, ""
}

// HourFromFloat is ReadHour for clouds that write prices as JSON numbers.
func HourFromFloat(f *float64) (*fleet.Money, SkipReason) {
	if f == nil {
		return nil, SkipMissing
	}
	if math.IsNaN(*f) || math.Abs(*f) > MaxHour.Float() {
		return nil, SkipMalformed
	}
	m, err := fleet.MoneyFromFloat(*f)
	switch {
	case err != nil:
		return nil, SkipMalformed
	case m <= 0:
		return nil, SkipNotPositive
	}
	return &m, ""
}

// maxAmountText bounds a decimal before it is parsed: no price has more digits.
const maxAmountText = 40

// ReadAmount reads a decimal of any number of places, rounded half away from zero to the nano-unit.
func ReadAmount(text string) (fleet.Money, SkipReason) {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, SkipMissing
	}
	if len(text) > maxAmountText || strings.Trim(text, "0123456789.-") != "" || strings.Count(text, ".") > 1 || strings.LastIndex(text, "-") > 0 {
		return 0, SkipMalformed
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, SkipMalformed
	}
	r.Mul(r, big.NewRat(fleet.NanosPerUnit, 1))
	half := big.NewRat(int64(r.Sign()), 2)
	r.Add(r, half)
	n := new(big.Int).Quo(r.Num(), r.Denom())
	if !n.IsInt64() || n.Int64() > math.MaxInt64/2 || n.Int64() < math.MinInt64/2 {
		return 0, SkipMalformed
	}
	return fleet.Money(n.Int64()), ""
}
