package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/run/event"
)

func newWork() *cobra.Command {
	return newRole(roleWork, "work -c FILE", "Serve as a worker for the runs of a pipeline until stopped; several workers share a run", pipeline.Work)
}

func newSolve() *cobra.Command {
	return newRole(roleSolve, "solve -c FILE", "Serve as the solver for the runs of a pipeline until stopped; further solvers stand by", pipeline.Solve)
}

// newRole returns a command that runs as a service. Its exit code is 0 when a signal stops it.
func newRole(role, use, short string, serve func(context.Context, *kafkalog.Log, *kernel.BLAS, pipeline.Job, event.Recorder) error) *cobra.Command {
	var (
		from configFlags
		show = displayFlags{log: logText}
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
			if err := requireCluster(c); err != nil {
				return err
			}
			blas, err := openBLAS()
			if err != nil {
				return err
			}
			blas.UseForSolves()
			recorder, finish := show.recorder(c.Name, cmd.ErrOrStderr())
			defer finish()
			recorder, stop, err := withMetrics(cmd.Context(), c, role, recorder)
			if err != nil {
				return err
			}
			defer stop()
			err = withLog(cmd.Context(), c, recorder, func(log *kafkalog.Log) error {
				return serve(cmd.Context(), log, blas, c.Job(), recorder)
			})
			if cmd.Context().Err() != nil {
				return nil
			}
			return failed(err)
		},
	}
	from.add(cmd)
	show.add(cmd)
	return cmd
}

// withMetrics serves the metrics of a role until stop is called, unless the configuration says that they are not served. The recorder that it
// returns records them too.
func withMetrics(ctx context.Context, c *config.Config, role string, recorder event.Recorder) (_ event.Recorder, stop func(), err error) {
	stop = func() {}
	if c.Metrics.Listen == "" {
		return recorder, stop, nil
	}
	listener, taken, err := listenOn(c.Metrics.Listen)
	if err != nil {
		return nil, nil, err
	}
	if taken != "" {
		recorder.Record(event.Noticed{Text: taken})
	}
	if listener == nil {
		return recorder, stop, nil
	}
	m := newMetrics(c.Name, role, time.Now)
	stop = serveMetrics(ctx, listener, m)
	recorder.Record(event.Serving{Address: listener.Addr().String()})
	return tee{recorder, event.Serialised(m)}, stop, nil
}

// tee passes each event to two recorders.
type tee [2]event.Recorder

func (t tee) Record(e event.Event) {
	for _, r := range t {
		r.Record(e)
	}
}
