//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// dump writes the headers and sizes of all messages on the topics to topics.txt in the folder of logs, to show who published
// what in which order. It runs after a failure, so it skips topics that it can't read.
func (c *campaign) dump(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	file, err := os.Create(filepath.Join(c.folder, "topics.txt"))
	if err != nil {
		return
	}
	defer file.Close()
	for _, name := range []string{"plans", "weights", "statistics", "residuals", "state"} {
		topic := c.name + "." + name
		partitions, err := c.log.Partitions(ctx, topic)
		if err != nil {
			fmt.Fprintln(file, err)
			continue
		}
		for p := range partitions {
			if err := c.dumpPartition(ctx, file, topic, p); err != nil {
				fmt.Fprintln(file, err)
			}
		}
	}
}

func (c *campaign) dumpPartition(ctx context.Context, file *os.File, topic string, partition int) error {
	first, end, err := c.log.Bounds(ctx, topic, partition)
	if err != nil {
		return err
	}
	r := c.log.Range(topic, partition, first, end)
	defer r.Close()
	for {
		m, err := r.Next(ctx)
		if err != nil {
			return err // io.EOF after the last message
		}
		fmt.Fprintf(file, "%s[%d]@%d %d bytes", topic, partition, m.Offset, len(m.Value))
		for _, h := range m.Headers {
			fmt.Fprintf(file, " %s=%.12s", h.Key, h.Value)
		}
		fmt.Fprintln(file)
	}
}
