package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
)

func newWork() *cobra.Command {
	return newRole(protocol.RoleWork, "work -c FILE",
		"Work on the runs of a pipeline until stopped; several workers share a run", dispatch.Work)
}

func newSolve() *cobra.Command {
	return newRole(protocol.RoleSolve, "solve -c FILE",
		"Solve the runs of a pipeline until stopped; additional solvers stand by", dispatch.Solve)
}

// newRole returns a command that runs as a service. Its exit code is 0 when a signal stops it.
func newRole(role, use, short string,
	serve func(context.Context, *kafkalog.Log, *kernel.BLAS, topics.Job, event.Recorder) error) *cobra.Command {
	var (
		from configFlags
		show = displayFlags{log: logText}
	)
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs, Example: "  stagewise " + role + " -c digits.yaml",
		RunE: from.run(func(cmd *cobra.Command, _ []string, c *config.Config) error {
			if err := show.check(); err != nil {
				return err
			}
			if err := requireCluster(c); err != nil {
				return err
			}
			blas, err := openSolverBLAS()
			if err != nil {
				return err
			}
			err = show.session(cmd, c, role, withLog, func(log *kafkalog.Log, recorder event.Recorder, _ func()) error {
				return serve(cmd.Context(), log, blas, c.Job(), recorder)
			})
			if cmd.Context().Err() != nil {
				return nil
			}
			return err
		}),
	}
	from.add(cmd)
	show.add(cmd)
	return cmd
}
