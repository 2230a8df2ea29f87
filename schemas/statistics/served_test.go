package statistics

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// Sums of what was served are the same in any order, and cross a topic.
func TestServedLosses(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var all []ServedLosses
	want := map[int]ServedLosses{}
	for range 200 {
		s := ServedLosses{Version: 1 + random.IntN(9), Weight: 1, Rows: 1, Errors: float64(random.IntN(2))}
		all = append(all, s)
		sum := want[s.Version]
		want[s.Version] = ServedLosses{s.Version, sum.Weight + 1, sum.Rows + 1, sum.Errors + s.Errors}
	}
	forwards := AddServed(nil, all...)
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	shuffled := AddServed(AddServed(nil, all[:70]...), AddServed(nil, all[70:]...)...)
	if !reflect.DeepEqual(forwards, shuffled) || len(forwards) != len(want) {
		t.Fatalf("%v and %v", forwards, shuffled)
	}
	for i, s := range forwards {
		if s != want[s.Version] || i > 0 && s.Version <= forwards[i-1].Version {
			t.Errorf("%v, expected %v", s, want[s.Version])
		}
	}
	if err := checkServed(forwards); err != nil {
		t.Error(err)
	}
	for _, served := range [][]ServedLosses{{{0, 1, 1, 0}}, {{2, 1, 1, 0}, {2, 1, 1, 0}}, {{2, 1, 1, 0}, {1, 1, 1, 0}}, {{1, -1, 1, 0}}, {{1, 1, 1, 2}}} {
		if err := checkServed(served); err == nil {
			t.Errorf("%v was taken", served)
		}
	}
}
