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

// The increments that were visited least recently are visited, one that is joined only if its rows are few.
func TestLongest(t *testing.T) {
	w := &Window{}
	for number := 1; number <= 4; number++ {
		w.Increments = append(w.Increments, WindowIncrement{Visited: 5 - number,
			Increment: coverage.Increment{Number: number, Weight: 1, Covered: []coverage.Coverage{{Rows: 10}}}})
	}
	w.Increments[2].Increment.Joined, w.Increments[2].Increment.Covered[0].Rows = 3, 30
	for _, test := range []struct {
		n    int
		rows int64
		want string
	}{{0, 10, "[]"}, {1, 10, "[4]"}, {2, 10, "[4 2]"}, {3, 10, "[4 2 1]"}, {4, 10, "[4 3]"}, {5, 10, "[4 3 2]"}, {2, 20, "[4 3]"}} {
		numbers := []int{}
		for _, c := range w.Longest(test.n, test.rows) {
			numbers = append(numbers, c.Increment.Number)
		}
		if got := fmt.Sprint(numbers); got != test.want {
			t.Errorf("%d increments of %d rows: %s, expected %s", test.n, test.rows, got, test.want)
		}
	}
}
