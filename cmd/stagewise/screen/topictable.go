package screen

import (
	"fmt"
	"io"

	"github.com/stagewise/stagewise/cmd/stagewise/artifact"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/topics"
)

// WriteTopics writes a row for each topic.
func WriteTopics(w io.Writer, list []kafkalog.Topic) error {
	var table artifact.Table
	table.Row("topic", "partitions", "replicas", "cleanup")
	for _, t := range list {
		table.Row(t.Name, t.Partitions, t.Replication, cleanup(t))
	}
	return table.Write(w)
}

// WriteDifferences writes how topics differ from the configuration.
func WriteDifferences(w io.Writer, differences []topics.Difference) error {
	if len(differences) == 0 {
		return nil
	}
	var table artifact.Table
	fmt.Fprintln(w)
	table.Row("topic", "setting", "current", "configured", "")
	for _, d := range differences {
		how := "changed by topics apply"
		if !d.Applies() {
			how = "changed by Kafka's own tools"
		}
		table.Row(d.Topic, d.Name, d.Has, d.Configured, how)
	}
	return table.Write(w)
}

// cleanup returns the cleanup.policy of a topic.
func cleanup(t kafkalog.Topic) string {
	if t.Compact {
		return "compact"
	}
	return "delete"
}
