package tabular

import (
	"math"
	"math/big"
)

const (
	maxDigits = 1 << 10 // bytes of a decimal number; more take too long
	maxScale  = 1000    // digits behind the point, and zeros before it
)

// Decimal returns the number that big-endian digits are in two's complement, with so many of them behind the point.
func Decimal(digits []byte, scale int) Cell {
	switch {
	case len(digits) == 0:
		return Integer(0)
	case len(digits) > maxDigits || scale > maxScale || scale < -maxScale:
		return Object()
	}
	unscaled := new(big.Int).SetBytes(digits)
	if digits[0] >= 0x80 {
		unscaled.Sub(unscaled, new(big.Int).Lsh(big.NewInt(1), uint(8*len(digits))))
	}
	if scale == 0 && unscaled.IsInt64() {
		return Integer(unscaled.Int64())
	}
	if scale >= 0 && scale <= 22 && unscaled.CmpAbs(big.NewInt(1<<53)) <= 0 { // both are exact as float64, so the quotient is right
		return Float(float64(unscaled.Int64()) / math.Pow10(scale))
	}
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(scale, -scale))), nil)
	if scale < 0 {
		v, _ := new(big.Float).SetInt(unscaled.Mul(unscaled, power)).Float64()
		return Float(v)
	}
	v, _ := new(big.Rat).SetFrac(unscaled, power).Float64()
	return Float(v)
}
