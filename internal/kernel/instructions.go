package kernel

import (
	"fmt"
	"slices"
	"strings"

	"github.com/viterin/vek/vek32"
)

//go:generate go run -C generate .

// The vector instructions that a process may choose by [UseVector].
const (
	vectorAVX2 = "avx2"
	vectorNone = "none"
)

// VectorError means that the chosen vector instructions are unavailable.
type VectorError struct {
	// Choice is the argument of UseVector.
	Choice string
	// Here lists the choices that this machine allows.
	Here []string
}

// Error describes the choice and what this machine allows.
func (e *VectorError) Error() string {
	if e.Choice == vectorAVX2 {
		return fmt.Sprintf("vector instructions %q: this machine does not have them, expected %s", e.Choice, strings.Join(e.Here, " or "))
	}
	return fmt.Sprintf("vector instructions %q: not known, expected %s", e.Choice, strings.Join(e.Here, " or "))
}

// UseVector selects the vector instructions of this process: "avx2" (with FMA) or "none", which is Go. "" changes nothing: AVX2 is
// used if the machine has it. Unknown and unavailable choices return a [VectorError].
//
// Call it when the program starts, before [Open]: it changes the whole process without a lock, and an earlier choice can only be
// lowered. The choice also limits the code that an OpenBLAS older than the processor is told to use.
func UseVector(choice string) error {
	here := []string{vectorNone}
	if hasAVX2() {
		here = slices.Insert(here, 0, vectorAVX2)
	}
	switch {
	case choice == "":
		return nil
	case !slices.Contains(here, choice):
		return &VectorError{Choice: choice, Here: here}
	}
	withoutAVX512()
	if choice == vectorNone {
		withoutAVX2()
		vek32.SetAcceleration(false)
	}
	return nil
}
