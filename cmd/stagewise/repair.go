package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
)

func newRepair() *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "repair -c FILE", Short: "Make the log of the embedded broker one that opens again, if a file of it is damaged", Args: cobra.NoArgs,
		Long: "Repair the log of the embedded broker, in data_dir. All batches of messages that are whole stay, with their offsets. The offsets of those that\n" +
			"are damaged stay empty, so that no other message gets them. It prints which they are. Copy data_dir before if the disk may read better later.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			if len(c.Brokers) > 0 {
				return schemas.Problem{Key: "brokers", Value: strings.Join(c.Brokers, ", "), Want: "no value, as repair is for the files of the embedded broker"}
			}
			repaired, err := kafkalog.Repair(c.DataDir)
			writeRepaired(cmd.OutOrStdout(), repaired)
			if err != nil {
				return failed(fmt.Errorf("repair the log in %s: %w", c.DataDir, err))
			}
			if len(repaired) == 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "the log in %s is whole\n", c.DataDir)
			}
			return nil
		},
	}
	from.add(cmd)
	return cmd
}

// writeRepaired writes what was damaged, and what is lost of it.
func writeRepaired(w io.Writer, repaired []kafkalog.Repaired) {
	for _, r := range repaired {
		switch {
		case r.Topic == "":
			fmt.Fprintf(w, "%s was damaged at byte %d; it is as the broker left it again\n", r.File, r.Position)
		case r.From == r.To:
			fmt.Fprintf(w, "%s was damaged at byte %d; no message of %s[%d] is lost\n", r.File, r.Position, r.Topic, r.Partition)
		default:
			fmt.Fprintf(w, "%s was damaged at byte %d; the messages of %s[%d] from offset %d to %d are lost\n", r.File, r.Position, r.Topic, r.Partition, r.From, r.To-1)
		}
	}
}
