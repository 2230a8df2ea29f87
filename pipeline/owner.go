package pipeline

import "slices"

// owner tells which partitions of a topic are a role's. Ownership gates the
// start of work alone: what is begun is finished, and what two do is done once.
type owner interface {
	// Owned are the partitions, ascending.
	Owned() []int
	// Changed is sent to when Owned or Err has changed; nil: they never do.
	Changed() <-chan struct{}
	// Err is why there will be no partitions any more.
	Err() error
}

// alone owns everything: nobody else is a client of the embedded broker.
type alone []int

func newAlone(partitions int) alone {
	all := make(alone, partitions)
	for p := range all {
		all[p] = p
	}
	return all
}

func (a alone) Owned() []int             { return a }
func (a alone) Changed() <-chan struct{} { return nil }
func (a alone) Err() error               { return nil }

// owns tells whether a partition is the role's, and an error if none will be.
func owns(o owner, partition int) (bool, error) {
	return slices.Contains(o.Owned(), partition), o.Err()
}
