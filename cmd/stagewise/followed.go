package main

import (
	"context"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
)

// createFollowed creates the topics that a pipeline follows on an embedded broker with a listener, if they are missing: other
// programs can create topics only while the broker runs.
func createFollowed(ctx context.Context, c *config.Config, log *kafkalog.Log) error {
	if c.Listen == "" {
		return nil
	}
	var followed []kafkalog.Topic
	for _, topic := range []string{c.Examples.FromTopic, c.Examples.Outcome.Topic} {
		if topic != "" {
			followed = append(followed, kafkalog.Topic{Name: topic, Partitions: c.Examples.Partitions})
		}
	}
	return log.Create(ctx, followed...)
}
