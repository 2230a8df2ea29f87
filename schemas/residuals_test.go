package schemas

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas/wire"
)

func TestResidualsRoundTrip(t *testing.T) {
	for _, rows := range arrowtest.Sizes() {
		for _, classes := range []int{1, 2, 63, 64, 65} {
			mem := arrowtest.Allocator(t)
			want := residualsOf(rows, classes)
			m := arrowtest.Must(want.Encode(mem))(t)
			for _, want := range []*Residuals{want, votedOf(rows, classes)} {
				got := arrowtest.Must(DecodeResiduals(arrowtest.Must(want.Encode(mem))(t), classes, mem))(t)
				if got.Identity != want.Identity || got.Offset != want.Offset || got.Row != want.Row || got.Classes != classes ||
					!slices.Equal(got.Score, want.Score) || !slices.Equal(got.Residual, want.Residual) || !slices.Equal(got.Votes, want.Votes) {
					t.Errorf("%d rows of %d classes became %v", rows, classes, got.Identity)
				}
			}
			header := arrowtest.Must(ResidualsHeader(m))(t)
			if m.Key != "run/residuals/1/0/3/1099511627776/128" || header.Identity != want.Identity || header.Row != 128 || header.Score != nil {
				t.Errorf("key %s, header %v", m.Key, header)
			}
		}
	}
}

func TestMaxResidualRowsFit(t *testing.T) {
	for _, classes := range []int{1, 2, 3, 10, 1000, 100_000} {
		mem := arrowtest.Allocator(t)
		for values, of := range map[int]func(rows, classes int) *Residuals{2 * classes: residualsOf, 3 * classes: votedOf} {
			rows := MaxResidualsRows(values)
			if rows == 1 && 4*values > wire.MaxMessage {
				continue // a row of so many values fits no message
			}
			if m, err := of(rows, classes).Encode(mem); err != nil || len(m.Value) > wire.MaxMessage {
				t.Errorf("%d rows of %d values: %d bytes, %v", rows, values, len(m.Value), err)
			}
		}
	}
	_, err := residualsOf(2, 100_000).Encode(arrowtest.Allocator(t))
	if want := "encode residuals of offset 1099511627776: 2 rows of 100000 classes take 16"; err == nil ||
		!strings.HasPrefix(err.Error(), want) {
		t.Error(err)
	}
}

func TestResidualsThatAreRefused(t *testing.T) {
	mem := arrowtest.Allocator(t)
	for _, c := range []struct {
		key, value, want string
		classes          int
	}{
		{"kind", "examples", `kind "examples", expected "residuals"`, 2},
		{"offset", "x", `header offset is "x", expected a whole number`, 2},
		{"row", "", `header row is "", expected a whole number`, 2},
		{"row", "-1", `header row is -1, expected at least 0`, 2},
		{"visit", "?", `header visit is "?", expected a whole number`, 2},
		{"run", "run", "schema " + wire.Fingerprint(residualsSchema(2, false)) + ", expected 34f757966fbe", 3},
	} {
		m := arrowtest.Must(residualsOf(4, 2).Encode(mem))(t)
		for i := range m.Headers {
			if m.Headers[i].Key == c.key {
				m.Headers[i].Value = c.value
			}
		}
		_, err := DecodeResiduals(m, c.classes, mem)
		if !errors.Is(err, wire.ErrDamaged) || !strings.HasPrefix(err.Error(), "damaged or foreign bytes: "+c.want) {
			t.Errorf("%v, expected %s", err, c.want)
		}
	}
}

func TestResidualsRefuseRaggedRows(t *testing.T) {
	for _, r := range []Residuals{
		{Classes: 2, Score: make([]float32, 4), Residual: make([]float32, 2)},
		{Classes: 3, Score: make([]float32, 4), Residual: make([]float32, 4)},
		{},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "residuals: ") {
					t.Errorf("%v: %s", r, got)
				}
			}()
			r.Encode(nil)
		}()
	}
}
