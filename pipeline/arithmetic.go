package pipeline

import (
	"runtime"
	"strconv"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// numericsRevision counts the changes of this program that may change the bits of a run. Releases with one revision work on a run
// together. TestNumericsRevision says when it must be increased.
const numericsRevision = 7

// Values of the key `arithmetic`.
const (
	// ArithmeticStrict lets only processes with one arithmetic work on a run, so that its weights are the same to the bit.
	ArithmeticStrict = "strict"
	// ArithmeticAny lets machines of any kind work on a run. Its weights then differ in the last bits, as another machine might
	// have made each sum.
	ArithmeticAny = "any"
)

// arithmetic returns what decides, besides the terms, the bits of a sum in this process.
func arithmetic(blas *kernel.BLAS) schemas.Arithmetic {
	return schemas.Arithmetic{
		Numerics: strconv.Itoa(numericsRevision), Processor: runtime.GOARCH, BLAS: blas.Name(), Vector: blas.Vector(),
	}
}
