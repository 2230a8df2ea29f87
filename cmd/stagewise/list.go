package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/topics"
)

// newList makes a command list what read finds in a pipeline. check may be nil.
func newList[T any](cmd *cobra.Command, check func(*config.Config, []string) error, read func(context.Context, *topics.Pipeline) (T, error),
	write func(io.Writer, T) error) *cobra.Command {
	var from configFlags
	cmd.Args = cobra.NoArgs
	cmd.RunE = from.onPipeline(check, func(cmd *cobra.Command, _ []string, c *config.Config, log *kafkalog.Log) error {
		found, err := read(cmd.Context(), topics.Open(log, c.Name, nil))
		if err != nil {
			return err
		}
		return write(cmd.OutOrStdout(), found)
	})
	from.add(cmd)
	return cmd
}
