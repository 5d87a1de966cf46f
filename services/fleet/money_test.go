package fleet

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestPartsOfASplitAddUpToTheWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := Money(rapid.Int64Range(-math.MaxInt64, math.MaxInt64).Draw(t, "amount"))
		weights := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(0, 5), rapid.Int64Range(0, math.MaxInt64)), 0, 12).Draw(t, "weights")
		parts, rest := m.Split(weights)
		sum := rest
		heaviest, total := 0, new(big.Int)
		for i, p := range parts {
			sum = sum.Add(p)
			total.Add(total, big.NewInt(weights[i]))
			if (p > 0) != (m > 0) && p != 0 {
				t.Fatalf("part %d of %d is %d", i, m, p)
			}
			if weights[i] == 0 && p != 0 {
				t.Fatalf("a weight of 0 gets %d", p)
			}
			if weights[i] > weights[heaviest] {
				heaviest = i
			}
		}
		if sum != m {
			t.Fatalf("%v over %v adds up to %v", m, weights, sum)
		}
		if total.Sign() == 0 {
			if rest != m {
				t.Fatalf("without weights the rest of %v is %v", m, rest)
			}
			return
		}
		// Each part is its share of the whole, rounded to one of the two amounts around it.
		for i, p := range parts {
			share := new(big.Rat).Quo(new(big.Rat).SetInt(new(big.Int).Mul(big.NewInt(int64(m)), big.NewInt(weights[i]))), new(big.Rat).SetInt(total))
			off := share.Sub(share, new(big.Rat).SetInt64(int64(p)))
			if off.Abs(off).Cmp(big.NewRat(1, 1)) >= 0 {
				t.Fatalf("part %d of %v over %v is %v, its share is %s away", i, m, weights, p, off.FloatString(3))
			}
			if a, b := parts[heaviest], p; m > 0 && a < b || m < 0 && a > b {
				t.Fatalf("the heaviest weight gets %v, another gets %v", a, b)
			}
		}
	})
}

func TestMulDivRoundsOnceAndHalfAwayFromZero(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		m        Money
		num, den int64
		want     Money
	}{
		{5, 1, 2, 3}, {-5, 1, 2, -3}, {4, 1, 3, 1}, {5, 1, 3, 2}, {0, 7, 9, 0}, {7, 0, 9, 0}, {-7, 0, 9, 0}, {7, -1, 2, -4},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64}, {math.MaxInt64, 3, 3, math.MaxInt64}, {NanosPerUnit, 3599, 3600, 999722222},
	} {
		if got := c.m.MulDiv(c.num, c.den); got != c.want {
			t.Errorf("%d x %d / %d = %d, want %d", c.m, c.num, c.den, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		m, num, den := rapid.Int64().Draw(t, "m"), rapid.Int64Range(-1000, 1000).Draw(t, "num"), rapid.Int64Range(1000, math.MaxInt64).Draw(t, "den")
		exact := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(m), big.NewInt(num)), big.NewInt(den))
		off := exact.Sub(exact, new(big.Rat).SetInt64(int64(Money(m).MulDiv(num, den))))
		if off.Abs(off).Cmp(big.NewRat(1, 2)) > 0 {
			t.Fatalf("%d x %d / %d is %s off", m, num, den, off.FloatString(3))
		}
	})
}

func TestMoneyThatDoesNotFitStopsInsteadOfWrapping(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(){
		"sum above": func() { Money(math.MaxInt64).Add(1) },
		"sum below": func() { Money(math.MinInt64).Add(-1) },
		"product":   func() { Money(math.MaxInt64).MulDiv(2, 1) },
		"negative":  func() { Money(math.MinInt64).MulDiv(2, 1) },
		"divisor":   func() { Money(1).MulDiv(1, 0) },
		"weight":    func() { Money(1).Split([]int64{1, -1}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: went on", name)
				}
			}()
			f()
		}()
	}
}

func TestMoneyIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Money{"98.32": 98_320_000_000, "-0.000000001": -1, "0": 0, "-0": 0, "1.": NanosPerUnit, "9223372036.854775807": math.MaxInt64} {
		if got, err := ParseMoney(text); err != nil || got != want {
			t.Errorf("%q is %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ".", "-", ".5", "1.0000000001", "1e3", "+1", "--1", "1.-5", "1.+5", "1,5", " 1", "NaN", "Inf", "0x1", "1_000", "9223372036.854775808", "99999999999999999999"} {
		if got, err := ParseMoney(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e10, -1e10} {
		if got, err := MoneyFromFloat(f); err == nil {
			t.Errorf("%v is read as %d", f, got)
		}
	}
	if got := Money(math.MinInt64).String(); got != "-9223372036.854775808" {
		t.Errorf("the smallest amount is written %s", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		m := Money(rapid.Int64Range(-math.MaxInt64, math.MaxInt64).Draw(t, "m"))
		if got, err := ParseMoney(m.String()); err != nil || got != m {
			t.Fatalf("%d is written %s and read as %d, %v", m, m, got, err)
		}
	})
}
