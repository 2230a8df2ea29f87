package examples

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas/wire"
)

func TestSortLabels(t *testing.T) {
	for _, c := range [][2][]string{
		{{}, {}},
		{{"10", "9", "-1", "2.5"}, {"-1", "2.5", "9", "10"}},
		{{"b", "10", "9", "a"}, {"10", "9", "a", "b"}},
		{{"01", "1", "1.0", "0"}, {"0", "01", "1", "1.0"}},
		{{"nan", "1", "-inf"}, {"nan", "-inf", "1"}},
	} {
		got := slices.Clone(c[0])
		SortLabels(got)
		if !slices.Equal(got, c[1]) {
			t.Errorf("%q sorts to %q, expected %q", c[0], got, c[1])
		}
		slices.Reverse(got)
		if SortLabels(got); !slices.Equal(got, c[1]) {
			t.Errorf("%q reversed sorts to %q", c[1], got)
		}
	}
}

func TestClassesCompareAsText(t *testing.T) {
	mem := arrowtest.Allocator(t)
	labels := NewLabels([]string{"7", "07", "-3", "seven"})
	for _, c := range []struct {
		rows Rows
		want []int32
		err  string
	}{
		{rows: Rows{Words: []string{"seven", "7", "07"}}, want: []int32{3, 0, 1}},
		{rows: Rows{Numbers: []int64{-3, 7, 7}}, want: []int32{2, 0, 0}},
		{rows: Rows{}, want: []int32{Unlabelled, Unlabelled, Unlabelled}},
		{rows: Rows{Words: []string{"7", "eight", "7"}}, err: `row 1: label "eight" is not one of the classes`},
		{rows: Rows{Numbers: []int64{7, 7, 8}}, err: `row 2: label "8" is not one of the classes`},
	} {
		c.rows.Rows, c.rows.Cols, c.rows.Bytes = 3, 1, []uint8{1, 2, 3}
		e := arrowtest.Must(Decode(encodeRows(t, &c.rows, mem), mem))(t)
		got := make([]int32, 3)
		err := e.Classes(got, labels, UnknownLabel)
		if c.err != "" {
			var unknown *ValueError
			if !errors.As(err, &unknown) || !errors.Is(err, wire.ErrDamaged) || err.Error() != c.err {
				t.Errorf("%v, expected %s", err, c.err)
			}
		} else if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v, %v, expected %v", got, err, c.want)
		}
		e.Release()
	}
}

func TestLabelsRefuseDuplicates(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); got != `schemas: label "a" occurs twice` {
			t.Error(got)
		}
	}()
	NewLabels([]string{"a", "b", "a"})
}
