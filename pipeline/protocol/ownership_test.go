package protocol

import (
	"errors"
	"slices"
	"testing"
)

// Owned partitions, and the end of a role when its membership ends.
func TestOwner(t *testing.T) {
	if owned := NewSoleOwner(3).Owned(); !slices.Equal(owned, []int{0, 1, 2}) {
		t.Errorf("%v", owned)
	}
	for partition, want := range map[int]bool{0: true, 2: true, 3: false} {
		if mine, err := Owns(NewSoleOwner(3), partition); mine != want || err != nil {
			t.Errorf("partition %d: %v, %v", partition, mine, err)
		}
	}
	ended := errors.New("ended")
	mine, err := Owns(failedOwner{ended}, 0)
	if mine || !errors.As(err, new(*MembershipError)) || !errors.Is(err, ended) {
		t.Errorf("%v, %v", mine, err)
	}
}

type failedOwner struct{ err error }

func (failedOwner) Owned() []int                      { return nil }
func (failedOwner) Changed() <-chan struct{}          { return nil }
func (failedOwner) Commit(map[int]int64, func(error)) {}
func (f failedOwner) Err() error                      { return f.err }
