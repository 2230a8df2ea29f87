package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/page"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

func newTrain() *cobra.Command {
	var (
		from              configFlags
		report, modelFile string
		attach            string
		detach            bool
		supersede         bool
		trigger           bool
	)
	at := pageFlag{name: "page"}
	cmd := from.command("train -c FILE", cobra.NoArgs, &displayFlags{}, func(c *call) error {
		if detach || attach != "" {
			if err := requireCluster(c.config); err != nil {
				return err
			}
		}
		of := session{with: withPipeline, solves: true, head: true, page: at}
		if attach == "" {
			of.with, of.input = withLog, &c.config.Examples
		}
		return c.session(of, func() error {
			var (
				result  *schemas.Report
				trained *model.Model
				id      = attach
				options = dispatch.TrainOptions{Supersede: supersede, Trigger: trigger}
				err     error
			)
			if detach {
				if id, err = pipeline.Submit(c.Context(), c.log, c.blas, c.config.Job(), options, c.recorder); err != nil {
					return err
				}
				if report == "" && modelFile == "" {
					c.finish()
					_, err := fmt.Fprintln(c.OutOrStdout(), id)
					return err
				}
			}
			if id != "" {
				result, trained, err = dispatch.Attach(c.Context(), c.pipeline(), id, c.recorder)
			} else {
				result, trained, err = pipeline.Train(c.Context(), c.log, c.blas, c.config.Job(), options, c.recorder)
			}
			if c.finish(); err != nil {
				return err
			}
			configuration := c.config
			if attach != "" {
				configuration = nil // the run has the configuration of its submitter
			}
			if err := screen.WriteJSON(report, c.OutOrStdout(), screen.Report{Report: result, Configuration: configuration}); err != nil {
				return err
			}
			if modelFile != "" {
				err := screen.Write(modelFile, c.OutOrStdout(), func(w io.Writer) error { _, err := trained.WriteTo(w); return err })
				if err != nil {
					return err
				}
			}
			if c.show.onScreen() {
				summary := c.OutOrStdout()
				if report == screen.StandardOutput || modelFile == screen.StandardOutput {
					summary = c.ErrOrStderr()
				}
				screen.Conclude(summary, result, report, modelFile)
				if modelFile == "" {
					fmt.Fprintf(c.ErrOrStderr(), "to export it: stagewise weights export -c %s --version %d -o FILE\n", from.file, result.Version)
				}
			}
			if result.Outcomes.Withhold() {
				return fmt.Errorf("version %d is not offered: %s", result.Version, result.Outcomes.Why())
			}
			return nil
		})
	})
	addOutput(cmd, &report, "report", "", "write the report as JSON to a `file` (-: standard output)")
	addOutput(cmd, &modelFile, "model", "", "write the model for predict to a `file` (-: standard output)")
	cmd.Flags().BoolVar(&detach, "detach", false, "submit the run to other processes, and print its id; with --report or --model, "+
		"wait until it ends")
	cmd.Flags().StringVar(&attach, "attach", "", "follow this `run` until it ends, instead of submitting a run")
	excludes(cmd, "attach", "it follows a run that was submitted", "detach")
	cmd.Flags().BoolVar(&supersede, "supersede", false,
		"cancel other unfinished runs of the pipeline, which otherwise go first; always on with the embedded broker")
	cmd.Flags().BoolVar(&trigger, "trigger", false, "for timers and scripts: cancel waiting runs that were also submitted with "+
		"--trigger; active runs continue")
	at.add(cmd, "serve a live page")
	return cmd
}

func newRun() *cobra.Command {
	var until, report string
	at := pageFlag{name: "page"}
	cmd := new(configFlags).command("run -c FILE", cobra.NoArgs, &displayFlags{}, func(c *call) error {
		if err := checkChained(c.config); err != nil {
			return err
		}
		of := session{role: protocol.RoleRun, ends: until != "", with: withLog, input: &c.config.Examples, solves: true, head: true, page: at}
		return c.session(of, func() error {
			if err := createFollowed(c.Context(), c.config, c.log); err != nil {
				return err
			}
			result, err := pipeline.Retrain(c.Context(), c.log, c.blas, c.config.Job(), until == untilEnd, c.recorder)
			written := func() error {
				return screen.WriteJSON(report, c.OutOrStdout(), screen.Retraining{Retraining: result, Configuration: c.config})
			}
			if err != nil && c.Context().Err() != nil && result != nil && until == "" { // as a run without an end ends
				if err := written(); err != nil {
					event.Notice(c.recorder, "%v", err)
				}
			}
			if c.finish(); err != nil {
				return err
			}
			if c.show.onScreen() {
				screen.ConcludeChain(c.ErrOrStderr(), result)
			}
			return written()
		})
	})
	choose(cmd, &until, "until", "`end`: stop at the current end of the examples topic and of examples.from_topic", untilEnd)
	addOutput(cmd, &report, "report", "", "write the report as JSON to a `file` (-: standard output)")
	at.add(cmd, "serve a live page")
	return cmd
}

// checkChained returns an error for each key that run does not support, or for the stages.
func checkChained(c *config.Config) error {
	var wrong []error
	refuse := func(key, value, want string, is bool) {
		if is {
			wrong = append(wrong, option.Problem{Key: key, Value: value, Want: want})
		}
	}
	const window = "no value for run: retrain.window selects the rows of a version"
	from, to, copies := c.Examples.From, c.Examples.To, c.Examples.Augment.Rows()
	refuse("examples.from", strings.Join(from, ", "), window, len(from) > 0)
	refuse("examples.to", strings.Join(to, ", "), window, len(to) > 0)
	refuse("examples.augment", fmt.Sprintf("%d rows for each image", copies), "no value for run, which does not augment images", copies > 1)
	refuse("average", strconv.Itoa(c.Average), "1 for run, which does not average models", c.Average > 1)
	for _, p := range c.CheckChained() {
		wrong = append(wrong, p)
	}
	return errors.Join(wrong...)
}

// newRole returns a command that runs as a service. Its exit code is 0 when a signal stops it.
func newRole(role string,
	serve func(context.Context, *kafkalog.Log, *kernel.BLAS, topics.Job, event.Recorder) error) *cobra.Command {
	return new(configFlags).command(role+" -c FILE", cobra.NoArgs, &displayFlags{log: logText}, func(c *call) error {
		if err := requireCluster(c.config); err != nil {
			return err
		}
		return c.session(session{role: role, with: withLog, solves: true, untilSignal: true}, func() error {
			return serve(c.Context(), c.log, c.blas, c.config.Job(), c.recorder)
		})
	})
}

func newVerify() *cobra.Command {
	return new(configFlags).command("verify -c FILE VERSION", cobra.MaximumNArgs(1), &displayFlags{}, func(c *call) error {
		if len(c.args) == 0 {
			return errors.New("expected a version: a version number, a run id, or latest; see weights list")
		}
		return c.session(session{with: withPipeline, solves: true}, func() error {
			same, err := replay.Verify(c.Context(), c.examples(), dispatch.NewProcess(c.blas), c.config.Job(), c.args[0], c.recorder)
			c.finish()
			for _, v := range same {
				fmt.Fprintf(c.OutOrStdout(), "version %d, recomputed, has the same weights: %s\n", v.Version, v.Digest)
			}
			return err
		})
	})
}

func newSearch() *cobra.Command {
	var (
		from         configFlags
		over         []string
		random       int
		folds        int
		seed         uint64
		output, html string
	)
	by := screen.ByError
	cmd := from.command("search -c FILE --over KEY=[VALUES]…", cobra.NoArgs, &displayFlags{}, func(c *call) error {
		list, err := candidates(from.file, from.set, over, random, seed)
		if err != nil {
			return err
		}
		switch {
		case c.config.Examples.Task() != examples.OneLabel && !page.OfEveryTask(by):
			return fmt.Errorf("--by: %s: expected error or loss, because rows do not have one label each", by)
		case folds == 1:
			return fmt.Errorf("--folds: 1: expected a whole number from 2 to %d, or 0 for none", maxFolds)
		case c.config.Examples.Holdout == 0 && folds == 0:
			return option.Problem{Key: "examples.holdout", Value: "0",
				Want: "a fraction of the training rows to rank runs by, such as --set examples.holdout=0.1, or --folds 5"}
		}
		return c.session(session{with: withLog, input: &c.config.Examples, solves: true}, func() error {
			jobs := make([]topics.Job, len(list))
			for i := range list {
				weight := list[i].Examples.ClassWeight
				list[i].Examples = c.config.Examples // whose standard input was spooled
				list[i].Examples.ClassWeight = weight
				jobs[i] = list[i].Job()
			}
			err := pipeline.Search(c.Context(), c.log, c.blas, jobs, folds, c.recorder, func(i int, made *replay.Candidate) error {
				list[i].Add(made)
				return nil
			})
			if c.finish(); err != nil {
				return err
			}
			return screen.WriteSearch(c.OutOrStdout(), list, by, output, html)
		})
	})
	cmd.Flags().StringArrayVar(&over, "over", nil, "a `key` and the values to try, such as --over 'stages.0.ridge=[1e-4, 1e-3]'; "+
		"repeatable")
	choose(cmd, &by, "by", "`measure` of the holdout rows to rank by: error, loss (the log loss of the probabilities), auc, "+
		"average_precision or balanced_error", page.Orders()...)
	cmd.Flags().Var(whole{&folds, 0, maxFolds}, "folds", "cross-validate: train with each of this many `parts` of the training rows held "+
		"out, instead of\nexamples.holdout, and rank by the means; 0: train once")
	cmd.Flags().Var(whole{&random, 0, 0}, "random", "try this many random `combinations`; 0: all")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "`seed` of --random")
	addOutput(cmd, &output, "output", "o", "write the best configuration as YAML to a `file` (-: standard output)")
	addOutput(cmd, &html, "html", "", "write a page that compares the runs to a `file` (-: standard output)")
	markRequired(cmd, "over")
	return cmd
}

// maxFolds bounds the runs of a combination.
const maxFolds = 100

// maxCandidates bounds the runs of a search.
const maxCandidates = 10_000

// candidates returns the configurations of a search over keys of a file, which set overrides: all combinations of the values, in which the
// last key varies fastest, or, if random > 0, that number of combinations drawn without repetition, in the same order.
func candidates(file string, set, over []string, random int, seed uint64) (list []screen.Candidate, err error) {
	combinations := 1
	keys := make([]config.Over, len(over))
	for i, text := range over {
		if keys[i], err = config.ParseOver(text); err != nil {
			return nil, err
		}
		if combinations *= len(keys[i].Values); combinations > maxCandidates {
			return nil, fmt.Errorf("--over: more than %d combinations: expected fewer keys or values", maxCandidates)
		}
	}
	chosen := rand.New(rand.NewPCG(seed, 0)).Perm(combinations)
	if random > 0 && random < combinations {
		chosen = chosen[:random]
	}
	slices.Sort(chosen)
	for _, n := range chosen {
		settings, tried := make([]page.Setting, len(keys)), make([]string, len(keys))
		for i, key := range slices.Backward(keys) {
			settings[i] = page.Setting{Key: key.Key, Value: key.Values[n%len(key.Values)]}
			tried[i] = key.Key + "=" + settings[i].Value
			n /= len(key.Values)
		}
		c, err := config.Load(file, set, tried...)
		if err != nil {
			return nil, err
		}
		list = append(list, screen.Candidate{Config: c, Settings: settings})
	}
	return list, nil
}

func newIngest() *cobra.Command {
	var until string
	cmd := new(configFlags).command("ingest -c FILE", cobra.NoArgs, &displayFlags{}, func(c *call) error {
		if err := requireOwnExamples(c.config, "it is read-only here"); err != nil {
			return err
		}
		follows := c.config.Examples.FromTopic != ""
		switch {
		case until != "" && !follows:
			return errors.New("--until: expected examples.from_topic: only a topic can be followed")
		case !follows && len(c.config.Examples.Train)+len(c.config.Examples.Test) == 0:
			return errors.New("nothing to ingest: set examples.train, examples.test or examples.from_topic")
		}
		of := session{role: protocol.RoleIngest, ends: !follows || until != "", with: withLog, input: &c.config.Examples}
		return c.session(of, func() error {
			if follows {
				if err := createFollowed(c.Context(), c.config, c.log); err != nil {
					return err
				}
				return source.Follow(c.Context(), c.log, c.config.Job(), until == untilEnd, c.recorder)
			}
			return source.Ingest(c.Context(), c.log, c.config.Job(), c.recorder)
		})
	})
	choose(cmd, &until, "until", "`end`: stop at the current end of the topic", untilEnd)
	return cmd
}

// createFollowed creates the topics that a pipeline follows on an embedded broker with a listener, if they are missing: other
// programs can create topics only while the broker runs.
func createFollowed(ctx context.Context, c *config.Config, log *kafkalog.Log) error {
	if c.Listen == "" || c.Examples.Archive.Alone {
		return nil
	}
	var followed []kafkalog.Topic
	for _, topic := range []string{c.Examples.FromTopic, c.Examples.Outcome.Topic} {
		if topic != "" {
			followed = append(followed, kafkalog.Topic{Name: topic, Partitions: c.Examples.Partitions})
		}
	}
	return log.Create(ctx, followed...)
}
