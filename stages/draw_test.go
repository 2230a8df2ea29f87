package stages

import (
	"math"
	"testing"
)

// written is a second implementation of Stream, from its documentation alone.
type written struct{ key uint64 }

func mix(z uint64) uint64 {
	z1 := z + 0x9e3779b97f4a7c15
	z2 := (z1 ^ z1/(1<<30)) * 0xbf58476d1ce4e5b9
	z3 := (z2 ^ z2/(1<<27)) * 0x94d049bb133111eb
	return z3 ^ z3/(1<<31)
}

func stream(seed, stage, purpose uint64) written {
	return written{mix(mix(mix(seed)^stage) ^ purpose)}
}

func (w written) word(i uint64) uint64     { return mix(w.key + i*0x9e3779b97f4a7c15) }
func (w written) uniform(i uint64) float64 { return (float64(w.word(i)/(1<<12)) + 0.5) / (1 << 52) }

func (w written) normal(i uint64) float64 {
	j := i / 2
	radius, angle := math.Sqrt(-2*math.Log(w.uniform(2*j))), 2*math.Pi*w.uniform(2*j+1)
	if i%2 == 0 {
		return radius * math.Cos(angle)
	}
	return radius * math.Sin(angle)
}

func TestStreamIsAsDocumented(t *testing.T) {
	for _, seed := range []uint64{0, 1, math.MaxUint64} {
		for stage := range 3 {
			for _, purpose := range []uint64{drawDirections, drawOffsets, drawDirections + 16*7} {
				s, w := NewStream(seed, stage, purpose), stream(seed, uint64(stage), purpose)
				for _, i := range []uint64{0, 1, 2, 3, 1001, 1 << 40} {
					if s.Word(i) != w.word(i) || s.Uniform(i) != w.uniform(i) || s.Normal(i) != w.normal(i) {
						t.Fatalf("draw %d of (%d, %d, %d) is %x, %v, %v, documented %x, %v, %v", i, seed, stage, purpose,
							s.Word(i), s.Uniform(i), s.Normal(i), w.word(i), w.uniform(i), w.normal(i))
					}
					if got, want := s.Below(i, 10), int(w.uniform(i)*10); got != want {
						t.Errorf("draw %d below 10 is %d, documented %d", i, got, want)
					}
				}
			}
		}
	}
}

// The golden draws of seed 1, stage 2, purpose 3 come from a second implementation in Python.
func TestStreamGolden(t *testing.T) {
	s := NewStream(1, 2, 3)
	golden := []struct {
		word            uint64
		uniform, normal float64
	}{
		{0x12588d809dce88a7, 0.07166370763826013, 1.500225450873102},
		{0xdd034ea7d44e8739, 0.8633317146052893, -1.7380636509746996},
		{0x5b70c9b40c7440b6, 0.35718975682944276, -1.4342108477385063},
		{0x814662edbdef0c19, 0.5049802618431692, -0.04489384801767252},
	}
	for i, want := range golden {
		i := uint64(i)
		if s.Word(i) != want.word || s.Uniform(i) != want.uniform || math.Abs(s.Normal(i)-want.normal) > 1e-15 {
			t.Errorf("draw %d is {%#x, %v, %v}, expected %+v", i, s.Word(i), s.Uniform(i), s.Normal(i), want)
		}
	}
}
