package kernel

import (
	"errors"
	"strings"
	"testing"
)

func TestUseVector(t *testing.T) {
	defer restoreVector()()
	blas := Gonum()
	best := blas.Vector()
	if err := UseVector(""); err != nil || blas.Vector() != best {
		t.Errorf("no choice: %v, and the instructions are %s instead of %s", err, blas.Vector(), best)
	}
	var wrong *VectorError
	for _, choice := range []string{"AVX2", "sse", "go", "avx512"} {
		if err := UseVector(choice); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "not known, expected ") || blas.Vector() != best {
			t.Errorf("%q: %v, and the instructions are %s", choice, err, blas.Vector())
		}
	}
	if hasAVX2() {
		if err := UseVector(vectorAVX2); err != nil || blas.Vector() != vectorAVX2 {
			t.Errorf("avx2: %v, and the instructions are %s", err, blas.Vector())
		}
	}
	if err := UseVector(vectorNone); err != nil || blas.Vector() != "go" {
		t.Errorf("none: %v, and the instructions are %s", err, blas.Vector())
	}
	const want = `vector instructions "avx2": this machine does not have them, expected none`
	if err := UseVector(vectorAVX2); err == nil || err.Error() != want {
		t.Errorf("avx2 without it: %v, expected %s", err, want)
	}
}
