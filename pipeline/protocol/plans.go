package protocol

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
)

// Plans follows the plans topic, and other topics beside it. Its ledger has all messages of the plans topic that were
// delivered. It is not safe for concurrent use.
type Plans struct {
	*Ledger
	client       *Client
	rec          event.Recorder
	wake         <-chan struct{}
	positions    []Position // that of the plans topic first
	subscription Subscription
}

// FollowPlans reads the ledger, and follows the messages after it, and those of other topics from the given positions. The
// recorder gets damaged messages of the plans topic; nil ignores them. wake ends waits, as in [Log.Subscribe]. The caller
// closes the result.
func (c *Client) FollowPlans(ctx context.Context, rec event.Recorder, wake <-chan struct{}, others ...Position) (*Plans, error) {
	l, err := c.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	l.Report(rec)
	p := &Plans{client: c, rec: rec, wake: wake, positions: append([]Position{{Topic: l.topic, Compacted: true}}, others...)}
	p.begin(ctx, l)
	return p, nil
}

func (p *Plans) begin(ctx context.Context, l *Ledger) {
	p.Ledger, p.positions[0].Offset = l, l.Next
	p.subscription = p.client.Log.Subscribe(ctx, p.wake, slices.Clone(p.positions)...) // Deliver changes offsets
}

// Close ends the subscription.
func (p *Plans) Close() { p.subscription.Close() }

// Deliver waits for the next message of any of the topics, as [Subscription.Next] does. A message of the plans topic is then
// in the ledger.
func (p *Plans) Deliver(ctx context.Context, timeout time.Duration) (d *Delivery, late bool, err error) {
	if d, late, err = p.subscription.Next(ctx, timeout); d == nil || err != nil {
		return d, late, err
	}
	for i := range p.positions {
		if at := &p.positions[i]; at.Topic == d.Topic && at.Partition == d.Partition {
			at.Offset = d.Offset + 1
		}
	}
	if d.Topic == p.topic && d.Offset >= p.Next {
		if err := p.Add(d.Message); err != nil {
			event.Skip(p.rec, "plans", err)
		}
	}
	return d, late, nil
}

// Await is [Plans.Deliver] for a role. If no message comes in time, it reads the ledger again: while a run is unfinished,
// the whole topic.
func (p *Plans) Await(ctx context.Context, timeout time.Duration) (d *Delivery, late bool, err error) {
	if d, late, err = p.Deliver(ctx, timeout); err != nil || !late {
		return d, late, err
	}
	read := p.client.ReadLedger
	if p.AnyUnfinished() {
		read = p.client.RereadLedger
	}
	return nil, true, p.Renew(ctx, read)
}

// IsCurrent reads the whole topic, and reports whether a run is current: it was submitted, no earlier run is unfinished, it has not ended,
// and it starts to read at the offsets in its plan. A role calls IsCurrent when it has waited long for a message: after an unclean leader
// election, the expected message may have an offset that was already read, or the run's plan may be lost, or the end of
// the previous run, which determines where this one starts. Roles that disagree about the run or its start would wait for
// each other forever.
func (p *Plans) IsCurrent(ctx context.Context, run string, since schemas.Since) (bool, error) {
	err := p.Renew(ctx, p.client.RereadLedger)
	return err == nil && p.Current(run, since), err
}

// Renew reads the ledger again, and continues from its end if the topic has lost messages.
func (p *Plans) Renew(ctx context.Context, read func(context.Context) (*Ledger, error)) error {
	l, err := read(ctx)
	if err != nil {
		return err
	}
	if p.Ledger = l; l.Next < p.positions[0].Offset {
		p.subscription.Close()
		p.begin(ctx, l)
	}
	return nil
}

// Submit writes a plan, and returns a ledger read afterwards: other processes may have submitted runs since the plan was made.
func (c *Client) Submit(ctx context.Context, plan *schemas.Plan) (*Ledger, error) {
	messages, err := plan.Messages()
	if err == nil {
		_, err = c.Log.Append(ctx, c.Topics.Plans, 0, messages...)
	}
	if err != nil {
		return nil, fmt.Errorf("submit run %s: %w", plan.Run(), err)
	}
	return c.ReadLedger(ctx)
}

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
