package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/compare"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/examples"
)

func newSearch() *cobra.Command {
	var (
		from         configFlags
		show         displayFlags
		over         []string
		by           string
		random       int
		folds        int
		seed         uint64
		output, page string
	)
	cmd := &cobra.Command{
		Use:   "search -c FILE --over KEY=[VALUES]…",
		Short: "Search for the key values with the best predictions of the holdout rows", Args: cobra.NoArgs,
		Long: "Train a run for each combination of the values, and rank the runs by the rows held out with\nexamples.holdout, " +
			"or by cross-validation. Test " +
			"rows are measured but do not affect the ranking. Runs share common work, and\nhave the same weights as separate " +
			"runs. They write to temporary topics: train a version with the\nbest values afterwards.",
		Example: `  stagewise search -c digits.yaml --set examples.holdout=0.1 --over 'stages.0.ridge=[1e-5, 1e-4, 1e-3]'
  stagewise search -c digits.yaml --set examples.holdout=0.1 --over 'stages.0.ridge=[1e-4, 1e-3]' \
    --over 'stages.0.features.bandwidth_scale=[1, 2, 4]' -o best.yaml
  stagewise search -c digits.yaml --folds 5 --over 'stages.0.ridge=[1e-4, 1e-3]'
  stagewise search -c digits.yaml --set examples.holdout=0.1 --over 'seed=[1, 2, 3]' --over 'prepare.pca=[0, 20, 40]' --random 5`,
		RunE: from.run(func(cmd *cobra.Command, _ []string, c *config.Config) error {
			list, err := candidates(from.file, from.set, over, random, seed)
			if err != nil {
				return err
			}
			if err := errors.Join(show.check(), checkBy(by), checkMeasured(by, c), checkFolds(folds),
				screen.CheckWritable(output), screen.CheckWritable(page)); err != nil {
				return err
			}
			switch {
			case c.Examples.Holdout == 0 && folds == 0:
				return option.Problem{Key: "examples.holdout", Value: "0",
					Want: "a fraction of the training rows to rank runs by, such as --set examples.holdout=0.1, or --folds 5"}
			case output == screen.StandardOutput && page == screen.StandardOutput:
				return errors.New("-o and --html: expected - for only one of them")
			}
			blas, err := openSolverBLAS()
			if err != nil {
				return err
			}
			remove, err := spool(cmd, &c.Examples)
			if err != nil {
				return failed(err)
			}
			defer remove()
			jobs := make([]topics.Job, len(list))
			for i := range list {
				weight := list[i].Examples.ClassWeight
				list[i].Examples = c.Examples // of which the standard input was spooled
				list[i].Examples.ClassWeight = weight
				jobs[i] = list[i].Job()
			}
			return show.session(cmd, c, "", withLog, func(log *kafkalog.Log, recorder event.Recorder, finish func()) error {
				err := pipeline.Search(cmd.Context(), log, blas, jobs, folds, recorder, func(i int, made *replay.Candidate) error {
					list[i].Add(made)
					return nil
				})
				if finish(); err != nil {
					return err
				}
				return writeSearch(cmd.OutOrStdout(), &screen.Search{Candidates: list, By: by, Ended: time.Now()}, output, page)
			})
		}),
	}
	from.add(cmd)
	show.add(cmd)
	cmd.Flags().StringArrayVar(&over, "over", nil, "a `key` and the values to try, such as --over 'stages.0.ridge=[1e-4, 1e-3]'; "+
		"repeatable")
	cmd.Flags().StringVar(&by, "by", screen.ByError, "`measure` of the holdout rows to rank by: error, loss (the log loss of the "+
		"probabilities), auc, average_precision or balanced_error")
	cmd.Flags().IntVar(&folds, "folds", 0, "cross-validate: train with each of this many `parts` of the training rows held out, "+
		"instead of\nexamples.holdout, and rank by the means; 0: train once")
	cmd.Flags().IntVar(&random, "random", 0, "try this many random `combinations`; 0: all")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "`seed` of --random")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write the best configuration as YAML to a `file` (-: standard output)")
	cmd.Flags().StringVar(&page, "html", "", "write a page that compares the runs to a `file` (-: standard output)")
	markRequired(cmd, "over")
	return cmd
}

// checkBy returns an error if runs can't be sorted by a measure.
func checkBy(by string) error {
	if names := compare.Orders(); !slices.Contains(names, by) {
		return fmt.Errorf("--by: %s: expected %s", by, english.OxfordWordSeries(names, "or"))
	}
	return nil
}

// checkMeasured returns an error if the predictions of a configuration do not have a measure.
func checkMeasured(by string, c *config.Config) error {
	if c.Examples.Task() != examples.OneLabel && !compare.OfEveryTask(by) {
		return fmt.Errorf("--by: %s: expected error or loss, because rows do not have one label each", by)
	}
	return nil
}

// maxFolds bounds the runs of a combination.
const maxFolds = 100

// checkFolds returns an error for a number of folds that is none.
func checkFolds(folds int) error {
	if folds != 0 && (folds < 2 || folds > maxFolds) {
		return fmt.Errorf("--folds: %d: expected a whole number from 2 to %d, or 0 for none", folds, maxFolds)
	}
	return nil
}

// writeSearch writes the files that were asked for, and how a search went, unless a file is the standard output. An empty path stands
// for no file.
func writeSearch(stdout io.Writer, s *screen.Search, output, page string) error {
	if page != "" {
		if err := screen.Write(page, stdout, func(w io.Writer) error { return compare.WritePage(w, s.About(), s.Compared()) }); err != nil {
			return err
		}
	}
	if best := s.Best(); best != nil && output != "" {
		text, err := best.Config.YAML()
		if err != nil {
			return err
		}
		if err := screen.Write(output, stdout, func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
			return err
		}
	}
	if output == screen.StandardOutput || page == screen.StandardOutput {
		return nil
	}
	return s.Conclude(stdout)
}

// maxCandidates bounds the runs of a search.
const maxCandidates = 10_000

// candidates returns the configurations of a search over keys of a file, which set overrides: all combinations of the values, the last key
// first, or, if random > 0, as many that are drawn without repetition, in the same order.
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
	if random < 0 {
		return nil, fmt.Errorf("--random: %d: expected a number of combinations, or 0 for all", random)
	}
	chosen := rand.New(rand.NewPCG(seed, 0)).Perm(combinations)
	if random > 0 && random < combinations {
		chosen = chosen[:random]
	}
	slices.Sort(chosen)
	for _, n := range chosen {
		var tried []string
		for _, key := range slices.Backward(keys) {
			tried = append(tried, key.Key+"="+key.Values[n%len(key.Values)])
			n /= len(key.Values)
		}
		slices.Reverse(tried)
		c, err := config.Load(file, set, tried...)
		if err != nil {
			return nil, err
		}
		list = append(list, screen.Candidate{Config: c, Set: tried})
	}
	return list, nil
}
