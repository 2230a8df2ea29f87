package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/telemetry"
)

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
