// Package arrowtest has allocators for tests of Arrow code, of which some report leaks and others limit the memory of a decoder, and what
// ends a test at an error.
package arrowtest

import (
	"errors"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"
)

// Allocator returns an allocator that fails the test if memory of it is left when the test ends.
func Allocator(t testing.TB) *memory.CheckedAllocator {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	return mem
}

// Meter is an allocator that counts all bytes that it ever allocates.
type Meter struct {
	*memory.CheckedAllocator
	Total int // bytes
}

// NewMeter returns a Meter that has allocated nothing.
func NewMeter() *Meter {
	return &Meter{CheckedAllocator: memory.NewCheckedAllocator(memory.NewGoAllocator())}
}

// Allocate implements [memory.Allocator].
func (m *Meter) Allocate(size int) []byte {
	m.Total += size
	return m.CheckedAllocator.Allocate(size)
}

// Reallocate implements [memory.Allocator].
func (m *Meter) Reallocate(size int, b []byte) []byte {
	m.Total += size
	return m.CheckedAllocator.Reallocate(size, b)
}

// Check checks what must hold after size bytes of any content were decoded: an error wraps damaged, the decoder has
// allocated little more than the bytes take, and nothing is left.
func (m *Meter) Check(t *testing.T, size int, err, damaged error) {
	t.Helper()
	if err != nil && !errors.Is(err, damaged) {
		t.Errorf("%v is not %v", err, damaged)
	}
	if m.Total > 4*size+64 {
		t.Errorf("%d bytes of memory for %d bytes", m.Total, size)
	}
	m.AssertSize(t, 0)
}

// NoError ends the test if err is not nil.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Must returns a function that returns the value, or fails the test if there is an error: Must(f())(t).
func Must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		NoError(t, err)
		return value
	}
}

// Sizes returns lengths around the boundaries of bitmaps and blocks.
func Sizes() []int { return []int{0, 1, 63, 64, 65} }

// Numbered returns n numbers, of which neighbours differ.
func Numbered[T float32 | float64](n int) []T {
	values := make([]T, n)
	for i := range values {
		values[i] = T(i%1000) / 3
	}
	return values
}
