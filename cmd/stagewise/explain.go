package main

import (
	"cmp"
	"errors"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/artifact"
	"github.com/stagewise/stagewise/cmd/stagewise/explanation"
	"github.com/stagewise/stagewise/config/option"
	"github.com/stagewise/stagewise/explain"
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
)

func newExplain() *cobra.Command {
	var (
		modelFile, input, label, jsonFile, page string
		header                                  bool
		limit, top                              int
	)
	o := explain.Defaults()
	cmd := &cobra.Command{
		Use: "explain --model FILE -i FILE", Short: "Show which columns predictions depend on, and where they are wrong", Args: cobra.NoArgs,
		Long: "Read labelled rows, best those that the model has not learnt from, and show how much worse predictions get if\n" +
			"a column is permuted, how they depend on the most important columns, the errors by slices of these columns, and\n" +
			"the rows that are most wrong.",
		Example: "  stagewise explain --model adult.model -i test.csv\n" +
			"  stagewise explain --model adult.model -i test.csv --slice sex --slice age --html adult.html",
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := errors.Join(explanation.Check(o, limit, top), artifact.CheckWritable(jsonFile), artifact.CheckWritable(page))
			switch {
			case err != nil:
				return err
			case jsonFile == artifact.StandardOutput && page == artifact.StandardOutput:
				return errors.New("--json and --html: expected - for only one of them")
			}
			blas, err := openBLAS()
			if err != nil {
				return err
			}
			m, err := readModel(modelFile)
			if err != nil {
				return failed(err)
			}
			if err := explain.CheckModel(m); err != nil {
				return err
			}
			from := ingest.TrainedOn(m.Manifest.Plan)
			if from.Label = cmp.Or(layout.Column(label), from.Label); cmd.Flags().Changed("header") {
				from.Header = &header
			}
			if input == ingest.StandardInput {
				remove, err := from.Spool(cmd.Context(), cmd.InOrStdin())
				if err != nil {
					return failed(err)
				}
				defer remove()
			}
			rows, err := explanation.Read(cmd.Context(), m, input, from, limit, o.Seed)
			if problem, ok := errors.AsType[option.Problem](err); ok {
				problem.Key = "--" + problem.Key
				return problem
			} else if err != nil {
				return failed(err)
			}
			o.Wrong = top
			r, err := explain.Explain(cmd.Context(), m, blas, rows, o)
			if err != nil {
				return failed(err)
			}
			return failed(explanation.Write(cmd.OutOrStdout(), r, explanation.About{File: input, Top: top, JSON: jsonFile, HTML: page}))
		},
	}
	cmd.Flags().StringVar(&modelFile, "model", "", "read the model from a `file` that train or weights export wrote")
	cmd.Flags().StringVarP(&input, "input", "i", "", "read the labelled rows from a table in a `file` (-: standard input)")
	cmd.Flags().StringVar(&label, "label", "", "the label `column`; default: as in the training files")
	cmd.Flags().BoolVar(&header, "header", false, "the first row has the column names; default: as in the training files")
	cmd.Flags().IntVar(&limit, "rows", 10_000, "draw so many `rows` if there are more")
	cmd.Flags().IntVar(&top, "top", 10, "show so many columns, and `rows` that are most wrong")
	cmd.Flags().IntVar(&o.Curves, "curves", o.Curves, "show the partial dependence on the most important `columns`")
	cmd.Flags().StringArrayVar(&o.Slices, "slice", nil, "show the errors by the values of a `column`; repeatable; default: as --curves")
	cmd.Flags().IntVar(&o.Shuffles, "permutations", o.Shuffles, "permutations of each column")
	cmd.Flags().Uint64Var(&o.Seed, "seed", o.Seed, "`seed` of the permutations, and of --rows")
	cmd.Flags().StringVar(&jsonFile, "json", "", "write all numbers as JSON to a `file` (-: standard output)")
	cmd.Flags().StringVar(&page, "html", "", "write a page to a `file` (-: standard output)")
	markRequired(cmd, "model", "input")
	return cmd
}
