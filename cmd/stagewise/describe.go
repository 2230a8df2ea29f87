package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// describe writes the first lines of a run: the pipeline, its brokers, and the BLAS.
func describe(w io.Writer, c *config.Config, blas *kernel.BLAS) {
	fmt.Fprintf(w, "%s on %s, %s\n", c.Name, brokers(c), blas.Name())
	if hint := blas.Hint(); hint != "" {
		fmt.Fprintln(w, hint)
	}
}

// brokers describes how the brokers of a configuration are reached.
func brokers(c *config.Config) string {
	if len(c.Brokers) == 0 {
		text := "the embedded broker in " + c.DataDir
		if c.Listen != "" {
			text += " at " + c.Listen
		}
		return text
	}
	text := "Kafka at " + strings.Join(c.Brokers, ", ")
	if c.Security.TLS.Enabled {
		text += " over TLS"
	}
	if s := c.Security.SASL; s.Mechanism != "" {
		text += fmt.Sprintf(" as %s (%s)", s.Username, s.Mechanism)
	}
	return text
}

// taskMetrics describes how well numbers are predicted, or several labels a row; "" for one label a row, or without rows.
func taskMetrics(s schemas.SplitReport) string {
	var parts []string
	if s.Hamming != nil && s.MicroF1 != nil {
		parts = append(parts, fmt.Sprintf("Hamming loss %.3f, micro-F1 %.3f", *s.Hamming, *s.MicroF1))
	}
	for i, name := range slices.Sorted(maps.Keys(s.Targets)) {
		if i == mostTargets {
			parts = append(parts, "…")
			break
		}
		d := s.Targets[name]
		parts = append(parts, fmt.Sprintf("%s: RMSE %.4g, R² %.3f", name, d.RMSE, d.R2))
	}
	return strings.Join(parts, "; ")
}

// mostTargets is how many numbers the last lines of a run have. The report has all.
const mostTargets = 5

// conclude writes the last lines of a run: the errors, and where the version and its report are. report and model are the paths
// that train wrote to, or empty.
func conclude(w io.Writer, r *schemas.Report, report, model string) {
	if r.TestError != nil {
		fmt.Fprintf(w, "test error %s, ", percent(r.TestError))
	}
	if _, _, holdout := r.Stages[len(r.Stages)-1].Final(); holdout != nil {
		fmt.Fprintf(w, "holdout error %s, ", percent(holdout))
	}
	fmt.Fprintf(w, "train error %s, %.1f s\n", percent(&r.TrainError), r.Seconds)
	for _, split := range []schemas.Split{schemas.Test, schemas.Holdout, schemas.Train} {
		if text := taskMetrics(r.Splits[split.String()]); text != "" {
			fmt.Fprintf(w, "%s: %s\n", split, text)
			break
		}
	}
	fmt.Fprintf(w, "model: version %d on the topic %s.versions", r.Version, r.Name)
	if model != "" && model != standardOutput {
		fmt.Fprintf(w, ", and in %s", model)
	}
	fmt.Fprintln(w)
	if report != "" && report != standardOutput {
		fmt.Fprintf(w, "report: %s\n", report)
	}
}
