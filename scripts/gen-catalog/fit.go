package main

import (
	"math"
	"sort"
)

// weight is what one vCPU, one GiB or one GPU of a model adds to the price of a machine, in nano-dollars an hour.
type weight struct {
	cloud, what string // cloud "*": over all clouds
	perHour     int64
}

// fitAll fits price = a*vCPU + b*GiB + sum(c_model * GPUs) by the least absolute relative error with
// coefficients that are never negative, per cloud and over all of them.
func fitAll(types []*machine) []weight {
	var all []weight
	for _, cloud := range []string{"*", "aws", "azure", "gcp"} {
		var rows []*machine
		for _, m := range types {
			if cloud == "*" || m.cloud == cloud {
				rows = append(rows, m)
			}
		}
		all = append(all, fit(cloud, rows)...)
	}
	return all
}

func fit(cloud string, types []*machine) []weight {
	names := []string{"cpu", "gib"}
	column := map[string]int{}
	for _, m := range types {
		if m.gpus > 0 {
			column[m.gpu] = 0
		}
	}
	var models []string
	for model := range column {
		models = append(models, model)
	}
	sort.Strings(models)
	for i, model := range models {
		column[model] = 2 + i
	}
	names = append(names, models...)

	// Iteratively re-weighted least squares comes close to the least absolute relative error, so that the price of a few exotic
	// machines (terabytes of memory, local disks) does not move the price of a core.
	var solution []float64
	for range 40 {
		gram, moment := normal(types, column, len(names), solution)
		solution = nonNegative(gram, moment)
	}
	weights := make([]weight, 0, len(names))
	for i, name := range names {
		weights = append(weights, weight{cloud, name, int64(math.Round(solution[i]*1e6)) * 1000}) // six places say enough
	}
	return weights
}

// normal makes the normal equations gram*x = moment of all rows, each divided by its price and weighted by the inverse of
// the error that the solution so far leaves on it.
func normal(types []*machine, column map[string]int, n int, solution []float64) (gram [][]float64, moment []float64) {
	gram, moment = make([][]float64, n), make([]float64, n)
	for i := range gram {
		gram[i] = make([]float64, n)
	}
	for _, m := range types {
		for _, p := range m.prices {
			if p.onDemand == 0 || home[m.cloud] != nil && !home[m.cloud][p.region] {
				continue
			}
			x, dollars := make([]float64, n), float64(p.onDemand)/nanos
			x[0], x[1] = float64(m.cpuMilli)/1000/dollars, float64(m.memMiB)/1024/dollars
			if m.gpus > 0 {
				x[column[m.gpu]] = float64(m.gpus) / dollars
			}
			weight := 1.0
			if solution != nil {
				miss := -1.0
				for i := range x {
					miss += x[i] * solution[i]
				}
				weight = 1 / math.Max(math.Abs(miss), 0.01)
			}
			for i := range x {
				moment[i] += weight * x[i]
				for j := range x {
					gram[i][j] += weight * x[i] * x[j]
				}
			}
		}
	}
	return gram, moment
}

// nonNegative minimises x'Gx/2 - m'x over x >= 0 by cyclic coordinate descent, which converges for a positive definite G.
func nonNegative(gram [][]float64, moment []float64) []float64 {
	x := make([]float64, len(moment))
	for range 200_000 {
		largest := 0.0
		for i := range x {
			if gram[i][i] == 0 {
				continue
			}
			slope := moment[i]
			for j := range x {
				slope -= gram[i][j] * x[j]
			}
			next := math.Max(0, x[i]+slope/gram[i][i])
			largest = math.Max(largest, math.Abs(next-x[i]))
			x[i] = next
		}
		if largest < 1e-12 {
			break
		}
	}
	return x
}
