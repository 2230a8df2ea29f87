package protocol

import (
	"context"
	"fmt"
	"time"

	"github.com/stagewise/stagewise/schemas/wire"
)

// Preserve writes the accepted records of an unfinished run again if they are older than age, so that retention does not
// delete records that another process needs to continue the run. Readers of a chain ignore duplicates, at any offset.
func (c *Client) Preserve(ctx context.Context, chain *Chain, age time.Duration) error {
	if err := c.preserve(ctx, chain, age); err != nil {
		return fmt.Errorf("write the weights of run %s again before they expire: %w", chain.Run, err)
	}
	return nil
}

func (c *Client) preserve(ctx context.Context, chain *Chain, age time.Duration) error {
	topic := c.Topics.Weights
	old, err := c.Log.Before(ctx, topic, age)
	if err != nil || old[0] <= chain.Plan.Since.Weights {
		return err
	}
	first, end, err := c.Log.Bounds(ctx, topic, 0)
	if err != nil {
		return err
	}
	from := max(first, chain.Plan.Since.Weights)
	if from >= min(old[0], end) {
		return nil
	}
	type message struct { // of a record: its key, and the record's digest
		key    string
		digest wire.Digest
	}
	latest := map[message]int64{}
	err = c.Between(ctx, topic, 0, from, end, func(m Message) error {
		if m.Run() == chain.Run && chain.Has(m.Digest()) {
			latest[message{m.Key, m.Digest()}] = m.Offset
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.Between(ctx, topic, 0, from, min(old[0], end), func(m Message) error {
		if at, accepted := latest[message{m.Key, m.Digest()}]; !accepted || at != m.Offset {
			return nil
		}
		_, err := c.Log.Append(ctx, topic, 0, m.Message)
		return err
	})
}
