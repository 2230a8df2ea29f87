package stages

import (
	"errors"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// drawnBy returns the columns that each stage of a plan draws from the given number.
func drawnBy(t *testing.T, list []schemas.Stage, inputs int) (all [][]int) {
	t.Helper()
	x := kernel.NewDense(1, inputs)
	for j := range x.Data {
		x.Data[j] = float32(j)
	}
	for number, s := range list {
		m := mustMap(t, s.Features, number, plain(inputs, 1), 0, false)
		m.After(s.Drawn)
		var columns []int
		for _, v := range expand(m, x, kernel.Dense{}).Data {
			columns = append(columns, int(v))
		}
		all = append(all, columns)
	}
	return all
}

// Stages that draw without replacement draw each column once before any twice, for any sizes. The first draws the same
// as by itself.
func TestColumnsAreDrawnAcrossStages(t *testing.T) {
	stage := func(size int) schemas.Stage {
		return schemas.Stage{Features: schemas.Features{Kind: Columns, Size: size}}
	}
	for _, test := range []struct {
		inputs int
		sizes  []int
	}{{64, slices.Repeat([]int{16}, 8)}, {65, slices.Repeat([]int{16}, 9)}, {63, slices.Repeat([]int{20}, 10)}, {10, []int{4, 3, 5, 1, 2, 5, 4}},
		{8, []int{8, 8, 3}}} {
		var list []schemas.Stage
		for _, size := range test.sizes {
			list = append(list, stage(size))
		}
		placed, times, total := Placed(list, nil), make([]int, test.inputs), 0
		all := drawnBy(t, placed, test.inputs)
		if alone := drawnBy(t, list[:1], test.inputs); !slices.Equal(all[0], alone[0]) {
			t.Errorf("%v of %d: the first stage draws %v, by itself %v", test.sizes, test.inputs, all[0], alone[0])
		}
		for i, columns := range all {
			sorted := slices.Sorted(slices.Values(columns))
			if len(slices.Compact(sorted)) != test.sizes[i] {
				t.Errorf("%v of %d: stage %d draws %v", test.sizes, test.inputs, i, columns)
			}
			for _, c := range columns {
				times[c]++
			}
			total += len(columns)
			if least, most := total/test.inputs, (total+test.inputs-1)/test.inputs; slices.Min(times) < least || slices.Max(times) > most {
				t.Errorf("%v of %d: after stage %d columns were drawn %v times", test.sizes, test.inputs, i, times)
			}
		}
	}
}

// Only stages that draw without replacement continue others, and those of an earlier plan keep their draws.
func TestPlaced(t *testing.T) {
	columns, other := schemas.Features{Kind: Columns, Size: 3}, Defaults()
	list := []schemas.Stage{{Features: other}, {Features: columns}, {Features: schemas.Features{Kind: Columns}},
		{Features: schemas.Features{Kind: Columns, Size: 3, Replacement: true}}, {Features: columns}, {Features: columns}}
	placed := Placed(list, nil)
	want := []schemas.Draw{{Stage: 1, Size: 3}, {Stage: 4, Size: 3}}
	for i, s := range placed {
		if n := max(i-3, 0); len(s.Drawn) != n || n > 0 && !slices.Equal(s.Drawn, want[:n]) {
			t.Errorf("stage %d goes on from %v", i, s.Drawn)
		}
		if err := CheckDrawn(s, i); err != nil {
			t.Error(err)
		}
	}
	if again := Placed(placed, &schemas.Plan{Stages: list}); again[4].Drawn != nil || again[5].Drawn != nil {
		t.Errorf("stages of an earlier release go on from %v and %v", again[4].Drawn, again[5].Drawn)
	}
	for _, drawn := range [][]schemas.Draw{{{Stage: 4, Size: 3}}, {{Stage: 1, Size: 3}, {Stage: 1, Size: 3}}, {{Stage: 1, Size: 0}}, {{Stage: -1, Size: 1}}} {
		if err := CheckDrawn(schemas.Stage{Features: columns, Drawn: drawn}, 4); !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("%v: %v", drawn, err)
		}
	}
}
