package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/run/event"
)

func newWork() *cobra.Command {
	return newRole("work -c FILE", "Work on the runs of a pipeline until told to end, as one of any number of workers", pipeline.Work)
}

func newSolve() *cobra.Command {
	return newRole("solve -c FILE", "Solve the runs of a pipeline until told to end, or stand by while another does", pipeline.Solve)
}

// newRole is a command that is a service: it ends well when it is told to end.
func newRole(use, short string, serve func(context.Context, *kafkalog.Log, *kernel.BLAS, pipeline.Job, event.Recorder) error) *cobra.Command {
	var (
		from choice
		show = telling{log: "text"}
	)
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			if err := show.check(); err != nil {
				return err
			}
			if err := elsewhere(c); err != nil {
				return err
			}
			blas, err := openBLAS()
			if err != nil {
				return err
			}
			blas.UseForSolves()
			recorder, finish := show.recorder(cmd.OutOrStdout(), cmd.ErrOrStderr())
			defer finish()
			if c.Metrics.Listen != "" {
				listener, err := listenOn(c.Metrics.Listen)
				if err != nil {
					return err
				}
				figures := newMetrics()
				defer serveMetrics(cmd.Context(), listener, figures)()
				recorder.Record(event.Serving{Address: listener.Addr().String()})
				recorder = both{recorder, event.Serialised(figures)}
			}
			err = withLog(cmd.Context(), c, recorder, func(log *kafkalog.Log) error {
				return serve(cmd.Context(), log, blas, c.Job(), recorder)
			})
			if cmd.Context().Err() != nil {
				return nil
			}
			return failed(err)
		},
	}
	from.flags(cmd)
	show.flags(cmd)
	return cmd
}

// both is two recorders.
type both [2]event.Recorder

func (b both) Record(e event.Event) {
	for _, r := range b {
		r.Record(e)
	}
}
