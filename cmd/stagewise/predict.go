package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

func newPredict() *cobra.Command {
	var (
		modelFile, input, output, format, label, delimiter, encoding string
		header                                                       bool
		contributions                                                int
	)
	cmd := &cobra.Command{
		Use: "predict --model FILE -i FILE", Args: cobra.NoArgs,
		Short:   "Predict the label and the class probabilities of each row of a file, as CSV",
		Example: "  stagewise predict --model digits.model -i rows.csv -o predicted.csv",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := screen.CheckWritable(output); err != nil {
				return err
			}
			blas, err := openBLAS()
			if err != nil {
				return err
			}
			m, err := readModel(modelFile)
			if err != nil {
				return failed(err)
			}
			if cmd.Flags().Changed("contributions") {
				if contributions < 1 {
					return option.Problem{Key: "--contributions", Value: strconv.Itoa(contributions), Want: "a whole number ≥ 1"}
				}
				if err := m.CheckContributions(); err != nil {
					return failed(fmt.Errorf("--contributions: %w", err))
				}
			}
			o := ingest.TrainedOn(m.Manifest.Plan)
			o.Format, o.Label, o.Delimiter = cmp.Or(format, o.Format), cmp.Or(layout.Column(label), o.Label), cmp.Or(delimiter, o.Delimiter)
			o.Encoding = cmp.Or(encoding, o.Encoding)
			if cmd.Flags().Changed("header") {
				if o.Header = &header; !header && layout.Column(label).IsName() {
					return option.Problem{Key: "--header", Value: "false", Want: "true: --label gives a column by name"}
				}
			}
			if input == ingest.StandardInput {
				remove, err := o.Spool(cmd.Context(), cmd.InOrStdin())
				if err != nil {
					return failed(err)
				}
				defer remove()
			}
			err = screen.Write(output, cmd.OutOrStdout(), func(w io.Writer) error {
				return predict(cmd.Context(), w, blas, m, input, contributions, o)
			})
			if problem, ok := errors.AsType[option.Problem](err); ok && cmd.Flags().Lookup(problem.Key) != nil {
				problem.Key = "--" + problem.Key // the options of ingest are flags here
				return problem
			}
			return failed(err)
		},
	}
	cmd.Flags().StringVar(&modelFile, "model", "", "read the model from a `file` that train or weights export wrote")
	cmd.Flags().StringVarP(&input, "input", "i", "", "read the rows from a `file` (-: standard input), with or without labels, in any "+
		"ingest format; named columns may be in any order")
	cmd.Flags().StringVarP(&output, "output", "o", screen.StandardOutput, "write the predictions to a `file` (-: standard output)")
	cmd.Flags().StringVar(&format, "format", "", "input `format`; default: the format of the training files or of the file name's "+
		"extension")
	cmd.Flags().StringVar(&label, "label", "", "the label `column`; default: as in the training files")
	cmd.Flags().StringVar(&delimiter, "delimiter", "",
		"field delimiter `character`; default: as in the training files, or detected from the first rows")
	cmd.Flags().StringVar(&encoding, "encoding", "", "the `name` of the text encoding, such as latin-1; default: as in the training "+
		"files, or UTF-8")
	cmd.Flags().BoolVar(&header, "header", false, "the first row has the column names (--header=false: it is an example); default: "+
		"detected from the row")
	cmd.Flags().IntVar(&contributions, "contributions", 0, "add a field contributions with the `number` of columns that add the most to each "+
		"score, as JSON")
	markRequired(cmd, "model", "input")
	return cmd
}

// readModel reads a model file.
func readModel(path string) (*model.Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read model: %w", err)
	}
	defer f.Close()
	m, err := model.Read(f)
	if err != nil {
		return nil, fmt.Errorf("read model %s: %w", path, err)
	}
	return m, nil
}

// predict reads a file batch by batch and writes a row for each of its rows: the most probable label, then the probabilities
// of all classes; of a model of several labels a row, the labels that it is given and the probabilities; of a model of
// numbers, the numbers; and at most so many contributions to each score.
func predict(ctx context.Context, w io.Writer, blas *kernel.BLAS, m *model.Model, input string, contributions int, o ingest.Options) error {
	out := csv.NewWriter(w)
	decision := decision{m}
	fields := append(decision.heads(), m.Labels()...)
	k := len(m.Labels())
	if contributions > 0 {
		fields = append(fields, "contributions")
	}
	if err := out.Write(fields); err != nil {
		return err
	}
	first := len(decision.heads())
	predictor := m.Predictor(blas)
	trained := layout.Features{Width: m.Width(), Image: m.Image(), Sparse: m.Sparse(), Columns: m.Columns(), Labels: m.Labels()}
	for rows, err := range ingest.File(ctx, input, o, trained) {
		if err != nil {
			return err
		}
		var contributed []string // of each row
		if contributions > 0 {
			err := predictor.Contributions(rows, contributions, func(_ int, scores []model.Contributions) {
				contributed = append(contributed, string(wire.JSON(scores)))
			})
			if err != nil {
				return err
			}
		}
		probabilities, numbers := predictor.PredictRows(rows)
		for i := range rows.Rows {
			for c := range k {
				if numbers != nil {
					fields[first+c] = strconv.FormatFloat(numbers[i*k+c], 'g', -1, 64)
				} else {
					fields[first+c] = strconv.FormatFloat(float64(probabilities[i*k+c]), 'g', -1, 32)
				}
			}
			if numbers == nil {
				decision.decide(fields[:first], probabilities[i*k:][:k])
			}
			copy(fields[first+k:], contributed[min(i, len(contributed)):])
			if err := out.Write(fields); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// decision is what stands before the probabilities of a row: the most probable label, or the labels that it is given. Before numbers stands
// nothing.
type decision struct{ model *model.Model }

// heads returns the names of the columns.
func (d decision) heads() []string {
	switch d.model.Task() {
	case examples.Numbers:
		return nil
	case examples.SeveralLabels:
		return []string{"labels"}
	}
	return []string{"label"}
}

// labelSeparator stands between the labels of a row.
const labelSeparator = ";"

// decide writes the fields of a row with these probabilities.
func (d decision) decide(fields []string, probabilities []float32) {
	switch d.model.Task() {
	case examples.SeveralLabels:
		fields[0] = strings.Join(d.model.Given(probabilities), labelSeparator)
	default:
		fields[0] = d.model.Labels()[d.model.Decide(probabilities)]
	}
}
