package compare

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

//go:embed page.html
var pageText string

// maxConfusion is how many classes a confusion matrix on the page has at most. Of more, nobody could read it.
const maxConfusion = 50

// openRuns is of how many runs, the best, the matrices are seen before somebody asks for more.
const openRuns = 2

// About describes a page.
type About struct {
	Title    string // what was done, such as "Runs compared"
	Pipeline string // or several
	Date     string // when it was made; "": the runs have their own
	By       Order  // the sort key of the runs, best first
}

// page is what the template shows.
type page struct {
	About
	One         bool // there is no other run to compare with
	Runs        []runOnPage
	Others      int // runs without a colour of their own
	Colours     []int
	Tables      []table
	Splits      []string // of one run
	Measures    []Row    // of one run, with a value for each split
	Went        []Row    // what else is known of one run
	Charts      []chart
	Confusion   []confusion // of the best runs
	More        []confusion // of the others
	Width       int         // of a drawing
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
	Rates        []string // what else is known of each class
	Rows         []confusionRow
}

type confusionRow struct {
	Label string
	Cells []cell
	Rates []string // as confusion.Rates
}

// cell is a number of rows, and its share of those of its true class in tenths, which shades it.
type cell struct {
	Rows  int64
	Shade int
	Right bool // the class is predicted that is true
}

// WritePage writes a page about runs. It is one file of HTML: it asks for nothing else, and runs no script.
func WritePage(w io.Writer, about About, runs []Run) error {
	runs = about.By.Sorted(runs)
	p := page{About: about, One: len(runs) == 1, Width: 640, Height: 300, Left: left, Right: right, Top: top, Bottom: bottom}
	if p.One {
		p.Splits, p.Measures, p.Went = bySplit(Measures(runs))
	} else {
		first, more := tablesOf(runs, about.By)
		if p.Tables = append(p.Tables, first); len(more.Columns) > 0 {
			p.Tables = append(p.Tables, more)
		}
	}
	for i, r := range runs {
		p.Runs = append(p.Runs, runOnPage{colourOf(i), r})
	}
	p.Others = max(len(runs)-maxRuns, 0)
	for colour := range min(len(runs), maxRuns+1) {
		p.Colours = append(p.Colours, colour)
	}
	p.Charts = charts(runs)
	for i, r := range runs[:min(len(runs), maxRuns)] { // of more, nobody would look at the matrices
		to := &p.Confusion
		if i >= openRuns {
			to = &p.More
		}
		if r.Report == nil {
			continue
		}
		for _, split := range splits() {
			if s, ok := r.Report.Splits[split]; ok && split != examples.Train.String() && len(s.Confusion) > 0 && len(s.Confusion) <= maxConfusion {
				*to = append(*to, confusionOf(r.Title, split, r.Report.Labels, s))
			}
		}
	}
	functions := template.FuncMap{
		"center": func(a, b int) int { return (a + b) / 2 }, "sub": func(a, b int) int { return a - b },
		"add":    func(a, b int) int { return a + b },
		"breaks": breaks, "title": capital,
	}
	t, err := template.New("page").Funcs(functions).Parse(pageText)
	if err != nil {
		return fmt.Errorf("parse the page: %w", err)
	}
	return t.Execute(w, p)
}

// capital begins a title with a capital letter.
func capital(title string) string {
	first, size := utf8.DecodeRuneInString(title)
	return string(unicode.ToUpper(first)) + title[size:]
}

// breaks lets a key be broken behind its dots and underscores.
func breaks(key string) string {
	return strings.NewReplacer(".", ".\u200b", "_", "_\u200b").Replace(key)
}

// measured is an error and a loss of a split; nil: it has no rows.
type measured struct{ percent, loss *float64 }

func ofStage(s *schemas.StageReport) map[string]measured {
	return map[string]measured{
		examples.Train.String(): {&s.TrainError, &s.TrainLoss}, examples.Holdout.String(): {s.HoldoutError, s.HoldoutLoss},
		examples.Test.String(): {s.TestError, s.TestLoss},
	}
}

func ofPass(s *schemas.PassReport) map[string]measured {
	return map[string]measured{
		examples.Train.String(): {&s.TrainError, &s.TrainLoss}, examples.Holdout.String(): {s.HoldoutError, s.HoldoutLoss},
		examples.Test.String(): {s.TestError, s.TestLoss},
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
			byStage, byPass := [2]values{{run: i, title: r.Title}, {run: i, title: r.Title}}, [2]values{{run: i, title: r.Title},
				{run: i, title: r.Title}}
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
		add("reliability-"+split, "Reliability on the "+split+" rows: accuracy by confidence", "confidence",
			"accuracy", bins, true)
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
func confusionOf(title, split string, labels []string, of schemas.SplitReport) confusion {
	c := confusion{Title: title, Split: split, Labels: labels}
	rates := len(of.F1) == len(labels) && len(of.Precision) == len(labels) && len(of.Recall) == len(labels) // else of an earlier release
	if rates {
		c.Rates = []string{"precision", "recall", "F1"}
	}
	for truth, row := range of.Confusion {
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
		if rates {
			for _, v := range []float64{of.Precision[truth], of.Recall[truth], of.F1[truth]} {
				r.Rates = append(r.Rates, strconv.FormatFloat(v, 'f', 4, 64)) // below each other, with as many digits
			}
		}
		c.Rows = append(c.Rows, r)
	}
	return c
}
