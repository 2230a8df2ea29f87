package schemas

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
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
		w.Increments = append(w.Increments, WindowIncrement{Increment: Increment{Number: number, Weight: 1}, Visited: number})
		change := w.ChangesOf(base, at)
		if len(change.Bases) > 0 {
			changes++
		}
		if len(change.Bases) > maxBases || 2*len(change.Increments) > len(w.Increments)+1 && len(change.Bases) > 0 {
			t.Fatalf("version %d: a change of %d bases has %d of %d increments", number, len(change.Bases), len(change.Increments), len(w.Increments))
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
			Increment: Increment{Number: number, Weight: 1}, Visited: number, Terms: StatePlace{Run: fmt.Sprint(number)},
		})
	}
	w.Merge([][2]int{{2, 3}, {5, 6}, {2, 4}}, func(pair int) StatePlace { return StatePlace{Run: "merged", Index: pair % 2} })
	if got := fmt.Sprint(w.Groups()); got != "[[0] [1 2 3] [4 5]]" {
		t.Errorf("groups %s", got)
	}
	if w.Merged(2) || !w.Merged(3) || !w.Merged(4) || w.Merged(5) || !w.Merged(6) || w.Merged(7) {
		t.Error("which increments have the terms of the one before is wrong")
	}
	for n, want := range map[int]string{0: "[]", 1: "[1]", 2: "[1]", 4: "[1 2 3 4]", 5: "[1 2 3 4]", 6: "[1 2 3 4 5 6]"} {
		numbers := []int{}
		for _, c := range w.Longest(n) {
			numbers = append(numbers, c.Increment.Number)
		}
		if got := fmt.Sprint(numbers); got != want {
			t.Errorf("the %d that were not visited for longest are %s, expected %s", n, got, want)
		}
	}
	w.Increments = w.Increments[1:]
	if got := len(w.Longest(1)); got != 3 {
		t.Errorf("%d increments, expected all that are merged with the first", got)
	}
	chain := Chain{Merge: [][2]int{{3, 4}, {7, 8}, {1, 3}, {3, 5}}}
	if got := fmt.Sprint(chain.Merged()); got != "[[7 8] [1 3 4 5]]" {
		t.Errorf("groups %s", got)
	}
}
