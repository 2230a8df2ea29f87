package main

import (
	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/pipeline/source"
)

func newQuarantine() *cobra.Command {
	return newGroup("quarantine", "List the messages that could not be used", newQuarantineList())
}

func newQuarantineList() *cobra.Command {
	return newList(&cobra.Command{
		Use: "list -c FILE", Short: "List why messages could not be used, how many, and where they are",
		Long: "List the reasons for which messages are on the quarantine topic: the number of messages, the topic,\npartition and offset of " +
			"the first and the last of them, and the reason without\nthe values of rows: messages whose reasons differ only in " +
			"these count together.",
		Example: "  stagewise quarantine list -c digits.yaml",
	}, nil, source.Quarantine, screen.WriteQuarantine)
}
