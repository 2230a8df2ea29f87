package screen

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/stages"
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

// taskMetrics describes the metrics of numbers, of several labels per row, or of two classes; "" for more classes, or
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
		text := fmt.Sprintf("%s: RMSE %.4g, R² %.3f", name, d.RMSE, d.R2)
		if d.R2 <= 0 {
			text += ", no better than always predicting the mean"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// againstMajority compares the error of rows with that of always predicting the most common class; "" if it is clearly lower: by more than
// two standard deviations of McNemar's test, over the rows for which exactly one of the two is right.
func againstMajority(split string, s schemas.SplitReport, labels []string, majority string) string {
	class := slices.Index(labels, majority)
	if s.MajorityError == nil || s.Rows == 0 || class < 0 || class >= len(s.Confusion) {
		return ""
	}
	var common, better, worse float64 // rows of the class; rows where only the model is right; rows where only the class is right
	for i, row := range s.Confusion {
		for j, n := range row {
			switch {
			case i == class && j == class:
				common += float64(n)
			case i == class:
				common, worse = common+float64(n), worse+float64(n)
			case i == j:
				better += float64(n)
			}
		}
	}
	share, rows := *s.MajorityError/100, float64(s.Rows)
	// heavy and light are the mean weights of rows of the class and of other rows; that of all rows is 1.
	heavy, light := (1-share)*rows/max(common, 1), share*rows/max(rows-common, 1)
	lower := (*s.MajorityError - s.Error) / 100 * rows
	if better == 0 { // equal errors may differ in their last digits
		lower = min(lower, 0)
	}
	if lower > 2*math.Sqrt(better*light*light+worse*heavy*heavy) {
		return ""
	}
	text := fmt.Sprintf("%s error %s is no better than that of always predicting %q: %s", split, Percent(&s.Error), majority,
		Percent(s.MajorityError))
	if lower > 0 {
		text = fmt.Sprintf("%s error %s is not clearly better than that of always predicting %q, %s: %s rows are too few to tell", split,
			Percent(&s.Error), majority, Percent(s.MajorityError), humanize.Comma(s.Rows))
	}
	// The standard deviation of the area for random ranks is that of the Mann-Whitney U test.
	if few := common * (rows - common); s.AUC != nil && len(labels) == 2 && few > 0 && *s.AUC-0.5 > 2*math.Sqrt((rows+1)/(12*few)) {
		text += "; the AUC is clearly better than chance"
		if lower <= 0 && s.Decided == nil {
			text += ": set threshold, for example to best_f1"
		}
	}
	return text + "\n"
}

// mostTargets is the maximum number of targets in the last lines of a run. The report has all.
const mostTargets = 5

// Conclude writes the last lines of a run: the errors, and where the version and its report are. report and model are the paths
// that train wrote to, or empty.
func Conclude(w io.Writer, r *schemas.Report, report, model string) {
	if r.TestError != nil {
		fmt.Fprintf(w, "test error %s, ", Percent(r.TestError))
	}
	if holdout := r.Stages[len(r.Stages)-1].Final().HoldoutError; holdout != nil {
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
		fmt.Fprint(w, againstMajority(split.String(), s, r.Labels, r.Majority))
		break
	}
	fmt.Fprintf(w, "model: version %d on the topic %s.versions", r.Version, r.Name)
	if model != "" && model != StandardOutput {
		fmt.Fprintf(w, ", and in %s", model)
	}
	fmt.Fprintln(w)
	if report != "" && report != StandardOutput {
		fmt.Fprintf(w, "report: %s\n", report)
	}
}

// ConcludeChain writes the last lines of a chain.
func ConcludeChain(w io.Writer, r *pipeline.Retraining) {
	if r.PrequentialError == nil {
		fmt.Fprintf(w, "%s of %s rows in %.1f s\n", english.Plural(len(r.Updates), "version", ""), humanize.Comma(r.Rows), r.Seconds)
		return
	}
	fmt.Fprintf(w, "%s of %s rows in %.1f s, %s rows a second; prequential error %.2f %%\n",
		english.Plural(len(r.Updates), "version", ""), humanize.Comma(r.Rows), r.Seconds, humanize.Comma(int64(r.RowsPerSecond)),
		*r.PrequentialError)
}

// Preparation describes what is done to features before the first stage.
func Preparation(p schemas.Prepare) string {
	text := "scale " + p.Scale
	if p.PCA > 0 {
		text += fmt.Sprintf(", %d principal components", p.PCA)
	}
	if p.MinRows > 1 {
		text += fmt.Sprintf(", columns of %d rows or more", p.MinRows)
	}
	if p.Values != "" && p.Values != stages.ValuesNone {
		text += ", values " + p.Values
	}
	if p.IDF > 0 {
		text += fmt.Sprintf(", idf %g", p.IDF)
	}
	return text
}

// numbers returns the range of the stages of one entry of the configuration.
func numbers(first, count int) string {
	if count == 1 {
		return strconv.Itoa(first)
	}
	return fmt.Sprintf("%d-%d", first, first+count-1)
}

func features(s schemas.Stage) string {
	text := stages.Describe(s.Features)
	if s.Scores {
		text += " and scores"
	}
	return text
}

func stop(s *schemas.Stop) string {
	if s == nil {
		return none
	}
	if s.Stages {
		return "ends the stages by the loss of " + s.Split + " rows"
	}
	return fmt.Sprintf("%s, patience %d", s.Split, s.Patience)
}

// ridges returns the ridges of a version's stages, each once, in the order of the stages.
func ridges(m schemas.Manifest) string {
	var list []string
	for stage := range m.Plan.Stages {
		if ridge := m.Ridge(stage).String(); !slices.Contains(list, ridge) {
			list = append(list, ridge)
		}
	}
	return strings.Join(list, ", ")
}

// parameters describes the preparation of a run and the features and links of its stages.
func parameters(plan *schemas.Plan) string {
	var parts []string
	if p := plan.Prepare; p != (schemas.Prepare{Scale: stages.ScaleNone}) {
		parts = append(parts, Preparation(p))
	}
	list := plan.Stages[:plan.MemberStages()]
	if plan.Members() > 1 {
		parts = append(parts, fmt.Sprintf("mean of %d members", plan.Members()))
	}
	for first := 0; first < len(list); {
		text, next := kind(list[first]), first+1
		for next < len(list) && kind(list[next]) == text {
			next++
		}
		if next > first+1 {
			text = fmt.Sprintf("%d × %s", next-first, text)
		}
		parts, first = append(parts, text), next
	}
	return strings.Join(parts, ", ")
}

// kind describes the features and the link of a stage.
func kind(s schemas.Stage) string { return fmt.Sprintf("%s %s", features(s), s.Link) }

// writeStages writes a row for each entry of a configuration's stages.
func writeStages(w io.Writer, list []config.Stage) {
	if len(list) == 0 {
		fmt.Fprintln(w, "\nstages: not set; train chooses them by the loss of held-out rows")
		return
	}
	var rows Table
	fmt.Fprintln(w)
	rows.Row("stage", "features", "link", "passes", "ridge", "method", "gram rows", "stop")
	first := 1
	for _, s := range list {
		rows.Row(numbers(first, s.Repeat), features(s.Stage), s.Link, s.Passes, s.Ridge, s.Method, s.GramRows, stop(s.Stop))
		first += s.Repeat
	}
	rows.Write(w)
}
