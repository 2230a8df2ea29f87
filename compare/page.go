package compare

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/stagewise/stagewise/schemas"
)

//go:embed page.html
var pageText string

// maxConfusion is how many classes a confusion matrix on the page has at most. Of more, nobody could read it.
const maxConfusion = 50

// page is what the template shows.
type page struct {
	Title       string
	Runs        []runOnPage
	Differences []Row
	Measures    []Row
	Charts      []chart
	Confusion   []confusion
	Width       int // of a drawing
	Height      int
	Left, Right int
	Top, Bottom int
}

// runOnPage is a run with its colour.
type runOnPage struct {
	Number int
	Run
}

// confusion is the confusion matrix of a split of a run.
type confusion struct {
	Title, Split string
	Labels       []string
	Rows         []confusionRow
}

type confusionRow struct {
	Label string
	Cells []cell
}

// cell is a number of rows, and its share of those of its true class in tenths, which shades it.
type cell struct {
	Rows  int64
	Shade int
	Right bool // the class is predicted that is true
}

// WritePage writes a page that compares runs. It is one file of HTML: it asks for nothing else, and runs no script.
func WritePage(w io.Writer, runs []Run) error {
	p := page{
		Title: "Runs compared", Differences: Differences(runs), Measures: Measures(runs),
		Width: 640, Height: 300, Left: left, Right: right, Top: top, Bottom: bottom,
	}
	if len(runs) == 1 {
		p.Title = runs[0].Title
	}
	for i, r := range runs {
		p.Runs = append(p.Runs, runOnPage{i % maxRuns, r})
	}
	p.Charts = charts(runs)
	for _, r := range runs {
		if r.Report == nil {
			continue
		}
		for _, split := range splits() {
			if s, ok := r.Report.Splits[split]; ok && split != schemas.Train.String() && len(s.Confusion) > 0 && len(s.Confusion) <= maxConfusion {
				p.Confusion = append(p.Confusion, confusionOf(r.Title, split, r.Report.Labels, s.Confusion))
			}
		}
	}
	t, err := template.New("page").Funcs(template.FuncMap{"center": func(a, b int) int { return (a + b) / 2 }, "sub": func(a, b int) int { return a - b }, "add": func(a, b int) int { return a + b }}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("parse the page: %w", err)
	}
	return t.Execute(w, p)
}

// measured is an error and a loss of a split; nil: it has no rows.
type measured struct{ percent, loss *float64 }

func ofStage(s *schemas.StageReport) map[string]measured {
	return map[string]measured{
		schemas.Train.String(): {&s.TrainError, &s.TrainLoss}, schemas.Holdout.String(): {s.HoldoutError, s.HoldoutLoss}, schemas.Test.String(): {s.TestError, s.TestLoss},
	}
}

func ofPass(s *schemas.PassReport) map[string]measured {
	return map[string]measured{
		schemas.Train.String(): {&s.TrainError, &s.TrainLoss}, schemas.Holdout.String(): {s.HoldoutError, s.HoldoutLoss}, schemas.Test.String(): {s.TestError, s.TestLoss},
	}
}

// charts returns the diagrams of runs: error and loss by stage and by pass, and reliability.
func charts(runs []Run) (list []chart) {
	add := func(id, title, x, y string, all []values, fixed bool) {
		if c, ok := newChart(id, title, x, y, all, fixed); ok {
			list = append(list, c)
		}
	}
	for _, split := range splits() {
		var errors, losses, passErrors, passLosses []values
		for i, r := range runs {
			if r.Report == nil {
				continue
			}
			byStage, byPass := [2]values{{run: i, title: r.Title}, {run: i, title: r.Title}}, [2]values{{run: i, title: r.Title}, {run: i, title: r.Title}}
			pass := 0
			for t := range r.Report.Stages {
				stage := &r.Report.Stages[t]
				put(&byStage, float64(t+1), ofStage(stage)[split])
				for n := range stage.ByPass {
					pass++
					put(&byPass, float64(pass), ofPass(&stage.ByPass[n])[split])
				}
			}
			errors, losses = append(errors, byStage[0]), append(losses, byStage[1])
			passErrors, passLosses = append(passErrors, byPass[0]), append(passLosses, byPass[1])
		}
		add("error-stage-"+split, "Error of the "+split+" rows by stage", "stage", "percent", errors, false)
		add("loss-stage-"+split, "Loss of the "+split+" rows by stage", "stage", "loss", losses, false)
		add("error-pass-"+split, "Error of the "+split+" rows by pass, over all stages", "pass", "percent", passErrors, false)
		add("loss-pass-"+split, "Loss of the "+split+" rows by pass, over all stages", "pass", "loss", passLosses, false)
	}
	for _, split := range splits() {
		var bins []values
		for i, r := range runs {
			if r.Report == nil {
				continue
			}
			v := values{run: i, title: r.Title}
			for _, bin := range r.Report.Splits[split].Reliability {
				v.xs, v.ys = append(v.xs, min(bin.Confidence, 1)), append(v.ys, bin.Accuracy)
			}
			bins = append(bins, v)
		}
		add("reliability-"+split, "Reliability on the "+split+" rows: how often predictions of a confidence are right", "confidence", "accuracy", bins, true)
	}
	return list
}

// put adds an error and a loss, if there are any.
func put(to *[2]values, x float64, m measured) {
	for i, y := range []*float64{m.percent, m.loss} {
		if y != nil {
			to[i].xs, to[i].ys = append(to[i].xs, x), append(to[i].ys, *y)
		}
	}
}

// confusionOf returns a confusion matrix for the page.
func confusionOf(title, split string, labels []string, counts [][]int64) confusion {
	c := confusion{Title: title, Split: split, Labels: labels}
	for truth, row := range counts {
		total := int64(0)
		for _, n := range row {
			total += n
		}
		r := confusionRow{Label: strings.TrimSpace(labels[truth])}
		for predicted, n := range row {
			shade := 0
			if total > 0 {
				shade = int((10*n + total - 1) / total) // any row at all shades a cell
			}
			r.Cells = append(r.Cells, cell{n, shade, truth == predicted})
		}
		c.Rows = append(c.Rows, r)
	}
	return c
}
