package schemas

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/stagewise/stagewise/schemas/coverage"
)

// A window that is stored as a change of another is the same when it is read, whatever the updates between them were.
func TestWindowsAreStoredAsChanges(t *testing.T) {
	random, changes := rand.New(rand.NewPCG(1, 2)), 0
	base, at := &Window{Chain: &Chain{Number: 1}}, StatePlace{Run: "1"}
	for number := 2; number < 400; number++ {
		u := &Update{Decay: []float64{1, 0.9}[random.IntN(2)]}
		w := &Window{Chain: &Chain{Number: number, Update: u}}
		for _, c := range base.Increments {
			if random.IntN(100) == 0 && len(base.Increments) > 20 {
				continue
			}
			c.Increment.Weight *= u.Decay
			if random.IntN(30) == 0 {
				c.Visited = number
			}
			w.Increments = append(w.Increments, c)
		}
		w.Increments = append(w.Increments, WindowIncrement{Increment: coverage.Increment{Number: number, Weight: 1}, Visited: number})
		change := w.ChangesOf(base, at)
		if len(change.Bases) > 0 {
			changes++
		}
		if len(change.Bases) > maxBases || 2*len(change.Increments) > len(w.Increments)+1 && len(change.Bases) > 0 {
			t.Fatalf("version %d: a change of %d bases has %d of %d increments", number, len(change.Bases), len(change.Increments),
				len(w.Increments))
		}
		content := *change // what is read again shares nothing with what was stored
		content.Increments = slices.Clone(change.Increments)
		at = StatePlace{Run: strconv.Itoa(number)}
		read := content
		if n := len(read.Bases); n > 0 {
			read.On(base)
		}
		if !reflect.DeepEqual(&read, w) {
			t.Fatalf("version %d: read %+v, expected %+v", number, &read, w)
		}
		base = w
	}
	if changes < 300 {
		t.Errorf("%d of 398 windows were stored as changes", changes)
	}
}

// Merged increments are visited together, and have the place of their terms in common.
func TestMergedIncrements(t *testing.T) {
	w := &Window{}
	for number := 1; number <= 6; number++ {
		w.Increments = append(w.Increments, WindowIncrement{
			Increment: coverage.Increment{Number: number, Weight: 1, Covered: []coverage.Coverage{{Rows: 10}}}, Visited: number,
			Terms: StatePlace{Run: fmt.Sprint(number)},
		})
	}
	if err := w.Merge([][]int{{2, 3, 4}, {5, 6}}, func(group int) StatePlace { return StatePlace{Run: "merged", Index: group} }); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(w.Groups()); got != "[[0] [1 2 3] [4 5]]" {
		t.Errorf("groups %s", got)
	}
	if w.Merged(2) || !w.Merged(3) || !w.Merged(4) || w.Merged(5) || !w.Merged(6) || w.Merged(7) {
		t.Error("which increments have the terms of the one before is wrong")
	}
	for _, test := range []struct {
		n    int
		rows int64
		want string
	}{
		{0, 10, "[]"}, {1, 10, "[1]"}, {2, 10, "[1]"}, {4, 10, "[1 2 3 4]"}, {5, 10, "[1 2 3 4]"}, {6, 10, "[1 2 3 4 5 6]"},
		{1, 29, "[1]"}, {1, 30, "[1 5 6]"}, {1, 40, "[1 2 3 4]"}, {1, 60, "[1 2 3 4 5 6]"},
	} {
		numbers := []int{}
		for _, c := range w.Longest(test.n, test.rows) {
			numbers = append(numbers, c.Increment.Number)
		}
		if got := fmt.Sprint(numbers); got != test.want {
			t.Errorf("of %d increments of %d rows, those that were not visited for longest are %s, expected %s", test.n, test.rows, got, test.want)
		}
	}
	chain := Chain{Merge: [][2]int{{3, 4}, {7, 8}, {1, 3}, {3, 5}}}
	if got := fmt.Sprint(chain.Merged()); got != "[[7 8] [1 3 4 5]]" {
		t.Errorf("groups %s", got)
	}
}

// Merging is total: no list of pairs can panic, and one that can't be executed is an error that leaves the window as it
// was. Whatever can be executed leaves one group for each that the chain names, whichever order its pairs have.
func TestMergingIsTotal(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	window := func(n int) *Window {
		w := &Window{}
		for number := 1; number <= n; number++ {
			w.Increments = append(w.Increments, WindowIncrement{Increment: coverage.Increment{Number: number, Weight: 1}, Visited: number,
				Terms: StatePlace{Run: fmt.Sprint(number)}})
		}
		return w
	}
	executed := 0
	for range 20_000 {
		w, chain := window(1+random.IntN(8)), Chain{}
		for range random.IntN(6) {
			chain.Merge = append(chain.Merge, [2]int{1 + random.IntN(9), 1 + random.IntN(9)})
		}
		groups, before := chain.Merged(), slices.Clone(w.Increments)
		err := w.Merge(groups, func(group int) StatePlace { return StatePlace{Run: "merged", Index: group} })
		if err != nil {
			if !reflect.DeepEqual(w.Increments, before) {
				t.Fatalf("%v: the window has changed, though %v", chain.Merge, err)
			}
			continue
		}
		executed++
		of := map[int][]int{}
		for _, places := range w.Groups() {
			for _, i := range places {
				of[w.Increments[i].Increment.Number] = places
			}
		}
		for _, group := range groups {
			for _, number := range group {
				if !slices.Equal(of[number], of[group[0]]) {
					t.Fatalf("%v: increments %d and %d are in different groups of %v", chain.Merge, number, group[0], w.Groups())
				}
			}
		}
	}
	if executed < 2000 {
		t.Errorf("%d lists of 20,000 could be executed", executed)
	}
	planned := window(6)
	chain := Chain{Merge: [][2]int{{1, 2}, {3, 4}, {5, 6}, {3, 5}, {1, 3}}}
	if err := planned.Merge(chain.Merged(), func(int) StatePlace { return StatePlace{Run: "merged"} }); err != nil ||
		len(planned.Groups()) != 1 {
		t.Errorf("%v: %v, groups %v", chain.Merge, err, planned.Groups())
	}
}
