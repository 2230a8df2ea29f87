package main

import (
	"context"
	"fmt"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
)

// createFollowed creates the topics that a pipeline follows on an embedded broker with a listener, if they are missing: other
// programs can create topics only while the broker runs.
func createFollowed(ctx context.Context, c *config.Config, log *kafkalog.Log) error {
	if c.Listen == "" {
		return nil
	}
	for _, topic := range []string{c.Examples.FromTopic, c.Examples.Outcome.Topic} {
		if topic == "" {
			continue
		}
		exists, err := log.Exists(ctx, topic)
		if err != nil {
			return err
		}
		if exists {
			continue
		}
		if err := log.Create(ctx, kafkalog.Topic{Name: topic, Partitions: c.Examples.Partitions}); err != nil {
			return fmt.Errorf("create %s: %w", topic, err)
		}
	}
	return nil
}
