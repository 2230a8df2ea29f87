package protocol

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/stagewise/stagewise/schemas/wire"
)

// Preserve writes the accepted records of an unfinished run again if they are older than age, so that retention does not
// delete records that another process needs to continue the run. Readers of a chain ignore duplicates, at any offset.
func (c *Client) Preserve(ctx context.Context, chain *Chain, age time.Duration) error {
	topic := c.Topics.Weights
	old, err := c.Log.Before(ctx, topic, age)
	if err != nil || old[0] <= chain.Plan.Since.Weights {
		return err
	}
	type message struct { // of a record: its key, and the record's digest
		key    string
		digest wire.Digest
	}
	failed := func(err error) error {
		return fmt.Errorf("write the weights of run %s again before they expire: %w", chain.Run, err)
	}
	latest := map[message]int64{}
	for m, err := range c.Remaining(ctx, topic, 0, chain.Plan.Since.Weights, math.MaxInt64) {
		if err != nil {
			return failed(err)
		}
		if m.Run() == chain.Run && chain.Has(m.Digest()) {
			latest[message{m.Key, m.Digest()}] = m.Offset
		}
	}
	for m, err := range c.Remaining(ctx, topic, 0, chain.Plan.Since.Weights, old[0]) {
		if at, accepted := latest[message{m.Key, m.Digest()}]; err == nil && accepted && at == m.Offset {
			_, err = c.Log.Append(ctx, topic, 0, m.Message)
		}
		if err != nil {
			return failed(err)
		}
	}
	return nil
}
