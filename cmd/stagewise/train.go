package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
)

func newTrain() *cobra.Command {
	var (
		from              configFlags
		show              displayFlags
		report, modelFile string
		attach            string
		detach            bool
		supersede         bool
		trigger           bool
		pageAt            string
	)
	cmd := &cobra.Command{
		Use: "train -c FILE", Short: "Ingest the configured files, then train one version", Args: cobra.NoArgs,
		Example: `  stagewise train -c digits.yaml --model digits.model
  stagewise train -c digits.yaml --set stages.0.passes=3 --report -  with another value, and the report on standard output
  stagewise train -c digits.yaml --detach                            leave the run to the workers and solvers of a cluster`,
		RunE: from.run(func(cmd *cobra.Command, _ []string, c *config.Config) error {
			if err := errors.Join(show.check(), screen.CheckWritable(report), screen.CheckWritable(modelFile),
				checkPage("--page", pageAt)); err != nil {
				return err
			}
			if report == screen.StandardOutput && modelFile == screen.StandardOutput {
				return errors.New("--report and --model: expected - for only one of them")
			}
			if detach && attach != "" {
				return errors.New("--detach and --attach: expected only one of them")
			}
			if detach || attach != "" {
				if err := requireCluster(c); err != nil {
					return err
				}
			}
			blas, err := openSolverBLAS()
			if err != nil {
				return err
			}

			if attach == "" {
				remove, err := spool(cmd, &c.Examples)
				if err != nil {
					return failed(err)
				}
				defer remove()
			}
			with := withLog
			if attach != "" {
				with = withPipeline
			}
			return show.session(cmd, c, "", with, func(log *kafkalog.Log, recorder event.Recorder, finish func()) error {
				if show.onScreen() {
					screen.Describe(cmd.ErrOrStderr(), c, blas)
				}
				var (
					result  *schemas.Report
					trained *model.Model
					id      = attach
					options = dispatch.TrainOptions{Supersede: supersede, Trigger: trigger}
				)
				unshow, err := showPage(cmd.Context(), log, c, "--page", pageAt, recorder)
				if err != nil {
					return err
				}
				defer func() { _ = unshow() }() // the run is what counts
				if detach {
					if id, err = pipeline.Submit(cmd.Context(), log, blas, c.Job(), options, recorder); err != nil {
						return err
					}
					if report == "" && modelFile == "" {
						finish()
						_, err := fmt.Fprintln(cmd.OutOrStdout(), id)
						return err
					}
				}
				if id != "" {
					result, trained, err = dispatch.Attach(cmd.Context(), topics.Open(log, c.Name, nil), id, recorder)
				} else {
					result, trained, err = pipeline.Train(cmd.Context(), log, blas, c.Job(), options, recorder)
				}
				if finish(); err != nil {
					return err
				}
				configuration := c
				if attach != "" {
					configuration = nil // the run has that of who submitted it
				}
				if err := screen.WriteReport(report, cmd.OutOrStdout(), result, configuration); err != nil {
					return err
				}
				if err := screen.WriteModel(modelFile, cmd.OutOrStdout(), trained); err != nil {
					return err
				}
				if show.onScreen() {
					summary := cmd.OutOrStdout()
					if report == screen.StandardOutput || modelFile == screen.StandardOutput {
						summary = cmd.ErrOrStderr()
					}
					screen.Conclude(summary, result, report, modelFile)
					if modelFile == "" {
						fmt.Fprintf(cmd.ErrOrStderr(), "to export it: stagewise weights export -c %s --version %d -o FILE\n", from.file, result.Version)
					}
				}
				if result.Outcomes.Withhold() {
					return fmt.Errorf("version %d is not offered: %s", result.Version, result.Outcomes.Why())
				}
				return nil
			})
		}),
	}
	from.add(cmd)
	show.add(cmd)
	cmd.Flags().StringVar(&report, "report", "", "write the report as JSON to a `file` (-: standard output)")
	cmd.Flags().StringVar(&modelFile, "model", "", "write the model for predict to a `file` (-: standard output)")
	cmd.Flags().BoolVar(&detach, "detach", false, "submit the run to other processes, and print its id; with --report or --model, "+
		"wait until it ends")
	cmd.Flags().StringVar(&attach, "attach", "", "follow this `run` until it ends, instead of submitting a run")
	cmd.Flags().BoolVar(&supersede, "supersede", false,
		"cancel other unfinished runs of the pipeline, which otherwise go first; always on with the embedded broker")
	cmd.Flags().BoolVar(&trigger, "trigger", false, "for timers and scripts: cancel waiting runs that were also submitted with "+
		"--trigger; active runs continue")
	addPage(cmd, &pageAt)
	return cmd
}
