package tabular

import (
	"math"
	"math/big"
)

const (
	maxDigits = 1 << 10 // maximum length of a decimal number; longer ones are too slow
	maxScale  = 1000    // maximum digits after the point, or zeros before it
)

// Decimal returns a decimal number from its unscaled value, in big-endian two's complement, and its scale.
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
	if scale >= 0 && scale <= 22 && unscaled.CmpAbs(big.NewInt(1<<53)) <= 0 { // exact in float64, so the quotient is correctly rounded
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
