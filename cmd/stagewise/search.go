package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/compare"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/schemas"
)

// What --by may be: what the candidates of a search are judged by.
const (
	byError = "error"
	byLoss  = "loss"
)

func newSearch() *cobra.Command {
	var (
		from         configFlags
		show         displayFlags
		over         []string
		by           string
		random       int
		seed         uint64
		output, page string
	)
	cmd := &cobra.Command{
		Use: "search -c FILE --over KEY=[VALUES]…", Short: "Try values of keys, and find those with the best predictions of holdout rows", Args: cobra.NoArgs,
		Long: "Train a run for each combination of the values, and judge it by the rows that examples.holdout keeps apart. The test rows are measured, and\n" +
			"decide nothing. Runs share what they have in common, and have the weights of separate runs. They write to topics of their own, which are\n" +
			"deleted at the end: train makes a version with the best values.",
		Example: `  stagewise search -c digits.yaml --set examples.holdout=0.1 --over 'stages.0.ridge=[1e-5, 1e-4, 1e-3]'
  stagewise search -c mnist.yaml --over 'stages.0.ridge=[1e-5, 1e-4]' --over 'stages.0.features.bandwidth_scale=[1, 2, 4]' -o best.yaml
  stagewise search -c mnist.yaml --over 'seed=[1, 2, 3]' --over 'prepare.pca=[30, 50, 80]' --random 5`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			list, err := candidates(&from, over, random, seed)
			if err != nil {
				return err
			}
			if err := errors.Join(show.check(), c.CheckStages(), checkWritable(output), checkWritable(page)); err != nil {
				return err
			}
			switch {
			case by != byError && by != byLoss:
				return fmt.Errorf("--by: %s: expected error or loss", by)
			case c.Examples.Holdout == 0:
				return schemas.Problem{Key: "examples.holdout", Value: "0", Want: "a fraction of the training rows to judge by, as in --set examples.holdout=0.1"}
			case output == standardOutput && page == standardOutput:
				return errors.New("-o and --html: expected only one of them to be -")
			}
			blas, err := openBLAS()
			if err != nil {
				return err
			}
			blas.UseForSolves()
			remove, err := spool(cmd, &c.Examples)
			if err != nil {
				return failed(err)
			}
			defer remove()
			jobs := make([]pipeline.Job, len(list))
			for i := range list {
				list[i].Examples = c.Examples // of which the standard input was spooled
				jobs[i] = list[i].Job()
			}
			recorder, finish := show.recorder(c.Name, cmd.ErrOrStderr())
			defer finish()
			return failed(withLog(cmd.Context(), c, recorder, func(log *kafkalog.Log) error {
				err := pipeline.Search(cmd.Context(), log, blas, jobs, recorder, func(i int, made *pipeline.Candidate) error {
					list[i].Candidate = *made
					return nil
				})
				if finish(); err != nil {
					return err
				}
				return conclusion{list, by, output, page}.write(cmd.OutOrStdout())
			}))
		},
	}
	from.add(cmd)
	show.add(cmd)
	cmd.Flags().StringArrayVar(&over, "over", nil, "a `key` and the values to try, as in --over 'stages.0.ridge=[1e-4, 1e-3]'; can be repeated")
	cmd.Flags().StringVar(&by, "by", byError, "`measure` of the holdout rows to judge by: error, or loss, which is the log loss of the probabilities")
	cmd.Flags().IntVar(&random, "random", 0, "try so many `combinations` that are drawn; 0: all")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "`seed` of --random")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write the best configuration as YAML to a `file` (-: standard output)")
	cmd.Flags().StringVar(&page, "html", "", "write a comparison of the runs as a page to a `file` (-: standard output)")
	markRequired(cmd, "over")
	return cmd
}

// candidate is a configuration of a search, and its run once that has ended.
type candidate struct {
	*config.Config
	set []string // beyond the flags, as --set takes it
	pipeline.Candidate
}

// maxCandidates is more runs than anybody waits for.
const maxCandidates = 10_000

// candidates returns the configurations of a search: all combinations of the values, the last key first, or, if random > 0, as many that
// are drawn without repetition, in the same order.
func candidates(from *configFlags, over []string, random int, seed uint64) (list []candidate, err error) {
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
		var set []string
		for _, key := range slices.Backward(keys) {
			set = append(set, key.Key+"="+key.Values[n%len(key.Values)])
			n /= len(key.Values)
		}
		slices.Reverse(set)
		c, err := config.Load(from.file, slices.Concat(from.set, set))
		if err != nil {
			return nil, err
		}
		list = append(list, candidate{Config: c, set: set})
	}
	return list, nil
}

// conclusion is what a search writes at its end.
type conclusion struct {
	list         []candidate
	by           string
	output, page string
}

// write writes the table, the best candidate, and the files that were asked for.
func (c conclusion) write(stdout io.Writer) error {
	best := c.best()
	if c.page != "" {
		if err := write(c.page, stdout, func(w io.Writer) error { return compare.WritePage(w, c.compared()) }); err != nil {
			return err
		}
	}
	if best != nil && c.output != "" {
		text, err := best.Config.YAML()
		if err != nil {
			return err
		}
		if err := write(c.output, stdout, func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
			return err
		}
	}
	if c.output == standardOutput || c.page == standardOutput {
		return nil
	}
	if err := c.table(stdout); err != nil {
		return err
	}
	if best == nil {
		return errors.New("no run has made a version that predicts holdout rows: the table says why")
	}
	fmt.Fprint(stdout, "best:")
	for _, set := range best.set {
		fmt.Fprintf(stdout, " --set %s", set)
	}
	fmt.Fprintf(stdout, "\nof the test rows it predicts %s wrongly\n", percent(best.Report.TestError))
	return nil
}

// table writes a row for each candidate.
func (c conclusion) table(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, set := range c.list[0].set {
		key, _, _ := strings.Cut(set, "=")
		fmt.Fprintf(table, "%s\t", key)
	}
	fmt.Fprintln(table, "holdout error\tholdout log loss\ttrain error\tseconds\tdigest")
	for _, candidate := range c.list {
		for _, set := range candidate.set {
			_, value, _ := strings.Cut(set, "=")
			fmt.Fprintf(table, "%s\t", value)
		}
		r := candidate.Report
		if r == nil {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%v\n", none, none, none, none, candidate.Err)
			continue
		}
		holdout, logLoss := none, none
		if s, ok := r.Splits[schemas.Holdout.String()]; ok {
			holdout, logLoss = percent(&s.Error), loss(s.LogLoss)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%.2f\t%s\n", holdout, logLoss, percent(&r.TrainError), r.Seconds, r.WeightsDigest.Short())
	}
	return table.Flush()
}

// best returns the candidate with the best predictions of the holdout rows, the first of several; nil if there is none.
func (c conclusion) best() *candidate {
	measures := func(i int) (first, second float64) {
		if c.list[i].Report == nil {
			return math.Inf(1), math.Inf(1)
		}
		s, ok := c.list[i].Report.Splits[schemas.Holdout.String()]
		switch {
		case !ok:
			return math.Inf(1), math.Inf(1)
		case c.by == byLoss:
			return logLossOf(s), s.Error
		}
		return s.Error, logLossOf(s)
	}
	best := 0
	for i := range c.list {
		first, second := measures(i)
		bestFirst, bestSecond := measures(best)
		if cmp.Or(cmp.Compare(first, bestFirst), cmp.Compare(second, bestSecond)) < 0 {
			best = i
		}
	}
	if first, _ := measures(best); math.IsInf(first, 1) {
		return nil
	}
	return &c.list[best]
}

// logLossOf returns the log loss of a split; of numbers, which have none, the loss that the last stage minimises.
func logLossOf(s schemas.SplitReport) float64 {
	if s.LogLoss == nil {
		return s.Loss
	}
	return *s.LogLoss
}

// compared returns the candidates as package compare knows them.
func (c conclusion) compared() (runs []compare.Run) {
	for _, candidate := range c.list {
		state := schemas.Done
		if candidate.Err != nil {
			state = schemas.Failed
		}
		runs = append(runs, compare.Run{Title: strings.Join(candidate.set, ", "), State: state, Plan: candidate.Plan, Report: candidate.Report})
	}
	return runs
}
