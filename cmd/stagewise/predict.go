package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
)

func newPredict() *cobra.Command {
	var (
		modelFile, input, output, format, label, delimiter string
		header                                             bool
	)
	cmd := &cobra.Command{
		Use: "predict --model FILE -i FILE", Short: "Predict the label and the probabilities of each row of a file, as CSV", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkWritable(output); err != nil {
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
			o := ingest.TrainedOn(m.Manifest.Plan)
			o.Format, o.Label, o.Delimiter = cmp.Or(format, o.Format), cmp.Or(ingest.Column(label), o.Label), cmp.Or(delimiter, o.Delimiter)
			if cmd.Flags().Changed("header") {
				if o.Header = &header; !header && ingest.Column(label).IsName() {
					return schemas.Problem{Key: "--header", Value: "false", Want: "true, as --label gives a column by its name"}
				}
			}
			if input == ingest.StandardInput {
				remove, err := o.Spool(cmd.Context(), cmd.InOrStdin())
				if err != nil {
					return failed(err)
				}
				defer remove()
			}
			err = write(output, cmd.OutOrStdout(), func(w io.Writer) error {
				return predict(cmd.Context(), w, blas, m, input, o)
			})
			if problem, ok := err.(schemas.Problem); ok && cmd.Flags().Lookup(problem.Key) != nil {
				problem.Key = "--" + problem.Key // the options of ingest are flags here
				return problem
			}
			return failed(err)
		},
	}
	cmd.Flags().StringVar(&modelFile, "model", "", "read the model from a `file` that train or weights export wrote")
	cmd.Flags().StringVarP(&input, "input", "i", "", "read the rows from a `file` (-: standard input), with or without labels, in a format that ingest reads; columns with names may be in any order")
	cmd.Flags().StringVarP(&output, "output", "o", standardOutput, "write the predictions to a `file` (-: standard output)")
	cmd.Flags().StringVar(&format, "format", "", "the `format` of the rows; by default that of the training files or of the file name's extension")
	cmd.Flags().StringVar(&label, "label", "", "the `column` of the label; by default that of the training files")
	cmd.Flags().StringVar(&delimiter, "delimiter", "", "the `character` between the fields of a row; by default that of the training files, or told by the first rows")
	cmd.Flags().BoolVar(&header, "header", false, "the first row has the names of the columns (--header=false: it has an example); by default the row itself tells")
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
// of all classes; of a model of several labels a row, the labels that it is given and the probabilities; of a model of numbers, the numbers.
func predict(ctx context.Context, w io.Writer, blas *kernel.BLAS, m *model.Model, input string, o ingest.Options) error {
	out := csv.NewWriter(w)
	decision := decision{m}
	fields := append(decision.heads(), m.Labels()...)
	if err := out.Write(fields); err != nil {
		return err
	}
	first := len(decision.heads())
	predictor := m.Predictor(blas)
	var features kernel.Dense
	for rows, err := range ingest.File(ctx, input, o, ingest.Features{Width: m.Width(), Image: m.Image(), Sparse: m.Sparse(), Columns: m.Columns()}) {
		if err != nil {
			return err
		}
		var probabilities kernel.Dense
		if rows.Sparse != nil {
			probabilities = predictor.ProbabilitiesSparse(rows.Sparse)
		} else {
			features.Reshape(rows.Rows, rows.Cols)
			fill(features.Data, rows)
			probabilities = predictor.Probabilities(features)
		}
		for i := range rows.Rows {
			p := probabilities.Row(i)
			decision.decide(fields[:first], p)
			for c, v := range p {
				fields[first+c] = strconv.FormatFloat(float64(v), 'g', -1, 32)
			}
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
	case schemas.Numbers:
		return nil
	case schemas.SeveralLabels:
		return []string{"labels"}
	}
	return []string{"label"}
}

// labelSeparator stands between the labels of a row.
const labelSeparator = ";"

// decide writes the fields of a row with these probabilities.
func (d decision) decide(fields []string, probabilities []float32) {
	switch d.model.Task() {
	case schemas.Numbers:
	case schemas.SeveralLabels:
		fields[0] = strings.Join(d.model.Given(probabilities), labelSeparator)
	default:
		best := 0
		for c, v := range probabilities {
			if v > probabilities[best] {
				best = c
			}
		}
		fields[0] = d.model.Labels()[best]
	}
}

// fill converts the features of rows to float32 in dst, which holds rows.Rows × rows.Cols values.
func fill(dst []float32, rows *schemas.ExampleRows) {
	if rows.Bytes != nil {
		kernel.FromBytes(dst, rows.Bytes)
		return
	}
	copy(dst, rows.Floats)
}
