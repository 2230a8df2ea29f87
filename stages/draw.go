package stages

import (
	"math"

	"github.com/stagewise/stagewise/schemas/wire"
)

// Stream is an endless sequence of random draws. Draw i depends on i alone, so draws can be made in any order. To repeat them
// in another language:
//
//	mix(z)     = z₁ = z + 0x9e3779b97f4a7c15
//	             z₂ = (z₁ xor floor(z₁ / 2^30)) · 0xbf58476d1ce4e5b9
//	             z₃ = (z₂ xor floor(z₂ / 2^27)) · 0x94d049bb133111eb
//	             z₃ xor floor(z₃ / 2^31)                       (SplitMix64)
//	key        = mix(mix(mix(seed) xor stage) xor purpose)
//	word(i)    = mix(key + i · 0x9e3779b97f4a7c15)
//	uniform(i) = (floor(word(i) / 2^12) + 1/2) / 2^52        exact, and in (0, 1)
//	below(i,n) = floor(uniform(i) · n)
//	normal(i)  = sqrt(−2 ln uniform(2j)) · cos(2π uniform(2j+1))   for i = 2j
//	             sqrt(−2 ln uniform(2j)) · sin(2π uniform(2j+1))   for i = 2j + 1
//
// Integers are modulo 2^64. All else is in double precision, and is rounded when stored in a float32 matrix.
//
// A purpose is a number that identifies the use of the draws. A stage has one kind of features, so only the purposes of
// the same kind must differ. Directions and offsets, which several kinds draw, are below; a kind declares the others in
// its own file, as draw… constants from 1 to 15. Adding 16·l to a purpose gives it a stream for each factor l of a
// monomial.
//
// The zero value is a valid stream, but of no stage.
type Stream struct{ key uint64 }

// Purposes that several kinds share.
const (
	drawDirections = 1 // + 16·l for factor l of a monomial
	drawOffsets    = 2
)

// NewStream returns the draws of one stage for one purpose.
func NewStream(seed uint64, stage int, purpose uint64) Stream {
	return Stream{wire.Hash(seed, uint64(stage), purpose)}
}

// Word returns 64 random bits, draw i.
func (s Stream) Word(i uint64) uint64 { return wire.Mix(s.key + i*0x9e3779b97f4a7c15) }

// Uniform returns draw i from the uniform distribution on (0, 1). It is never 0 or 1.
func (s Stream) Uniform(i uint64) float64 { return (float64(s.Word(i)>>12) + 0.5) / (1 << 52) }

// Normal returns draw i from the standard normal distribution (Box and Muller 1958).
func (s Stream) Normal(i uint64) float64 {
	pair := i &^ 1
	radius, angle := math.Sqrt(-2*math.Log(s.Uniform(pair))), 2*math.Pi*s.Uniform(pair+1)
	if i == pair {
		return radius * math.Cos(angle)
	}
	return radius * math.Sin(angle)
}

// Below returns draw i, uniform over 0 … n−1, for n from 1 to 2^52.
func (s Stream) Below(i uint64, n int) int { return int(s.Uniform(i) * float64(n)) }
