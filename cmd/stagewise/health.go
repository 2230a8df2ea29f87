package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// newHealth returns the command that containers call to find out whether the process in them works: they have no other program for it.
func newHealth() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "health URL", Short: "Ask a process whether it works; the exit code says so", Args: cobra.ExactArgs(1),
		Long: "Ask a process that serves /live and /ready, at the address of its metrics or of serve. The exit code is 0 if it answers 200. Otherwise it is 1,\n" +
			"and the answer is on standard error.",
		Example: "  stagewise health http://127.0.0.1:9464/ready",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !strings.HasPrefix(args[0], "http://") && !strings.HasPrefix(args[0], "https://") {
				return fmt.Errorf("%q: expected a URL, such as http://127.0.0.1:9464/ready", args[0])
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return failed(askHealth(ctx, args[0]))
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how `long` to wait for the answer")
	return cmd
}

func askHealth(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	why, err := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	return errors.Join(fmt.Errorf("%s: %s: %s", url, answer.Status, strings.TrimSpace(string(why))), err)
}
