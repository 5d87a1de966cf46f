package quantile

// features is the most that a linear forecast may use.
const features = 12

// rls is recursive least squares with forgetting: the linear forecast that would have had the least weighted squared error so far.
type rls struct {
	weight     [features]float64
	covariance [features][features]float64
	forget     float64
	used       int // features that there are
}

func newRLS(forget float64, used int) rls {
	r := rls{forget: forget, used: used}
	for i := range used {
		r.covariance[i][i] = 1
	}
	return r
}

func (r *rls) predict(x *[features]float64) float64 {
	sum := 0.0
	for i := range r.used {
		sum += r.weight[i] * x[i]
	}
	return sum
}

// learn takes one observed value, of the given variance.
func (r *rls) learn(x *[features]float64, y, variance float64) {
	var gain [features]float64
	scale := r.forget * variance
	for i := range r.used {
		sum := 0.0
		for j := range r.used {
			sum += r.covariance[i][j] * x[j]
		}
		gain[i] = sum
		scale += x[i] * sum
	}
	miss := (y - r.predict(x)) / scale
	trace := 0.0
	for i := range r.used {
		r.weight[i] += gain[i] * miss
		for j := 0; j <= i; j++ {
			v := (r.covariance[i][j] - gain[i]*gain[j]/scale) / r.forget
			r.covariance[i][j], r.covariance[j][i] = v, v
		}
		trace += r.covariance[i][i]
	}
	if trace > float64(1000*r.used) { // directions that nothing excites must not blow up
		for i := range r.covariance {
			for j := range r.covariance[i] {
				r.covariance[i][j] /= 2
			}
		}
	}
}
