package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

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

// newHealth returns the command that containers call to find out whether the process in them works: they have no other program for it.
func newHealth() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "health URL", Short: "Check the health of a process", Args: exactly("URL"),
		Long: "Check /live or /ready of a process, at its metrics address or the address of serve. The exit code is\n0 if the status " +
			"is 200. Otherwise it is 1, and the answer is on standard error.",
		Example: "  stagewise health http://127.0.0.1:9464/ready",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !strings.HasPrefix(args[0], "http://") && !strings.HasPrefix(args[0], "https://") {
				return fmt.Errorf("%q: expected a URL, such as http://127.0.0.1:9464/ready", args[0])
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return failed(telemetry.Ask(ctx, args[0]))
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "`time` to wait for the answer")
	return cmd
}
