package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/telemetry"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of the program, its revision, and the Go version that built it", Args: cobra.NoArgs,
		Example: "  stagewise version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			version, revision := telemetry.Build()
			if revision != "" {
				revision = " " + revision
			}
			fmt.Fprintf(cmd.OutOrStdout(), "stagewise %s%s %s %s/%s\n", version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}
