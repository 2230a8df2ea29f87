package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
)

func newVerify() *cobra.Command {
	var (
		from configFlags
		show displayFlags
	)
	cmd := &cobra.Command{
		Use: "verify -c FILE VERSION", Short: "Make a version again from the log, and compare the weights", Args: cobra.MaximumNArgs(1),
		Example: `  stagewise verify -c clicks.yaml 7        from its last full run on, on topics that are deleted at the end
  stagewise verify -c clicks.yaml latest`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return errors.New("expected a version: its number, the id of its run, or latest; weights list has them")
			}
			if err := show.check(); err != nil {
				return err
			}
			blas, err := openBLAS()
			if err != nil {
				return err
			}
			blas.UseForSolves()
			recorder, finish := show.recorder(c.Name, cmd.ErrOrStderr())
			defer finish()
			return failed(withPipeline(cmd.Context(), c, recorder, func(log *kafkalog.Log) error {
				same, err := pipeline.Verify(cmd.Context(), log, blas, c.Job(), args[0], recorder)
				finish()
				for _, v := range same {
					fmt.Fprintf(cmd.OutOrStdout(), "version %d, made again, has the same weights: %s\n", v.Version, v.Digest)
				}
				return err
			}))
		},
	}
	from.add(cmd)
	show.add(cmd)
	return cmd
}
