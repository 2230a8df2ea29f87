package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan returns the command that packagers call: make release does.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use: "man FOLDER", Short: "Write a manual page for each command into a folder", Args: exactly("FOLDER"),
		Long: "Write a manual page for each command into a folder, which is created if needed. The environment\nvariable " +
			"SOURCE_DATE_EPOCH sets the date of the pages, for reproducible builds.",
		Example: "  stagewise man man1",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return failed(err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "stagewise", Manual: "stagewise"}, args[0]); err != nil {
				return failed(fmt.Errorf("write the manual pages: %w", err))
			}
			return nil
		},
	}
}
