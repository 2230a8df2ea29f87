package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/topics"
)

func newVerify() *cobra.Command {
	var (
		from configFlags
		show displayFlags
	)
	cmd := &cobra.Command{
		Use: "verify -c FILE VERSION", Short: "Recompute a version from the log, and compare the weights", Args: cobra.MaximumNArgs(1),
		Example: `  stagewise verify -c clicks.yaml 7        recompute from its last full run, on temporary topics
  stagewise verify -c clicks.yaml latest`,
		RunE: from.run(func(cmd *cobra.Command, args []string, c *config.Config) error {
			if len(args) == 0 {
				return errors.New("expected a version: a version number, a run id, or latest; see weights list")
			}
			if err := show.check(); err != nil {
				return err
			}
			blas, err := openSolverBLAS()
			if err != nil {
				return err
			}
			return show.session(cmd, c, "", withPipeline, func(log *kafkalog.Log, recorder event.Recorder, finish func()) error {
				same, err := replay.Verify(cmd.Context(), topics.OpenFor(log, c.Job(), nil), dispatch.NewProcess(blas), c.Job(), args[0], recorder)
				finish()
				for _, v := range same {
					fmt.Fprintf(cmd.OutOrStdout(), "version %d, recomputed, has the same weights: %s\n", v.Version, v.Digest)
				}
				return err
			})
		}),
	}
	from.add(cmd)
	show.add(cmd)
	return cmd
}
