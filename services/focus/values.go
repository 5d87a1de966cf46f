package focus

import (
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"
)

// format tells the right way to write a kind of value.
type format struct {
	text string
	ok   func(string) bool
}

var formats = map[valueKind]format{
	kindDecimal:  {"is a decimal number without separators or units", isDecimal},
	kindTime:     {"is a UTC time such as 2026-03-01T00:00:00Z", func(s string) bool { _, err := parseTime(s); return err == nil }},
	kindObject:   {"is a JSON object", isObject},
	kindUnit:     {"is a unit: words, optionally a time or count joined by a hyphen", func(s string) bool { return unitPattern.MatchString(s) || slices.Contains(currencies, s) }},
	kindCurrency: {"is an ISO 4217 code", func(s string) bool { return slices.Contains(currencies, s) }},
}

// isDecimal bounds the lengths: an exponent must not name a number that fills memory.
func isDecimal(s string) bool {
	s = strings.TrimPrefix(s, "-")
	mantissa := s
	if at := strings.IndexAny(s, "eE"); at >= 0 {
		exponent := s[at+1:]
		mantissa = s[:at]
		if exponent != "" && (exponent[0] == '+' || exponent[0] == '-') {
			exponent = exponent[1:]
		}
		if !digits(exponent, 2) {
			return false
		}
	}
	whole, fraction, point := strings.Cut(mantissa, ".")
	return digits(whole, 30) && (!point || digits(fraction, 30))
}

func digits(s string, most int) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= most
}

var unitPattern = regexp.MustCompile(`^([0-9]+ )?[A-Za-z][A-Za-z0-9]*([ -][A-Z][A-Za-z0-9]*)*(/[A-Z][A-Za-z0-9]*)?$`)

func parseTime(s string) (time.Time, error) { return time.Parse(timeFormat, s) }

// number reads a decimal; nil for null and for what is none.
func number(s string) *big.Rat {
	if !isDecimal(s) {
		return nil
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil
	}
	return r
}

// half is half of the last digit that s is written with.
func half(s string) *big.Rat {
	mantissa, exponent, scientific := strings.Cut(strings.ToLower(s), "e")
	places := 0
	if _, fraction, ok := strings.Cut(mantissa, "."); ok {
		places = len(fraction)
	}
	unit := big.NewRat(1, 2)
	if scientific {
		if e, ok := new(big.Rat).SetString("1e" + exponent); ok {
			unit.Mul(unit, e)
		}
	}
	return unit.Quo(unit, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)))
}

var one, two = big.NewRat(1, 1), big.NewRat(2, 1)

// twoNanos is what rounding a cost and sharing the remainder may add to a product.
var twoNanos = big.NewRat(2, 1_000_000_000)

// isProduct says whether cost = price times quantity, to the precision that the three are written with. whole is the quantity of the origin
// charge, if the row is a part of one: a part that is larger than the whole, beside a negative residual, carries the whole's rounding that many
// times. Null or unreadable: nothing to say.
func isProduct(cost, price, quantity, whole string) bool {
	c, p, q := number(cost), number(price), number(quantity)
	if c == nil || p == nil || q == nil {
		return true
	}
	room := new(big.Rat).Add(twoNanos, half(cost))
	if w := number(whole); w != nil && w.Sign() > 0 {
		if times := new(big.Rat).Quo(new(big.Rat).Abs(q), w); times.Cmp(one) > 0 {
			room.Mul(room, times)
		}
	}
	room.Add(room, new(big.Rat).Mul(half(price), new(big.Rat).Abs(q)))
	room.Add(room, new(big.Rat).Mul(new(big.Rat).Mul(half(quantity), two), new(big.Rat).Abs(p))) // a remainder that was shared is a whole digit
	off := new(big.Rat).Sub(c, new(big.Rat).Mul(p, q))
	return off.Abs(off).Cmp(room) <= 0
}

func isObject(s string) bool {
	_, ok := readObject(s)
	return ok
}

func readObject(s string) (map[string]any, bool) {
	if !strings.HasPrefix(strings.TrimSpace(s), "{") {
		return nil, false
	}
	var m map[string]any
	return m, json.Unmarshal([]byte(s), &m) == nil
}

// details is AllocatedMethodDetails.
type details struct {
	Elements []struct {
		AllocatedRatio json.Number
		UsageUnit      *string
		UsageQuantity  *json.Number
	}
}

func readDetails(s string) (d details, ok bool) {
	return d, json.Unmarshal([]byte(s), &d) == nil
}

func alphanumeric(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// quoted shortens a value for people.
func quoted(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "..."
	}
	return `"` + s + `"`
}

var currencies = strings.Fields(`AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF CHW CLF CLP
CNY COP COU CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS
KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR
PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD USN UYI UYU UYW UZS VED
VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWG`)
