package dispatch

import (
	"fmt"
	"reflect"
	"runtime"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// NumericsRevision is incremented by changes of this program that may change the bits of a run. Processes with the same
// revision can work on a run together. TestNumericsRevision says when to increment it. Revision 9: a Cholesky factor is made by
// blocks on all cores, also for blocks of sparse columns and for calibrations, weights of counts are computed in one way, and patches are
// scaled by vek.
const NumericsRevision = 9

// Arithmetic returns the arithmetic of this process, which, together with the terms, determines the bits of a sum.
func Arithmetic(blas *kernel.BLAS) schemas.Arithmetic {
	return schemas.Arithmetic{
		Numerics: strconv.Itoa(NumericsRevision), Processor: runtime.GOARCH, BLAS: blas.Name(), Vector: blas.Vector(),
	}
}

// Differences lists the fields in which two structs of the same type differ, by JSON name, with both values: "scale unit,
// this run has none". who describes the struct here. The fields must be comparable.
func Differences[S any](there, here S, who string) string {
	var list []string
	a, b := reflect.ValueOf(there), reflect.ValueOf(here)
	for i := range a.NumField() {
		if x, y := a.Field(i).Interface(), b.Field(i).Interface(); x != y {
			name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
			list = append(list, fmt.Sprintf("%s %v, %s has %v", name, x, who, y))
		}
	}
	return strings.Join(list, "; ")
}
