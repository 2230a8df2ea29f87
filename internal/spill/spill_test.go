package spill

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"slices"
	"testing"
)

// Values come back as they were, from places that do not overlap, and nothing stays in the directory.
func TestValuesComeBack(t *testing.T) {
	dir := t.TempDir()
	f := New(dir)
	first, second := f.Place(5), f.Place(3)
	a, b := []float64{1, math.Inf(-1), 3, math.Copysign(0, -1), 5}, []float64{7, 8, 9}
	for at, values := range map[int][]float64{second: b, first: a} {
		if err := f.Write(at, values); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]float64, 8)
	if err := f.Read(first, got); err != nil {
		t.Fatal(err)
	}
	if want := slices.Concat(a, b); !slices.Equal(got, want) || !math.Signbit(got[3]) {
		t.Errorf("got %v, expected %v", got, want)
	}
	part := make([]float64, 2)
	if err := f.Read(second+1, part); err != nil || !slices.Equal(part, b[1:]) {
		t.Errorf("a part is %v, %v", part, err)
	}
	if err := f.Read(second, make([]float64, 4)); err == nil {
		t.Error("values that were not written are read")
	}
	f.Close()
	f.Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v stays, %v", left, err)
	}
	if err := f.Write(first, a); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a closed file is written: %v", err)
	}
}

// A freed place is allocated again, to as many values.
func TestPlacesAreFreed(t *testing.T) {
	f := New(t.TempDir())
	first, second := f.Place(5), f.Place(5)
	f.Free(first, 5)
	if three, again, last := f.Place(3), f.Place(5), f.Place(5); three != 10 || again != first || last != 13 || second != 5 {
		t.Errorf("places %d, %d, %d, %d and %d", first, second, three, again, last)
	}
}

// A missing directory is an error that names it, and a file that nobody has written to needs none.
func TestNoDirectory(t *testing.T) {
	f := New(t.TempDir() + "/none")
	if err := f.Write(f.Place(1), []float64{1}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("values are written to no directory: %v", err)
	}
	f.Close()
	(*File)(nil).Close()
	if In(t.TempDir()+"/none", 100).Applies(101) {
		t.Error("values are spilled where no file can be created")
	}
}

// Values stay in memory unless they exceed the limit, if there is one.
func TestLimit(t *testing.T) {
	for _, c := range []struct {
		memory, bytes int64
		want          bool
	}{{0, 1 << 40, false}, {100, 100, false}, {100, 101, true}} {
		if got := In(t.TempDir(), c.memory).File(c.bytes) != nil; got != c.want {
			t.Errorf("%d bytes of %d: %v", c.bytes, c.memory, got)
		}
	}
}
