package packing

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// drawProgram makes a program like those of packing: rows to cover, limits, and a column per row that covers only it.
func drawProgram(t *rapid.T) (*master, *rand.Rand) {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	cover, limits := rapid.IntRange(1, 40).Draw(t, "cover"), rapid.IntRange(0, 25).Draw(t, "limits")
	rhs := make([]float64, cover+limits)
	var start []column
	for i := range rhs {
		rhs[i] = float64(1 + r.IntN(50))
		if i < cover {
			start = append(start, column{off: -1, cost: 50 + r.Float64(), rows: []int32{int32(i)}, vals: []float64{float64(1 + r.IntN(3))}})
		}
	}
	return newMaster(rhs, cover, start), r
}

func drawColumns(lp *master, r *rand.Rand, n int) {
	for range n {
		c := column{off: 0, cost: 0.1 + 10*r.Float64()}
		at := r.Perm(lp.cover)
		for _, i := range at[:1+r.IntN(min(lp.cover, 6))] {
			c.rows, c.vals = append(c.rows, int32(i)), append(c.vals, float64(1+r.IntN(9)))
		}
		for i := lp.cover; i < lp.m; i++ {
			if r.IntN(4) == 0 {
				c.rows, c.vals = append(c.rows, int32(i)), append(c.vals, float64(1+r.IntN(9)))
			}
		}
		lp.add(c)
	}
}

// optimal tells how far a program's solution is from a proof of itself: the rows hold, nothing could still gain, and cost and duals agree.
func optimal(lp *master) (worst float64) {
	worst = lp.residual()
	for _, x := range lp.x {
		worst = max(worst, -x)
	}
	for j := range lp.cols {
		worst = max(worst, -lp.reduced(&lp.cols[j])/max(1e-3, lp.cols[j].cost))
	}
	sum := 0.0
	for r, y := range lp.y {
		worst = max(worst, lp.sign(r)*y)
		sum += y * lp.rhs[r]
	}
	return max(worst, math.Abs(sum-lp.value())/(1+lp.value()))
}

func TestAProgramEndsWithTheProofOfItsOptimum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lp, r := drawProgram(t)
		last := math.Inf(1)
		for round := range rapid.IntRange(1, 12).Draw(t, "rounds") { // column generation: each time from the solution before
			drawColumns(lp, r, 1+r.IntN(30))
			lp.solve(20_000)
			if w := optimal(lp); w > 1e-6 {
				t.Fatalf("round %d: off by %g", round, w)
			}
			if v := lp.value(); v > last*(1+1e-9) {
				t.Fatalf("round %d: more columns cost more, %g after %g", round, v, last)
			}
			last = lp.value()
			if round%3 == 2 {
				lp.prune(lp.m + 20)
			}
		}
	})
}

func TestFactorsSolveAfterManyExchangesAsWhenTheyWereMade(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lp, r := drawProgram(t)
		drawColumns(lp, r, 150)
		lp.solve(rapid.IntRange(0, 190).Draw(t, "exchanges"))
		x, y := append([]float64(nil), lp.x...), append([]float64(nil), lp.y...)
		lp.refactor()
		if len(lp.f.swaps) > 0 {
			t.Fatal("a basis that was reached is singular")
		}
		for i := range x {
			if d := math.Abs(x[i] - lp.x[i]); d > 1e-6*(1+math.Abs(x[i])) {
				t.Fatalf("value %d is %g, anew %g", i, x[i], lp.x[i])
			}
			if d := math.Abs(y[i] - lp.y[i]); d > 1e-6*(1+math.Abs(y[i])) {
				t.Fatalf("dual %d is %g, anew %g", i, y[i], lp.y[i])
			}
		}
	})
}

func TestASingularBasisHasNoFactors(t *testing.T) {
	t.Parallel()
	f := factorize(3, nil, func(add func(row, col int32, v float64)) {
		for c := range int32(3) { // the third is the sum of the first two
			add(0, c, []float64{1, 0, 1}[c]+1e-300)
			add(1, c, []float64{2, 1, 3}[c])
			add(2, c, []float64{0, 4, 4}[c]+1e-300)
		}
	})
	if f != nil {
		t.Error("factors of a singular basis")
	}
}
