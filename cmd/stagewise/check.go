package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/preview"
	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/topics"
)

func newCheck() *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "check -c FILE", Short: "Show what train would do, and report errors in the configuration and the files", Args: cobra.NoArgs,
		Example: "  stagewise check -c digits.yaml",
		RunE: from.run(func(cmd *cobra.Command, _ []string, c *config.Config) error {
			blas, err := openBLAS()
			if err != nil {
				return err
			}
			return failed(errors.Join(preview.Write(cmd.Context(), cmd.OutOrStdout(), c, blas), checkTopics(cmd.Context(), cmd.OutOrStdout(), c)))
		}),
	}
	from.add(cmd)
	return cmd
}

// reachTimeout is how long check waits for brokers.
const reachTimeout = 10 * time.Second

// checkTopics writes how the topics that exist differ from the configuration. It returns an error for those that delete
// what must stay. Without brokers, or if none can be reached, it says nothing of them.
func checkTopics(ctx context.Context, w io.Writer, c *config.Config) error {
	if len(c.Brokers) == 0 { // the embedded broker: it would lock the data directory, or make it
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	var found *topics.Settings
	err := withLog(ctx, c, event.Ignore{}, func(log *kafkalog.Log) (err error) {
		found, err = topics.ReadSettings(ctx, topics.Open(log, c.Job().Name, nil), c.Job())
		return err
	})
	if err != nil {
		_, err = fmt.Fprintf(w, "\nexisting topics are not compared with the configuration: %v\n", err)
		return err
	}
	return errors.Join(append([]error{screen.WriteDifferences(w, found.Differences)}, found.Wrong...)...)
}
