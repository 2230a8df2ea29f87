package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
)

func newPredict() *cobra.Command {
	var (
		modelFile, input, output, format, label string
		header                                  bool
	)
	cmd := &cobra.Command{
		Use: "predict --model FILE -i FILE", Short: "Label and probabilities of each row of a file, as CSV", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := writable(output); err != nil {
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
			o := inputOptions(m)
			o.Format, o.Label = cmp.Or(format, o.Format), cmp.Or(ingest.Column(label), o.Label)
			if cmd.Flags().Changed("header") {
				o.Header = &header
			}
			return failed(write(output, cmd.OutOrStdout(), func(w io.Writer) error {
				return predict(cmd.Context(), w, blas, m, input, o)
			}))
		},
	}
	cmd.Flags().StringVar(&modelFile, "model", "", "the model, a `file` that train or weights export wrote")
	cmd.Flags().StringVarP(&input, "input", "i", "", "the rows, a `file` of a format that can be ingested, with or without labels")
	cmd.Flags().StringVarP(&output, "output", "o", standard, "where to write, a `file`")
	cmd.Flags().StringVar(&format, "format", "", "the `format` of the rows, if not what the model was trained on or the file's name tells")
	cmd.Flags().StringVar(&label, "label", "", "the `column` of the label, if not where it was in training")
	cmd.Flags().BoolVar(&header, "header", false, "the first row has the names of the columns")
	for _, required := range []string{"model", "input"} {
		if err := cmd.MarkFlagRequired(required); err != nil {
			panic(err) // there is no such flag
		}
	}
	return cmd
}

// inputOptions says how the files that a model was trained on were read.
func inputOptions(m *model.Model) ingest.Options {
	o, plan := ingest.Defaults(), m.Manifest.Plan
	o.Format, o.Label, o.Weight, o.Header = plan.Input.Format, ingest.Column(plan.Input.Label), ingest.Column(plan.Input.Weight), plan.Input.Header
	o.Missing = plan.Missing
	return o
}

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

// predict writes a row for each row of the input, batch by batch.
func predict(ctx context.Context, w io.Writer, blas *kernel.BLAS, m *model.Model, input string, o ingest.Options) error {
	labels := m.Labels()
	out := csv.NewWriter(w)
	fields := append([]string{"label"}, labels...)
	if err := out.Write(fields); err != nil {
		return err
	}
	predictor := m.Predictor(blas)
	var features kernel.Dense
	for rows, err := range ingest.File(ctx, input, o, m.Width()) {
		if err != nil {
			return err
		}
		features.Reshape(rows.Rows, rows.Cols)
		fill(features.Data, rows)
		probabilities := predictor.Probabilities(features)
		for i := range rows.Rows {
			p := probabilities.Row(i)
			best := 0
			for c, v := range p {
				if v > p[best] {
					best = c
				}
				fields[1+c] = strconv.FormatFloat(float64(v), 'g', -1, 32)
			}
			fields[0] = labels[best]
			if err := out.Write(fields); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// fill puts the features of rows into dst.
func fill(dst []float32, rows *schemas.ExampleRows) {
	if rows.Bytes != nil {
		kernel.FromBytes(dst, rows.Bytes)
		return
	}
	copy(dst, rows.Floats)
}
