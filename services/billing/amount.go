package billing

import (
	"math/big"
	"strconv"
	"strings"

	"plimsoll.dev/services/fleet"
)

const atto = 1_000_000_000_000_000_000 // parts of a unit

// maxUnit bounds one value, so that no sum over a file leaves an int64.
const maxUnit = 1_000_000_000_000

// Amount is a decimal with eighteen places, exact in sums: bills name prices far below a nano-unit. The zero value is 0.
type Amount struct {
	units int64 // rounded down
	atto  int64 // 0 to atto-1
}

// ParseSum reads what String wrote, of sums too.
func ParseSum(s string) (Amount, error) {
	text := strings.TrimPrefix(s, "-")
	whole, fraction, _ := strings.Cut(text, ".")
	units, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || units < 0 || len(fraction) > 18 || !allDigits(fraction) {
		return Amount{}, fleet.Errorf(fleet.CodeInvalid, "%q is no amount", clip(s))
	}
	a := Amount{units: units}
	if fraction != "" {
		if a.atto, err = strconv.ParseInt(fraction+strings.Repeat("0", 18-len(fraction)), 10, 64); err != nil {
			return Amount{}, fleet.Errorf(fleet.CodeInvalid, "%q is no amount", clip(s))
		}
	}
	if text != s {
		a = a.Neg()
	}
	return a, nil
}

// ParseAmount reads a decimal, also with an exponent. Digits past the eighteenth place are rounded half away from zero, and rounded says so.
func ParseAmount(s string) (a Amount, rounded bool, err error) {
	bad := func() (Amount, bool, error) {
		return Amount{}, false, fleet.Errorf(fleet.CodeInvalid, "%q is not a decimal number", clip(s))
	}
	text, negative := s, false
	if strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+") {
		negative, text = text[0] == '-', text[1:]
	}
	exponent := 0
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		if exponent, err = strconv.Atoi(text[at+1:]); err != nil || exponent < -60 || exponent > 30 {
			return bad()
		}
		text = text[:at]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	if len(whole)+len(fraction) == 0 || len(whole)+len(fraction) > 80 || !allDigits(whole) || !allDigits(fraction) {
		return bad()
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	places := len(fraction) - exponent
	if digits == "" {
		return Amount{}, false, nil
	}
	if len(digits)-places > 13 {
		return Amount{}, false, fleet.Errorf(fleet.CodeInvalid, "%q is out of range", clip(s))
	}
	if places <= 18 {
		digits += strings.Repeat("0", 18-places)
	} else {
		cut := len(digits) - (places - 18)
		tail := digits[max(cut, 0):]
		rounded = strings.Trim(tail, "0") != ""
		up := cut >= 0 && tail[0] >= '5'
		digits = digits[:max(cut, 0)]
		if digits == "" {
			digits = "0"
		}
		if up {
			n, _ := new(big.Int).SetString(digits, 10)
			digits = n.Add(n, big.NewInt(1)).String()
		}
	}
	if len(digits) <= 18 {
		a.atto, err = strconv.ParseInt(digits, 10, 64)
	} else {
		a.units, err = strconv.ParseInt(digits[:len(digits)-18], 10, 64)
		if err == nil {
			a.atto, err = strconv.ParseInt(digits[len(digits)-18:], 10, 64)
		}
	}
	if err != nil || a.units > maxUnit {
		return Amount{}, false, fleet.Errorf(fleet.CodeInvalid, "%q is out of range", clip(s))
	}
	if negative {
		a = a.Neg()
	}
	return a, rounded, nil
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// AmountOf is a ledger's amount.
func AmountOf(m fleet.Money) Amount {
	units, rest := int64(m)/fleet.NanosPerUnit, int64(m)%fleet.NanosPerUnit
	if rest < 0 {
		units, rest = units-1, rest+fleet.NanosPerUnit
	}
	return Amount{units, rest * (atto / fleet.NanosPerUnit)}
}

// Add sums two amounts.
func (a Amount) Add(b Amount) Amount {
	s := Amount{a.units + b.units, a.atto + b.atto}
	if s.atto >= atto {
		s.units, s.atto = s.units+1, s.atto-atto
	}
	return s
}

// Neg is the amount with the other sign.
func (a Amount) Neg() Amount {
	if a.atto == 0 {
		return Amount{units: -a.units}
	}
	return Amount{-a.units - 1, atto - a.atto}
}

// Sub is a - b.
func (a Amount) Sub(b Amount) Amount { return a.Add(b.Neg()) }

// Sign is -1, 0 or 1.
func (a Amount) Sign() int {
	switch {
	case a.units < 0:
		return -1
	case a.units > 0 || a.atto > 0:
		return 1
	}
	return 0
}

// Cmp is -1, 0 or 1 as a is below, equal to or above b.
func (a Amount) Cmp(b Amount) int { return a.Sub(b).Sign() }

// Abs is the amount without its sign.
func (a Amount) Abs() Amount {
	if a.Sign() < 0 {
		return a.Neg()
	}
	return a
}

// Times is a times num over den, to eighteen places, rounded down. den must be above 0.
func (a Amount) Times(num, den Amount) Amount {
	q := new(big.Int).Mul(a.big(), num.big())
	q.Div(q, den.big())
	units, rest := new(big.Int).DivMod(q, big.NewInt(atto), new(big.Int))
	if !units.IsInt64() {
		return Amount{}
	}
	return Amount{units.Int64(), rest.Int64()}
}

func (a Amount) big() *big.Int {
	n := new(big.Int).Mul(big.NewInt(a.units), big.NewInt(atto))
	return n.Add(n, big.NewInt(a.atto))
}

// Float is for shares and charts only.
func (a Amount) Float() float64 { return float64(a.units) + float64(a.atto)/atto }

// Money rounds to nano-units, half away from zero. ok is false for what the ledger cannot hold.
func (a Amount) Money() (m fleet.Money, ok bool) {
	const nano = atto / fleet.NanosPerUnit
	abs := a.Abs()
	if abs.units >= 9_000_000_000 {
		return 0, false
	}
	m = fleet.Money(abs.units*fleet.NanosPerUnit + (abs.atto+nano/2)/nano)
	if a.Sign() < 0 {
		m = -m
	}
	return m, true
}

// String writes all places that are not zero, at least two.
func (a Amount) String() string {
	abs, sign := a.Abs(), ""
	if a.Sign() < 0 {
		sign = "-"
	}
	fraction := strconv.FormatInt(abs.atto, 10)
	fraction = strings.TrimRight(strings.Repeat("0", 18-len(fraction))+fraction, "0")
	for len(fraction) < 2 {
		fraction += "0"
	}
	return sign + strconv.FormatInt(abs.units, 10) + "." + fraction
}

// MarshalText implements encoding.TextMarshaler.
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Amount) UnmarshalText(text []byte) (err error) {
	*a, err = ParseSum(string(text))
	return err
}

// clip shortens a value for people.
func clip(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "..."
	}
	return s
}
