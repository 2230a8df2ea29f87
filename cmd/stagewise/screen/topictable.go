package screen

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/topics"
)

// WriteTopics writes a row for each topic.
func WriteTopics(w io.Writer, list []kafkalog.Topic) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "topic\tpartitions\treplicas\tcleanup")
	for _, t := range list {
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\n", t.Name, t.Partitions, t.Replication, cleanup(t))
	}
	return table.Flush()
}

// WriteDifferences writes how topics differ from the configuration.
func WriteDifferences(w io.Writer, differences []topics.Difference) error {
	if len(differences) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\ntopic\tsetting\tcurrent\tconfigured\t")
	for _, d := range differences {
		how := "changed by topics apply"
		if !d.Applies() {
			how = "changed by Kafka's own tools"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", d.Topic, d.Name, d.Has, d.Configured, how)
	}
	return table.Flush()
}

// cleanup returns the cleanup.policy of a topic.
func cleanup(t kafkalog.Topic) string {
	if t.Compact {
		return "compact"
	}
	return "delete"
}
