//go:build unix

package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/stagewise/stagewise/pipeline/protocol"
)

// dump writes the headers and sizes of all messages on the topics to topics.txt in the folder of logs, to show who published
// what in which order. It runs after a failure, so it skips topics that it can't read, and does nothing without brokers.
func (c *campaign) dump(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	file, err := os.Create(filepath.Join(c.folder, "topics.txt"))
	if err != nil || c.log == nil {
		return
	}
	defer file.Close()
	client := protocol.NewClient(c.log, c.name, nil)
	t := client.Topics
	for _, topic := range []string{t.Plans, t.Weights, t.Statistics, t.Residuals, t.State} {
		partitions, err := c.log.Partitions(ctx, topic)
		for p := 0; p < partitions && err == nil; p++ {
			err = client.Remaining(ctx, topic, p, 0, math.MaxInt64, func(m protocol.Message) error {
				fmt.Fprintf(file, "%s[%d]@%d %d bytes", topic, p, m.Offset, len(m.Value))
				for _, h := range m.Headers {
					fmt.Fprintf(file, " %s=%.12s", h.Key, h.Value)
				}
				_, err := fmt.Fprintln(file)
				return err
			})
		}
		if err != nil {
			fmt.Fprintln(file, err)
		}
	}
}
