package packing

// swapTries bounds how many exchanges are looked at for one pod without a place.
const swapTries = 600

// swaps finds places for pods that have none by exchange: another pod of the kind goes to a free place that the pod may not take, and
// the pod takes the other's. It returns those for whom no exchange was found. Gangs stay.
func (f *filler) swaps(missing []int) []int {
	var left []int
	for _, pod := range missing {
		if r := f.x.pods[pod].Rules; (r != nil && r.Gang != "") || !f.swap(pod) {
			left = append(left, pod)
		}
	}
	return left
}

func (f *filler) swap(pod int) bool {
	k, tries := f.kind[pod], 0
	var free []int // machines with places of the kind
	for n := range f.seats {
		if f.seats[n].free[k] > 0 {
			free = append(free, n)
		}
	}
	if len(free) == 0 {
		return false
	}
	for _, n := range f.holders[k] {
		if !f.inPlace(pod, n) {
			continue
		}
		for at := len(f.seats[n].pods) - 1; at >= 0; at-- {
			other := f.seats[n].pods[at]
			if r := f.x.pods[other].Rules; f.kind[other] != k || (r != nil && r.Gang != "") {
				continue
			}
			if tries++; tries > swapTries {
				return false
			}
			f.giveBack(other)
			if f.ok(pod, n) {
				f.take(pod, n)
				for _, to := range free {
					if to == n || !f.ok(other, to) {
						continue
					}
					f.take(other, to)
					if i := f.shapeOf(other); !f.zoned[i] || f.z.mayLeave(i, f.zone[f.seats[n].off]) {
						return true
					}
					f.giveBack(other)
				}
				f.giveBack(pod)
			}
			f.take(other, n)
		}
	}
	return false
}

// inPlace tells whether a pod's zones and pools allow a machine in general.
func (f *filler) inPlace(pod, n int) bool {
	i, off := f.shapeOf(pod), f.seats[n].off
	if f.zoned[i] && !f.z.elig[i][f.zone[off]] {
		return false
	}
	w := f.loadOf(pod)
	return w < 0 || f.held[[2]int{w, f.pool[off]}] < f.most[w]
}

// ok tells whether the rules allow a pod on a machine, its zone too.
func (f *filler) ok(pod, n int) bool {
	if i := f.shapeOf(pod); f.zoned[i] {
		zone := f.zone[f.seats[n].off]
		if !f.z.elig[i][zone] {
			return false
		}
		if _, may := f.z.may(i, zone); !may {
			return false
		}
	}
	return f.may(pod, n)
}
