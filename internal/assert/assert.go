// Package assert has the checks that the tests of all packages make: of errors, of values, and that Arrow code neither leaks nor allocates
// more than its input justifies.
package assert

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
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
	if err != nil {
		t.Helper()
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

// Fails reports an error of the test unless err is all that is wanted: an error whose text contains a text, that wraps an error, as of
// [errors.Is], and that wraps an error of the type to which a pointer points, as of [errors.As]. Nil and an empty text want no error.
func Fails(t testing.TB, err error, wanted ...any) {
	for _, want := range wanted {
		if !fails(err, want) {
			t.Helper()
			t.Errorf("got error %v, expected %T %[2]v", err, want)
		}
	}
}

var errorType = reflect.TypeFor[error]()

func fails(err error, want any) bool {
	if want == nil || want == "" {
		return err == nil
	}
	if text, ok := want.(string); ok {
		return err != nil && strings.Contains(err.Error(), text)
	}
	if of := reflect.TypeOf(want); of.Kind() == reflect.Pointer && of.Elem().Implements(errorType) {
		return errors.As(err, want)
	}
	return errors.Is(err, want.(error))
}

// MustFail is [Fails] for a call that returns a value too: MustFail(f())(t, wanted).
func MustFail[T any](_ T, err error) func(t testing.TB, wanted ...any) {
	return func(t testing.TB, wanted ...any) {
		t.Helper()
		Fails(t, err, wanted...)
	}
}

// Equal reports an error of the test unless got is want: of lists, each element, where an empty list is like nil. The format what and its
// arguments say of what, unless it is empty.
func Equal[T any](t testing.TB, got, want T, what string, args ...any) {
	empty := func(v T) bool { list := reflect.ValueOf(v); return list.Kind() == reflect.Slice && list.Len() == 0 }
	if !reflect.DeepEqual(got, want) && !(empty(got) && empty(want)) {
		t.Helper()
		t.Errorf("%s%+v, expected %+v", about(what, args...), got, want)
	}
}

// about returns what an error says before the values.
func about(what string, args ...any) string {
	if what == "" {
		return ""
	}
	return fmt.Sprintf(what, args...) + ": "
}

// True reports an error of the test, with the format and its arguments, unless a condition holds.
func True(t testing.TB, holds bool, format string, args ...any) {
	if !holds {
		t.Helper()
		t.Errorf(format, args...)
	}
}

// Need is [True] for what the rest of a test needs: it ends the test.
func Need(t testing.TB, holds bool, format string, args ...any) {
	if !holds {
		t.Helper()
		t.Fatalf(format, args...)
	}
}

// Near is [Equal] for numbers that may differ by a tolerance. A NaN is near nothing.
func Near(t testing.TB, got, want, tolerance float64, what string, args ...any) {
	if !(math.Abs(got-want) <= tolerance) {
		t.Helper()
		t.Errorf("%s%v, expected %v", about(what, args...), got, want)
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
