package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
)

func newIngest() *cobra.Command {
	var (
		from configFlags
		show displayFlags
	)
	cmd := &cobra.Command{
		Use: "ingest -c FILE", Short: "Write the configured files to the examples topic, except those that are already there", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			if err := show.check(); err != nil {
				return err
			}
			if len(c.Examples.Train)+len(c.Examples.Test) == 0 {
				return errors.New("no files to ingest: set examples.train or examples.test")
			}
			remove, err := spool(cmd, &c.Examples)
			if err != nil {
				return failed(err)
			}
			defer remove()
			recorder, finish := show.recorder(c.Name, cmd.ErrOrStderr())
			defer finish()
			return failed(withLog(cmd.Context(), c, recorder, func(log *kafkalog.Log) error {
				return pipeline.Ingest(cmd.Context(), log, c.Job(), recorder)
			}))
		},
	}
	from.add(cmd)
	show.add(cmd)
	return cmd
}
