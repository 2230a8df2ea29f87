package schemas

import (
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"
)

// checked returns an allocator that fails the test if anything is left in it.
func checked(t testing.TB) *memory.CheckedAllocator {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	return mem
}

// must returns a function that returns the value, or fails the test if there is an error.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// sizes are lengths around the boundaries of bitmaps and blocks.
var sizes = []int{0, 1, 63, 64, 65}
