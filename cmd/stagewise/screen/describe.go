package screen

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/cmd/stagewise/artifact"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Describe writes the first lines of a run: the pipeline, its brokers, and the BLAS.
func Describe(w io.Writer, c *config.Config, blas *kernel.BLAS) {
	fmt.Fprintf(w, "%s on %s, %s\n", c.Name, Brokers(c), blas.Name())
	if hint := blas.Hint(); hint != "" {
		fmt.Fprintln(w, hint)
	}
}

// Brokers describes how the brokers of a configuration are reached.
func Brokers(c *config.Config) string {
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
	switch s := c.Security.SASL; {
	case s.Username != "":
		text += fmt.Sprintf(" as %s (%s)", s.Username, s.Mechanism)
	case s.Mechanism != "":
		text += " with " + s.Mechanism
	}
	return text
}

// taskMetrics describes how well numbers are predicted, several labels a row, or two classes; "" for more classes, or
// without rows.
func taskMetrics(s schemas.SplitReport) string {
	var parts []string
	if s.Hamming != nil && s.MicroF1 != nil {
		parts = append(parts, fmt.Sprintf("Hamming loss %.3f, micro-F1 %.3f", *s.Hamming, *s.MicroF1))
	}
	if s.AUC != nil && len(s.F1) == 2 {
		parts = append(parts, fmt.Sprintf("AUC %.4f", *s.AUC))
	}
	if d := s.Decided; d != nil {
		parts = append(parts, fmt.Sprintf("at the threshold %.4g: error %.2f %%, precision %.4f, recall %.4f, F1 %.4f", d.Threshold, d.Error,
			d.Precision, d.Recall, d.F1))
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

// noBetter reports whether the error of rows is not less than that of predicting one class always by more than chance does: two standard
// errors.
func noBetter(s schemas.SplitReport) bool {
	if s.MajorityError == nil || s.Rows == 0 {
		return false
	}
	p := *s.MajorityError / 100
	return s.Error > *s.MajorityError-200*math.Sqrt(p*(1-p)/float64(s.Rows))
}

// mostTargets is how many numbers the last lines of a run have. The report has all.
const mostTargets = 5

// Conclude writes the last lines of a run: the errors, and where the version and its report are. report and model are the paths
// that train wrote to, or empty.
func Conclude(w io.Writer, r *schemas.Report, report, model string) {
	if r.TestError != nil {
		fmt.Fprintf(w, "test error %s, ", Percent(r.TestError))
	}
	if _, _, holdout := r.Stages[len(r.Stages)-1].Final(); holdout != nil {
		fmt.Fprintf(w, "holdout error %s, ", Percent(holdout))
	}
	fmt.Fprintf(w, "train error %s, %.1f s\n", Percent(&r.TrainError), r.Seconds)
	for _, split := range []examples.Split{examples.Test, examples.Holdout, examples.Train} {
		s := r.Splits[split.String()]
		text := taskMetrics(s)
		if text == "" && s.MajorityError == nil {
			continue
		}
		if text != "" {
			fmt.Fprintf(w, "%s: %s\n", split, text)
		}
		if noBetter(s) {
			fmt.Fprintf(w, "%s error %s is no better than that of always predicting %q: %s\n", split, Percent(&s.Error), r.Majority,
				Percent(s.MajorityError))
		}
		break
	}
	fmt.Fprintf(w, "model: version %d on the topic %s.versions", r.Version, r.Name)
	if model != "" && model != artifact.StandardOutput {
		fmt.Fprintf(w, ", and in %s", model)
	}
	fmt.Fprintln(w)
	if report != "" && report != artifact.StandardOutput {
		fmt.Fprintf(w, "report: %s\n", report)
	}
}

// ConcludeChain writes what a chain has learnt.
func ConcludeChain(w io.Writer, r *pipeline.Retraining) {
	if r.PrequentialError == nil {
		fmt.Fprintf(w, "%s of %s rows in %.1f s\n", english.Plural(len(r.Updates), "version", ""), humanize.Comma(r.Rows), r.Seconds)
		return
	}
	fmt.Fprintf(w, "%s of %s rows in %.1f s, %s rows a second; prequential error %.2f %%\n",
		english.Plural(len(r.Updates), "version", ""), humanize.Comma(r.Rows), r.Seconds, humanize.Comma(int64(r.RowsPerSecond)),
		*r.PrequentialError)
}
