package coverage

import "testing"

// Whatever the order of the partitions, the first bad message is that of the lowest, and the numbers add up.
func TestBadMessages(t *testing.T) {
	var zero, one, two BadMessages
	one.Usable(2)
	one.Bad(0, 7, "early")
	one.Bad(0, 9, "late")
	two.Bad(1, 3, "other")
	for _, order := range [][]BadMessages{{zero, one, two}, {two, one, zero}} {
		var b BadMessages
		for _, o := range order {
			b.Merge(o)
		}
		if want := (BadMessages{3, 5, 0, 7, "early"}); b != want || !b.Most() {
			t.Errorf("%+v, most of them: %v, expected %+v", b, b.Most(), want)
		}
	}
	if zero.Most() || one.Most() || !two.Most() {
		t.Errorf("none of none, half, all: %v, %v, %v", zero.Most(), one.Most(), two.Most())
	}
}
