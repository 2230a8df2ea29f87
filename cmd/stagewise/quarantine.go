package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
)

func newQuarantine() *cobra.Command {
	return newGroup("quarantine", "List the messages that could not be used", newQuarantineList())
}

func newQuarantineList() *cobra.Command {
	values := false
	return newList(&cobra.Command{
		Use: "list -c FILE", Short: "List why messages could not be used, how many, and where they are",
		Long: "List the reasons for which messages are on the quarantine topic: the number of messages, the topic,\npartition and offset of " +
			"the first and the last of them, and the reason. Messages\nwhose reasons differ only in the values of rows count together. " +
			"With log.values,\nthe reason is that of the last message, with its values.",
		Example: "  stagewise quarantine list -c digits.yaml",
	}, func(c *config.Config, _ []string) error {
		values = c.Logs.Values
		return nil
	}, func(ctx context.Context, p *topics.Pipeline) ([]source.QuarantineReason, error) {
		return source.Quarantine(ctx, p, values)
	}, screen.WriteQuarantine)
}
