package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

func newTrain() *cobra.Command {
	var (
		from              choice
		report, modelFile string
		attach            string
		detach            bool
		supersede         bool
		show              telling
	)
	cmd := &cobra.Command{
		Use: "train -c FILE", Short: "Ingest the files that are named, then train one version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			if err := errors.Join(show.check(), writable(report), writable(modelFile)); err != nil {
				return err
			}
			if detach && attach != "" {
				return errors.New("--detach and --attach: expected one of them")
			}
			if detach || attach != "" {
				if err := elsewhere(c); err != nil {
					return err
				}
			}
			if attach == "" {
				if err := c.CheckStages(); err != nil {
					return err
				}
			}
			blas, err := openBLAS()
			if err != nil {
				return err
			}
			blas.UseForSolves()

			people := cmd.OutOrStdout()
			if report == standard {
				people = cmd.ErrOrStderr()
			}
			recorder, finish := show.recorder(people, cmd.ErrOrStderr())
			return failed(withLog(cmd.Context(), c, recorder, func(log *kafkalog.Log) error {
				if show.toPeople() {
					describe(people, c, blas)
				}
				var (
					result  *schemas.Report
					trained *model.Model
					err     error
					id      = attach
					options = pipeline.TrainOptions{Supersede: supersede}
				)
				defer finish()
				if detach {
					if id, err = pipeline.Submit(cmd.Context(), log, blas, c.Job(), options, recorder); err != nil {
						return err
					}
					if report == "" && modelFile == "" {
						finish()
						fmt.Fprintf(cmd.OutOrStdout(), "run %s\n", id)
						return nil
					}
				}
				if id != "" {
					result, trained, err = pipeline.Attach(cmd.Context(), log, c.Name, id, recorder)
				} else {
					result, trained, err = pipeline.Train(cmd.Context(), log, blas, c.Job(), options, recorder)
				}
				if finish(); err != nil {
					return err
				}
				if err := writeReport(report, cmd.OutOrStdout(), result); err != nil {
					return err
				}
				if err := writeModel(modelFile, cmd.OutOrStdout(), trained); err != nil {
					return err
				}
				if show.toPeople() {
					conclude(people, from.file, result, report, modelFile)
				}
				return nil
			}))
		},
	}
	from.flags(cmd)
	show.flags(cmd)
	cmd.Flags().StringVar(&report, "report", "", "write the report, JSON, to a `file` (-: standard output)")
	cmd.Flags().StringVar(&modelFile, "model", "", "write the model to a `file`, for predict")
	cmd.Flags().BoolVar(&detach, "detach", false, "leave the run to workers and solvers elsewhere, and print its id; with --report or --model, wait for its end")
	cmd.Flags().StringVar(&attach, "attach", "", "submit nothing: follow this `run` to its end")
	cmd.Flags().BoolVar(&supersede, "supersede", false, "cancel a run that another configuration has left unfinished; on the embedded broker this is implied")
	return cmd
}

// elsewhere tells whether others can take part in a run.
func elsewhere(c *config.Config) error {
	if len(c.Brokers) == 0 {
		return schemas.Problem{Key: "brokers", Value: "not set", Want: "those of a Kafka cluster: the embedded broker has no room for a second process"}
	}
	return nil
}

func newIngest() *cobra.Command {
	var (
		from choice
		show telling
	)
	cmd := &cobra.Command{
		Use: "ingest -c FILE", Short: "Put the files onto the examples topic, those that are not there", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			if err := show.check(); err != nil {
				return err
			}
			if len(c.Examples.Train)+len(c.Examples.Test) == 0 {
				return errors.New("no files to ingest: neither examples.train nor examples.test names any")
			}
			recorder, finish := show.recorder(cmd.OutOrStdout(), cmd.ErrOrStderr())
			defer finish()
			return failed(withLog(cmd.Context(), c, recorder, func(log *kafkalog.Log) error {
				return pipeline.Ingest(cmd.Context(), log, c.Job(), recorder)
			}))
		},
	}
	from.flags(cmd)
	show.flags(cmd)
	return cmd
}

// telling is the flags that say how a run tells what it does.
type telling struct {
	quiet bool
	log   string
}

func (t *telling) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&t.quiet, "quiet", false, "say nothing but errors")
	cmd.Flags().StringVar(&t.log, "log", t.log, "instead of a table write logs to standard error, as `text or json`")
}

func (t *telling) check() error {
	if t.log != "" && t.log != "text" && t.log != "json" {
		return fmt.Errorf("--log: %s: expected text or json", t.log)
	}
	return nil
}

func (t *telling) toPeople() bool { return !t.quiet && t.log == "" }

// recorder answers with the recorder that tells it so, and what to call when nothing more will happen.
func (t *telling) recorder(out, stderr io.Writer) (recorder event.Recorder, finish func()) {
	switch {
	case t.quiet:
		return nothing{}, func() {}
	case t.log == "json":
		return event.Serialised(newLogs(slog.NewJSONHandler(stderr, nil))), func() {}
	case t.log == "text":
		return event.Serialised(newLogs(slog.NewTextHandler(stderr, nil))), func() {}
	}
	p := newProgress(out, stderr, time.Now)
	return event.Serialised(p), p.finish
}

// trouble is the recorder of commands that have nothing to tell but what they wait for.
func trouble(cmd *cobra.Command) event.Recorder {
	return event.Serialised(newProgress(cmd.ErrOrStderr(), io.Discard, time.Now))
}

type nothing struct{}

func (nothing) Record(event.Event) {}

func writeReport(path string, stdout io.Writer, r *schemas.Report) error {
	if path == "" {
		return nil
	}
	return write(path, stdout, func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	})
}

func writeModel(path string, stdout io.Writer, m *model.Model) error {
	if path == "" {
		return nil
	}
	return write(path, stdout, func(w io.Writer) error {
		_, err := m.WriteTo(w)
		return err
	})
}
