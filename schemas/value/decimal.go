package value

import (
	"math"
	"math/big"
)

// MaxScale limits the digits of a decimal number after its point, or the zeros before it, because more take too long.
const MaxScale = 1000

// Decimal returns the number unscaled·10^−scale, correctly rounded, as a text with its digits is. scale is within ±[MaxScale].
func Decimal(unscaled *big.Int, scale int) float64 {
	if scale >= 0 && scale <= 22 && unscaled.CmpAbs(big.NewInt(maxWhole)) <= 0 { // exact in float64, so the quotient is correctly rounded
		return float64(unscaled.Int64()) / math.Pow10(scale)
	}
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(scale, -scale))), nil)
	if scale < 0 {
		v, _ := new(big.Float).SetInt(power.Mul(unscaled, power)).Float64()
		return v
	}
	v, _ := new(big.Rat).SetFrac(unscaled, power).Float64()
	return v
}

// BigEndian returns an integer from its bytes in two's complement.
func BigEndian(digits []byte) *big.Int {
	n := new(big.Int).SetBytes(digits)
	if len(digits) > 0 && digits[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(digits))))
	}
	return n
}
