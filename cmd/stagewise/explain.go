package main

import (
	"cmp"
	"errors"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/explanation"
	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/explain"
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

func newExplain() *cobra.Command {
	var (
		from                                             configFlags
		version, modelFile, input, label, jsonFile, page string
		header                                           bool
		limit, top                                       int
	)
	o := explain.Defaults()
	cmd := &cobra.Command{
		Use: "explain (--model FILE -i FILE | -c FILE)", Short: "Show which columns predictions depend on, and where they are wrong",
		Args: cobra.NoArgs,
		Long: "Read labelled rows, preferably rows that the model was not trained on, and show permutation importance, the\npartial " +
			"dependence on the most important columns, the errors by slices of these columns, and the rows with\nthe largest loss. " +
			"With -c the rows are the test rows of a version on the topic, or its holdout rows.",
		Example: "  stagewise explain --model adult.model -i test.csv\n" +
			"  stagewise explain --model adult.model -i test.csv --slice sex --slice age --html adult.html\n" +
			"  stagewise explain -c adult.yaml --version 7",
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := errors.Join(explanation.Check(o, limit, top), screen.CheckWritable(jsonFile), screen.CheckWritable(page))
			switch {
			case err != nil:
				return err
			case jsonFile == screen.StandardOutput && page == screen.StandardOutput:
				return errors.New("--json and --html: expected - for only one of them")
			case from.file == "" && (modelFile == "" || input == ""):
				return errors.New("expected --model FILE and -i FILE, or -c FILE")
			case from.file != "" && (modelFile != "" || input != "" || label != "" || cmd.Flags().Changed("header")):
				return errors.New("-c: expected neither --model, -i, --label nor --header: the rows are on the topic")
			case from.file == "" && (version != "" || len(from.set) > 0):
				return errors.New("--version and --set: expected -c FILE")
			}
			blas, err := openBLAS()
			if err != nil {
				return err
			}
			o.Wrong = top
			write := func(m *model.Model, rows *explain.Rows, file string) error {
				r, err := explain.Explain(cmd.Context(), m, blas, rows, o)
				if err != nil {
					return err
				}
				return explanation.Write(cmd.OutOrStdout(), r, explanation.About{File: file, Top: top, JSON: jsonFile, HTML: page})
			}
			if from.file != "" {
				c, err := from.load()
				if err != nil {
					return err
				}
				return failed(withPipeline(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
					p := openExamples(log, c, c.Name)
					m, err := p.Model(cmd.Context(), cmp.Or(version, protocol.Latest))
					if err != nil {
						return err
					}
					if err := explain.CheckModel(m); err != nil {
						return err
					}
					rows, _, err := explanation.HeldOut(cmd.Context(), p, m, limit, o.Seed)
					if err != nil {
						return err
					}
					return write(m, rows, c.Name)
				}))
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
			return failed(write(m, rows, input))
		},
	}
	from.add(cmd)
	delete(cmd.Flags().Lookup("config").Annotations, cobra.BashCompOneRequiredFlag) // --model and -i may take its place
	cmd.Flags().StringVar(&version, "version", "", "with -c, the `version`: a version number, a run id, or "+protocol.Latest+" (default "+
		protocol.Latest+")")
	cmd.Flags().StringVar(&modelFile, "model", "", "read the model from a `file` that train or weights export wrote")
	cmd.Flags().StringVarP(&input, "input", "i", "", "read the labelled rows from a table in a `file` (-: standard input)")
	cmd.Flags().StringVar(&label, "label", "", "the label `column`; default: as in the training files")
	cmd.Flags().BoolVar(&header, "header", false, "the first row has the column names; default: as in the training files")
	cmd.Flags().IntVar(&limit, "rows", 10_000, "sample this many `rows` if there are more")
	cmd.Flags().IntVar(&top, "top", 10, "show this many columns and `rows` with the largest loss")
	cmd.Flags().IntVar(&o.Curves, "curves", o.Curves, "show the partial dependence on the most important `columns`")
	cmd.Flags().StringArrayVar(&o.Slices, "slice", nil, "show the errors by the values of a `column`; repeatable; default: as --curves")
	cmd.Flags().IntVar(&o.Shuffles, "permutations", o.Shuffles, "permute each column this many `times`")
	cmd.Flags().Uint64Var(&o.Seed, "seed", o.Seed, "`seed` of the permutations, and of --rows")
	cmd.Flags().StringVar(&jsonFile, "json", "", "write all numbers as JSON to a `file` (-: standard output)")
	cmd.Flags().StringVar(&page, "html", "", "write a page to a `file` (-: standard output)")
	return cmd
}
