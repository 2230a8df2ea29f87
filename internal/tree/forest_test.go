package tree

import (
	"errors"
	"slices"
	"testing"
)

func TestForestsFromOutside(t *testing.T) {
	s := sampleOf(3, 200, 4, 2, false)
	valid := Grow(s, ordersOf(3, s, 1), Shape{3, 8, 2, 0.5, 1}, 4, 5, 2)
	for name, damage := range map[string]func(f *Forest){
		"leaves":   func(f *Forest) { f.Leaves = 65 },
		"sizes":    func(f *Forest) { f.Sizes[1]++ },
		"compared": func(f *Forest) { f.Compared[3] = int32(len(f.Orders.Columns)) },
		"cuts":     func(f *Forest) { f.Cuts = f.Cuts[1:] },
		"lefts":    func(f *Forest) { f.Lefts[0] = f.Sizes[0] },
		"orders":   func(f *Forest) { f.Orders.Columns[0] = 4 },
		"ranks":    func(f *Forest) { f.Orders.Ranks = f.Orders.Ranks[1:] },
	} {
		f := valid
		f.Orders.Columns = slices.Clone(f.Orders.Columns)
		f.Sizes, f.Compared, f.Lefts = slices.Clone(f.Sizes), slices.Clone(f.Compared), slices.Clone(f.Lefts)
		damage(&f)
		var structure *StructureError
		if err := f.Check(4); !errors.As(err, &structure) || structure.What != name {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if err := (Forest{Leaves: 32, Sizes: make([]uint8, MaxSize)}).Check(4); !errors.As(err, new(*StructureError)) {
		t.Errorf("too many trees: error %v", err)
	}
}

// For any bytes, Check rejects a forest, or Find returns the leaves that its nodes lead to.
func FuzzForest(f *testing.F) {
	f.Add(32, 0, []byte{0}, []byte{1, 2}, []byte{0, 1, 0}, []byte{3, 4, 5}, []byte{1, 0, 0}, []byte{3, 9})
	f.Add(32, 256, []byte{0, 0}, make([]byte, 16), []byte{}, []byte{}, []byte{}, []byte{1, 2}) // no nodes
	f.Add(64, 256, []byte{0, 1}, []byte{3}, []byte{0, 1, 1}, []byte{3, 4, 5}, []byte{2, 1, 0}, []byte{200, 9})
	f.Fuzz(func(t *testing.T, leaves, ranks int, columns, sizes, compared, cuts, lefts, row []byte) {
		const d = 2
		forest := Forest{Leaves: leaves, Sizes: sizes, Cuts: cuts, Lefts: lefts}
		for _, order := range compared {
			forest.Compared = append(forest.Compared, int32(int8(order)))
		}
		for _, column := range columns {
			forest.Orders.Columns = append(forest.Orders.Columns, int32(int8(column)))
		}
		for i := range max(0, min(ranks, 2048)) {
			forest.Orders.Ranks = append(forest.Orders.Ranks, uint8(i*7))
		}
		if err := forest.Check(d); err != nil {
			if !errors.As(err, new(*StructureError)) {
				t.Fatal(err)
			}
			return
		}
		row = slices.Concat(row, make([]byte, d))[:d]
		var l Leaves
		NewFinder(forest, d).Find(&l, row)
		for tree, leaf := range l.Data {
			if want := descend(forest, tree, row); int(leaf) != want || want > int(sizes[tree]) {
				t.Errorf("leaf %d of tree %d, want %d", leaf, tree, want)
			}
		}
	})
}
