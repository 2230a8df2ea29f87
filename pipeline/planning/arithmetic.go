package planning

import (
	"runtime"
	"strconv"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// NumericsRevision counts the changes of this program that may change the bits of a run. Releases with one revision work on a run
// together. TestNumericsRevision says when it must be increased.
const NumericsRevision = 7

// Values of the key `arithmetic`.
const (
	// ArithmeticStrict restricts a run to processes with the same arithmetic, so that its weights are bit-identical.
	ArithmeticStrict = "strict"
	// ArithmeticAny lets machines of any kind work on a run. Its weights then differ in the last bits, as another machine might
	// have made each sum.
	ArithmeticAny = "any"
)

// Arithmetic returns the arithmetic of this process, which determines the bits of a sum together with its terms.
func Arithmetic(blas *kernel.BLAS) schemas.Arithmetic {
	return schemas.Arithmetic{
		Numerics: strconv.Itoa(NumericsRevision), Processor: runtime.GOARCH, BLAS: blas.Name(), Vector: blas.Vector(),
	}
}
