package topics

import (
	"context"
	"fmt"
	"time"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

// AwaitTurn waits until owner has partition 0, and so is the active process of the group with the given role. It reports once that
// another process is active, with does as the reason, and once that joining the group takes long. It calls planned, unless that is
// nil, when the wait begins and after each message of the plans topic.
func AwaitTurn(ctx context.Context, p *Pipeline, owner protocol.Owner, role string, does error,
	planned func(context.Context) error, rec event.Recorder) error {
	active, err := protocol.Owns(owner, 0)
	if err != nil || active {
		return err
	}
	_, end, err := p.Log.Bounds(ctx, p.Topics.Plans, 0)
	if err != nil {
		return err
	}
	subscription := p.Log.Subscribe(ctx, owner.Changed(), protocol.Position{Topic: p.Topics.Plans, Offset: end, Compacted: true})
	defer subscription.Close()
	told, look := "", planned != nil
	for wait := firstWait; ; {
		if active, err := protocol.Owns(owner, 0); err != nil || active {
			return err
		}
		if look && owner.Owned() != nil {
			if err := planned(ctx); err != nil {
				return err
			}
			look = false
		}
		d, late, err := subscription.Next(ctx, wait)
		if err != nil {
			return err
		}
		if !late {
			look = look || planned != nil && d != nil
			continue
		}
		wait = protocol.Patience(wait)
		why := fmt.Sprintf("%v: this one stands by", does)
		if owner.Owned() == nil {
			why = "joining the consumer group of stagewise " + role
		}
		if why != told {
			told = why
			rec.Record(event.StoodBy{Role: role, Why: why})
		}
	}
}

// firstWait is the time after which a process reports that it waits for its turn.
const firstWait = time.Second
