package protocol

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/schemas"
)

// ReadLedger returns the current state of the plans topic. A process reads the topic once, and then only what was written
// since, as long as the topic still has the last message that was read. ReadLedger skips damaged messages: see
// [Ledger.Report].
func (c *Client) ReadLedger(ctx context.Context) (*Ledger, error) {
	if c.ledger != nil {
		if known := c.ledger.Load(); known != nil {
			l := known.clone()
			l.Next = known.last.Offset
			err := c.foldPlans(ctx, l, &known.last)
			if !errors.Is(err, errOther) {
				return l, err
			}
		}
	}
	return c.RereadLedger(ctx)
}

// RereadLedger is [Client.ReadLedger] for a role that has waited long for a message. It reads the whole topic: if a client
// wrote a plan twice, compaction may have changed the order of the waiting runs.
func (c *Client) RereadLedger(ctx context.Context) (*Ledger, error) {
	l := c.newLedger()
	if c.ledger != nil {
		l.earlier = c.ledger.Load()
	}
	return l, c.foldPlans(ctx, l, nil)
}

// errOther means that the plans topic does not have the last message that was read of it.
var errOther = errors.New("the plans topic was recreated, or has lost messages")

// foldPlans applies the messages of the plans topic from an offset on. If last is not nil, the first of these must be that
// message, which was applied before: the error is errOther otherwise.
func (c *Client) foldPlans(ctx context.Context, l *Ledger, last *Message) error {
	var messages []Message
	gone := map[string]int64{} // offsets of tombstones
	first, end, err := c.Log.Bounds(ctx, l.topic, 0)
	if err == nil && last != nil && last.Offset >= end {
		return errOther
	}
	if err == nil {
		err = c.Between(ctx, l.topic, 0, max(first, l.Next), end, func(m Message) error {
			if messages = append(messages, m); m.Value == nil {
				gone[m.Key] = m.Offset
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("read plans: %w", err)
	}
	if last != nil {
		if len(messages) == 0 || !messages[0].Same(last) {
			return errOther
		}
		messages = messages[1:]
	}
	for _, m := range messages {
		if m.Value != nil && m.Offset < gone[m.Key] {
			continue
		}
		if err := l.Add(m); err != nil {
			l.damaged = append(l.damaged, err)
		}
	}
	l.earlier = nil
	known := last != nil && len(messages) == 0 // the ledger is a copy of the one that is known
	if l.Next = end; c.ledger != nil && len(l.incomplete) == 0 && !known {
		c.ledger.Store(l.clone())
	}
	return nil
}

// GoesOn reports whether a run is current: it was submitted, no earlier run is unfinished, it has not ended, and it starts
// to read at the offsets in its plan. A role calls GoesOn when it has waited long for a message: after an unclean leader
// election, the expected message may have an offset that was already read, or the run's plan may be lost, or the end of
// the previous run, which determines where this one starts. Roles that disagree about the run or its start would wait for
// each other forever.
func (c *Client) GoesOn(ctx context.Context, run string, since schemas.Since) (bool, error) {
	l, err := c.RereadLedger(ctx)
	if err != nil {
		return false, err
	}
	return l.Current(run, since), nil
}

// Current reports whether a run is the first unfinished one, and starts to read at the given offsets.
func (l *Ledger) Current(run string, since schemas.Since) bool {
	for id, plan := range l.Unfinished() {
		return id == run && plan.Since.Weights == since.Weights && slices.Equal(plan.Since.Statistics, since.Statistics)
	}
	return false
}
