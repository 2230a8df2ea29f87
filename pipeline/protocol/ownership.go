package protocol

import "slices"

// Owner lists the partitions of a topic that a role owns. Ownership only decides which role starts work: a role finishes
// the work that it has started, and duplicate work counts once.
type Owner interface {
	// Owned returns the partitions, ascending.
	Owned() []int
	// Changed receives a value when Owned or Err has changed; nil: they never change.
	Changed() <-chan struct{}
	// Commit publishes, for monitoring tools, the offset up to which each partition is processed. Nothing else reads it. It
	// returns at once; done receives the result in another goroutine, and may never be called.
	Commit(offsets map[int]int64, done func(error))
	// Err returns the reason why the role will never own partitions again; nil: it may.
	Err() error
}

// SoleOwner owns all partitions, for a process that shares them with no other, as on the embedded broker.
type SoleOwner []int

// NewSoleOwner returns the owner of partitions 0 to partitions − 1.
func NewSoleOwner(partitions int) SoleOwner {
	all := make(SoleOwner, partitions)
	for p := range all {
		all[p] = p
	}
	return all
}

// Owned returns all partitions.
func (o SoleOwner) Owned() []int { return o }

// Changed returns nil.
func (o SoleOwner) Changed() <-chan struct{} { return nil }

// Commit does nothing: there is no consumer group.
func (o SoleOwner) Commit(map[int]int64, func(error)) {}

// Err returns nil.
func (o SoleOwner) Err() error { return nil }

// MembershipError is the reason why a process has permanently lost its consumer group membership. It ends the role, but
// no run.
type MembershipError struct{ Err error }

// Error returns the text of Err.
func (e *MembershipError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *MembershipError) Unwrap() error { return e.Err }

// CheckMembership returns a *[MembershipError] if the role's membership has ended.
func CheckMembership(o Owner) error {
	if err := o.Err(); err != nil {
		return &MembershipError{err}
	}
	return nil
}

// Owns reports whether the role owns a partition. The error is that of [CheckMembership].
func Owns(o Owner, partition int) (bool, error) {
	return slices.Contains(o.Owned(), partition), CheckMembership(o)
}
