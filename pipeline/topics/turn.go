package topics

import (
	"context"
	"time"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/protocol/ownership"
)

// AwaitTurn waits until an owner has the partition of the active process of its group. It notifies the operator once that
// another process has it, with does describing what that process does.
func AwaitTurn(ctx context.Context, p *Pipeline, owner ownership.Owner, does error, rec event.Recorder) error {
	active, err := ownership.Owns(owner, 0)
	if err != nil || active {
		return err
	}
	_, end, err := p.Log.Bounds(ctx, p.Topics.Plans, 0)
	if err != nil {
		return err
	}
	subscription := p.Log.Subscribe(ctx, owner.Changed(), protocol.Position{Topic: p.Topics.Plans, Offset: end, Compacted: true})
	defer subscription.Close()
	for told := false; ; {
		if active, err := ownership.Owns(owner, 0); err != nil || active {
			return err
		}
		_, late, err := subscription.Next(ctx, protocol.MaxPatience)
		if err != nil {
			return err
		}
		if late && !told { // joining a group also takes seconds
			told = true
			event.Notice(rec, "%v: this one stands by", does)
		}
	}
}

// PauseFor waits for a duration, ignoring messages on the plans topic.
func PauseFor(ctx context.Context, p *Pipeline, wait time.Duration) error {
	_, end, err := p.Log.Bounds(ctx, p.Topics.Plans, 0)
	if err != nil {
		return err
	}
	subscription := p.Log.Subscribe(ctx, nil, protocol.Position{Topic: p.Topics.Plans, Offset: end, Compacted: true})
	defer subscription.Close()
	for late := false; !late; {
		if _, late, err = subscription.Next(ctx, wait); err != nil {
			return err
		}
	}
	return nil
}
