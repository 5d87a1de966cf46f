package replay

import (
	"fmt"
	"math"
)

// draw is randomness as a function: the same numbers give the same value, in whatever order they are asked for. It is what keeps the
// traffic of two worlds equal while their decisions differ.
func draw(seed uint64, a, b, c uint64) uint64 {
	h := mix(seed + 0x9e3779b97f4a7c15*(a+1))
	h = mix(h ^ (b+1)*0xd1342543de82ef95)
	return mix(h ^ (c+1)*0xaf251af3b0f025b5)
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood 2014), a bijection of 64 bits.
func mix(z uint64) uint64 {
	z ^= z >> 30
	z *= 0xbf58476d1ce4e5b9
	z ^= z >> 27
	z *= 0x94d049bb133111eb
	return z ^ z>>31
}

// uniform maps 64 bits to the open interval (0, 1).
func uniform(bits uint64) float64 { return (float64(bits>>11) + 0.5) / (1 << 53) }

// normal maps 64 bits to a standard normal value (Box-Muller on the two halves).
func normal(bits uint64) float64 {
	u := (float64(bits>>32) + 0.5) / (1 << 32)
	v := float64(bits&0xffffffff) / (1 << 32)
	return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v)
}

// exponential maps 64 bits to an exponential value of mean 1.
func exponential(bits uint64) float64 { return -math.Log(uniform(bits)) }

// poisson maps 64 bits to a Poisson count of the given mean: inversion for small means, a rounded normal from 40 up.
func poisson(mean float64, bits uint64) int64 {
	switch {
	case !(mean > 0):
		return 0
	case mean >= 40:
		return int64(math.Max(0, math.Round(mean+math.Sqrt(mean)*normal(bits))))
	}
	u, p, k := uniform(bits), math.Exp(-mean), int64(0)
	for sum := p; u > sum && k < 400; sum += p {
		k++
		p *= mean / float64(k)
	}
	return k
}

// fifth spreads a duration by a fifth around its mean, never under half of it.
func fifth(seconds float64, bits uint64) int64 {
	return int64(1000 * seconds * math.Max(0.5, 1+0.2*normal(bits)))
}

// uuid formats two draws as a version-8 UUID (RFC 9562: own content).
func uuid(seed, kind, number uint64) string {
	h, l := draw(seed, kind, number, 1), draw(seed, kind, number, 2)
	return fmt.Sprintf("%08x-%04x-8%03x-%04x-%012x", h>>32, h>>16&0xffff, h&0xfff, 0x8000|l>>48&0x3fff, l&0xffffffffffff)
}

// suffix makes the short random part of a pod name, in the alphabet that Kubernetes uses.
func suffix(bits uint64, n int) string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[bits%uint64(len(alphabet))]
		bits /= uint64(len(alphabet))
	}
	return string(b)
}

// What draws are for; the first number of draw.
const (
	forArrivals uint64 = iota + 1
	forNode
	forPod
	forGPU
	forBoot
	forPull
	forLoad
	forHazard
	forStock
	forNoise
	forBurst
	forName
	forTokens
	forMany // what an ordinary workload of a large demo is like
)
