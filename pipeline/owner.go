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

// MembershipError says why a process can't be a member of its group any more. It
// is the process's trouble, and no run's.
type MembershipError struct{ Err error }

func (e *MembershipError) Error() string { return e.Err.Error() }
func (e *MembershipError) Unwrap() error { return e.Err }

// membership is a *MembershipError if the role's has ended.
func membership(o owner) error {
	if err := o.Err(); err != nil {
		return &MembershipError{err}
	}
	return nil
}

// owns tells whether a partition is the role's, and an error if none will be.
func owns(o owner, partition int) (bool, error) {
	return slices.Contains(o.Owned(), partition), membership(o)
}
