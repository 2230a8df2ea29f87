// Package arrowtest has what tests share: what ends a test at an error, and numbers at which Arrow behaves in another way.
package arrowtest

import (
	"testing"
)

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
