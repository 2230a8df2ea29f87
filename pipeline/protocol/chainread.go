package protocol

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/model"
)

// Read applies all messages of the run on the weights topic, and returns the offset from which to subscribe. The error is
// an *[ExpiredError], beside that offset, if the topic has lost the first records of the chain.
func (c *Chain) Read(ctx context.Context, client *Client) (next int64, err error) {
	first, next, err := c.read(ctx, client)
	if err == nil && first > c.Plan.Since.Weights && (c.Survey == nil || len(c.early) > 0) {
		err = &ExpiredError{c.Run, client.Topics.Weights, first}
	}
	return next, err
}

// read is Read, and also returns the first offset of the topic.
func (c *Chain) read(ctx context.Context, client *Client) (first, end int64, err error) {
	topic := client.Topics.Weights
	if first, end, err = client.Log.Bounds(ctx, topic, 0); err != nil {
		return 0, 0, err
	}
	from := max(first, c.Plan.Since.Weights)
	if from > end { // the topic was recreated after the plan was written
		from = first
	}
	err = client.Between(ctx, topic, 0, from, end, func(m Message) error {
		_, err := c.Add(m.Message)
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("read weights of run %s: %w", c.Run, err)
	}
	c.next = end
	return first, end, nil
}

// Follow applies the next message of a subscription to the weights topic. See [Chain.Add].
func (c *Chain) Follow(m Message) (grown bool, err error) {
	c.next = m.Offset + 1
	return c.Add(m.Message)
}

// differs reports whether the weights topic has diverged from the chain: whether the head of the chain is not accepted
// there. A topic with more records of the same chain does not differ, nor does one whose first records have expired.
func (c *Chain) differs(ctx context.Context, client *Client) (bool, error) {
	there := NewOutline(c.Plan, c.codec)
	_, err := there.Read(ctx, client)
	if errors.As(err, new(*ExpiredError)) {
		return false, nil
	}
	return err == nil && !there.Has(c.Head()), err
}

// Renew compares the chain with the weights topic. After an unclean leader election, accepted records may be lost, and
// records written since may have offsets that were already read. A role calls Renew when it has waited long for a message.
// If the topic differs, the role restarts from the topic; otherwise Renew applies the messages that the chain lacks. The
// error is an *[ExpiredError] if records have expired that the chain has not accepted.
func (c *Chain) Renew(ctx context.Context, client *Client) (differs bool, err error) {
	if differs, err = c.differs(ctx, client); err != nil || differs {
		return differs, err
	}
	_, err = c.Read(ctx, client)
	return false, err
}

// RenewUnread is [Chain.Renew] for a role that waits for another process's record. The error is an *[ExpiredError] also if
// that record may have expired: the topic starts beyond the last offset read, and has no next record.
func (c *Chain) RenewUnread(ctx context.Context, client *Client) (differs bool, err error) {
	head, next := c.Head(), c.next
	if differs, err = c.Renew(ctx, client); err != nil || differs || c.Head() != head {
		return differs, err
	}
	first, _, err := client.Log.Bounds(ctx, client.Topics.Weights, 0)
	if err == nil && first > next {
		err = &ExpiredError{c.Run, client.Topics.Weights, first}
	}
	return false, err
}

// Warm initializes the stages with the weights of the version that the plan starts from, and returns that version. It
// returns nil in a cold start.
func (c *Chain) Warm(ctx context.Context, client *Client) (*model.Model, error) {
	if c.Plan.Warm == nil {
		return nil, nil
	}
	earlier, err := client.ModelOf(ctx, c.Plan.Warm)
	if errors.As(err, new(*NoVersionError)) {
		return nil, fmt.Errorf("the version of run %s, which this run starts from, is no longer on %s", c.Plan.Warm.Run, client.Topics.Versions)
	}
	if err != nil {
		return nil, err
	}
	manifest := earlier.Manifest
	if digest := manifest.Digest(); digest != c.Plan.Warm.Manifest {
		return nil, fmt.Errorf("version %d has manifest %s, the plan names %s", manifest.Version, digest.Short(), c.Plan.Warm.Manifest.Short())
	}
	for t := range min(len(c.Plan.Stages), len(manifest.Plan.Stages)) {
		if w := earlier.Weights(t); w != nil && !c.grows(t) { // weights of other trees can't be reused
			c.initial[t], c.ridges[t] = w, manifest.Ridge(t)
		}
	}
	c.earlier = earlier
	return earlier, nil
}
