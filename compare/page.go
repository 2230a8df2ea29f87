package compare

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stagewise/stagewise/internal/chart"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

//go:embed page.html
var pageText string

const (
	maxConfusion = 50 // classes of a readable confusion matrix
	openRuns     = 2  // runs, the best, whose matrices are visible at first
	maxRuns      = 8  // runs with a colour of their own; the others share one, and have no matrices
)

// About describes a page.
type About struct {
	Title    string // what was done, such as "Runs compared"
	Pipeline string // or several
	Date     string // when it was made; "": the runs have their own
	Text     string // a paragraph; "": none
	By       Order  // the sort key of the runs, best first
}

// Table is a table of texts on a page.
type Table struct {
	Title   string // a heading above it; "": none
	Caption string
	Head    []string // of the first column, and of the cells
	Rows    []Bar
	Wrong   bool // the bars show what is wrong
}

// Bar is a row of a table, which may end in a bar.
type Bar struct {
	Name   string
	Cells  []string
	Length float64 // of the bar: 0 to 1, which the longest one has
}

// Percent returns the length of the bar.
func (b Bar) Percent() int { return int(math.Round(100 * min(max(b.Length, 0), 1))) }

// Barred reports whether a row has a bar.
func (t Table) Barred() bool {
	return slices.ContainsFunc(t.Rows, func(b Bar) bool { return b.Length > 0 })
}

// Gallery is pictures with a title, such as the filters of a stage.
type Gallery struct {
	Title    string
	Pictures []Picture
}

// Picture is values that are pixels: of an example, or of a filter.
type Picture struct {
	Caption string // what is written below it; "": nothing
	Shape   examples.Image
	Values  []float32 // as many as the shape has
}

// page has the values of the template.
type page struct {
	About
	Runs            []runOnPage
	Results         []runTable // of several runs: settings and the measures that decide, and the other measures
	Tables          []Table
	Confusion, More []confusion // of the best runs, and of the others
	Galleries       []Gallery
	Script          template.JS
	Drawn           drawn
}

// drawn has the values of the script.
type drawn struct {
	Charts   []diagram
	Pictures [][]drawnPicture // of each gallery
}

// diagram has a line for each run that has values.
type diagram struct {
	Title, X, Y string
	Unit        bool // both axes go from 0 to 1
	Lines       []line
}

type line struct {
	Run    int // of its colour and dashes
	Name   string
	Points [][2]float64
}

// drawnPicture has the levels of red, green and blue of each pixel.
type drawnPicture struct {
	Caption       string
	Width, Height int
	Levels        []byte
}

// runOnPage is a run with its colour.
type runOnPage struct {
	Colour int
	Run
}

// runTable has a row for each run, and a column for each field in which runs differ.
type runTable struct {
	Caption string
	Columns []Row // with the values of the runs
	Plan    int   // number of columns, the first ones, that are settings
	Best    int   // the best run; −1: none
	Runs    []runOnPage
	Same    []string // measures that all runs have the same value of, with it
}

// Differs reports whether a run has another setting than the best.
func (t runTable) Differs(column, run int) bool {
	return column < t.Plan && t.Best >= 0 && t.Columns[column].Values[run] != t.Columns[column].Values[t.Best]
}

// confusion is the confusion matrix of a split of a run.
type confusion struct {
	Caption string
	Head    []string
	Rows    []confusionRow
}

type confusionRow struct {
	Label string
	Cells []cell
	Rates []string // precision, recall and F1, if the report has them
}

// cell is a number of rows, and its share of those of its true class in percent, which shades it.
type cell struct {
	Rows  int64
	Share int64
	Right bool // the predicted class is the true one
}

// WritePage writes a page about runs: one self-contained file of HTML.
func WritePage(w io.Writer, about About, runs []Run) error {
	runs = about.By.Sorted(runs)
	p := page{About: about}
	for i, r := range runs {
		p.Runs = append(p.Runs, runOnPage{min(i, maxRuns), r})
	}
	if len(runs) == 1 {
		p.Tables = ofOne(Measures(runs))
		p.Date = strings.Trim(p.Date+", "+runs[0].Date, ", ")
	} else {
		first, more := tablesOf(p.Runs, about.By)
		p.Results = []runTable{first, more}
	}
	p.Drawn.Charts = charts(p.Runs)
	for i, r := range runs[:min(len(runs), maxRuns)] {
		to := &p.Confusion
		if i >= openRuns {
			to = &p.More
		}
		for _, split := range splits()[1:] {
			if r.Report == nil {
				continue
			}
			if s := r.Report.Splits[split]; len(s.Confusion) > 0 && len(s.Confusion) <= maxConfusion {
				*to = append(*to, confusionOf(r.Title, split, r.Report.Labels, s))
			}
		}
	}
	for _, r := range runs {
		of := ""
		if len(runs) > 1 {
			of = ": " + r.Title
		}
		for _, t := range r.Bars {
			if t.Title != "" {
				t.Title += of
			}
			p.Tables = append(p.Tables, t)
		}
		for _, g := range r.Galleries {
			g.Title += of
			p.Galleries = append(p.Galleries, g)
		}
	}
	return p.write(w)
}

// WriteTables writes a page of tables, as [WritePage] does.
func WriteTables(w io.Writer, about About, tables []Table) error {
	p := page{About: about, Tables: tables}
	return p.write(w)
}

func (p *page) write(w io.Writer) error {
	p.Script = template.JS(chart.Script())
	for _, g := range p.Galleries {
		var pictures []drawnPicture
		for _, picture := range g.Pictures {
			pictures = append(pictures, picture.drawn())
		}
		p.Drawn.Pictures = append(p.Drawn.Pictures, pictures)
	}
	t, err := template.New("page").Funcs(template.FuncMap{
		"breaks": strings.NewReplacer(".", ".\u200b", "_", "_\u200b").Replace, // a line may break after a dot or an underscore of a key
		"title": func(text string) string {
			first, size := utf8.DecodeRuneInString(text)
			return string(unicode.ToUpper(first)) + text[size:]
		},
	}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("parse the page: %w", err)
	}
	return t.Execute(w, p)
}

// drawn returns the picture with the least value in black and the highest one in white. It has colours if the shape has
// three channels; of another number of channels it shows the first. A missing value is black.
func (p Picture) drawn() drawnPicture {
	least, most := float32(math.Inf(1)), float32(math.Inf(-1))
	for _, v := range p.Values {
		if v == v {
			least, most = min(least, v), max(most, v)
		}
	}
	d := drawnPicture{Caption: p.Caption, Width: p.Shape.Width(), Height: p.Shape.Height()}
	for at := 0; at < len(p.Values); at += p.Shape.Channels() {
		for c := range 3 {
			if p.Shape.Channels() != 3 {
				c = 0
			}
			level := byte(0)
			if v := p.Values[at+c]; v == v && most > least {
				level = byte(255 * (float64(v) - float64(least)) / (float64(most) - float64(least)))
			}
			d.Levels = append(d.Levels, level)
		}
	}
	return d
}

// ofOne returns the measures of one run: those of splits with a column for each split, and the others.
func ofOne(measures []Row) []Table {
	of, rows, others := bySplit(measures)
	split := Table{Caption: "Measures of the rows of each split", Head: append([]string{"measure"}, of...)}
	went := Table{Caption: "How the run went", Head: []string{"measure", "value"}}
	for _, row := range rows {
		split.Rows = append(split.Rows, Bar{Name: row.Name, Cells: row.Values})
	}
	for _, row := range others {
		went.Rows = append(went.Rows, Bar{Name: row.Name, Cells: row.Values})
	}
	if len(rows) == 0 {
		return []Table{went}
	}
	return []Table{split, went}
}

// tablesOf returns the tables of runs, which are in their order: of their settings and the measures that decide, and of the
// other measures.
func tablesOf(onPage []runOnPage, by Order) (first, more runTable) {
	runs := make([]Run, len(onPage))
	for i, r := range onPage {
		runs[i] = r.Run
	}
	best := by.Best(runs)
	settings := settings(runs)
	first = runTable{Caption: "Runs by " + by.Words(runs) + ", best first. In color: settings that differ from the best run",
		Runs: onPage, Best: best, Columns: settings, Plan: len(settings)}
	more = runTable{Caption: "Other measures", Runs: onPage, Best: best}
	measures := Measures(runs)
	for i, row := range measures {
		repeated := slices.ContainsFunc(measures[:i], func(before Row) bool { // as a loss that is the log loss
			return strings.Fields(before.Name)[0] == strings.Fields(row.Name)[0] && slices.Equal(before.Values, row.Values)
		})
		switch {
		case repeated, row.Name == "weights digest": // another run has another
		case row.same():
			first.Same = append(first.Same, row.Name+" "+row.Values[0])
		case decides(row.Name, measures) || isMeasure(row.Name, by.Measure()):
			first.Columns = append(first.Columns, row)
		default:
			more.Columns = append(more.Columns, row)
		}
	}
	return first, more
}

// decides reports whether a measure is shown first: one by which people choose a run.
func decides(measure string, all []Row) bool {
	train := examples.Train.String()
	others := slices.ContainsFunc(all, func(r Row) bool { return strings.HasSuffix(r.Name, " error") && !strings.HasPrefix(r.Name, train) })
	for _, what := range []string{"error", "loss", "AUC", "RMSE", "R²"} {
		if isMeasure(measure, what) {
			return what == "error" || !others || !strings.HasPrefix(measure, train)
		}
	}
	return measure == "state" || measure == "seconds"
}

// isMeasure reports whether a measure of some split is what: "train balanced error" is no error.
func isMeasure(measure, what string) bool {
	return slices.ContainsFunc(splits(), func(split string) bool { return measure == split+" "+what })
}

// settings returns the settings in which the runs differ, or else the fields of their plans.
func settings(runs []Run) (rows []Row) {
	for i, r := range runs {
		for _, s := range r.Settings {
			at := slices.IndexFunc(rows, func(row Row) bool { return row.Name == s.Key })
			if at < 0 {
				at, rows = len(rows), append(rows, Row{Name: s.Key, Values: slices.Repeat([]string{None}, len(runs))})
			}
			rows[at].Values[i] = s.Value
		}
	}
	if len(rows) == 0 {
		return Differences(runs)
	}
	return rows
}

// charts returns the diagrams of runs: error and loss by stage and by pass, and reliability. A diagram needs a run with two
// points, as a point alone says no more than the table.
func charts(runs []runOnPage) (list []diagram) {
	add := func(d diagram, points func(*schemas.Report) [][2]float64) {
		enough := false
		for _, r := range slices.Backward(runs) { // the first, which is the best, is drawn over the others
			if r.Report == nil {
				continue
			}
			if l := (line{Run: r.Colour, Name: r.Title, Points: points(r.Report)}); len(l.Points) > 0 {
				d.Lines = append(d.Lines, l)
				enough = enough || d.Unit || len(l.Points) > 1
			}
		}
		if enough {
			list = append(list, d)
		}
	}
	for _, split := range splits() {
		for _, x := range []string{"stage", "pass"} {
			for m, y := range []string{"error", "loss"} {
				title, unit := map[string]string{"error": "Error", "loss": "Loss"}[y]+" of the "+split+" rows by "+x, "percent"
				if y == "loss" {
					unit = y
				}
				if x == "pass" {
					title += ", over all stages"
				}
				add(diagram{Title: title, X: x, Y: unit}, func(r *schemas.Report) [][2]float64 { return course(r, split, x == "pass", m) })
			}
		}
	}
	for _, split := range splits() {
		add(diagram{Title: "Reliability on the " + split + " rows: accuracy by confidence", X: "confidence", Y: "accuracy", Unit: true},
			func(r *schemas.Report) (points [][2]float64) {
				for _, bin := range r.Splits[split].Reliability {
					points = append(points, [2]float64{min(bin.Confidence, 1), bin.Accuracy})
				}
				return points
			})
	}
	return list
}

// course returns a measure of a split, the error (0) or the loss (1), after each stage or pass.
func course(r *schemas.Report, split string, byPass bool, measure int) (points [][2]float64) {
	n := 0
	add := func(train, holdout, test [2]*float64) {
		n++
		of := map[string][2]*float64{examples.Train.String(): train, examples.Holdout.String(): holdout, examples.Test.String(): test}
		if v := of[split][measure]; v != nil {
			points = append(points, [2]float64{float64(n), *v})
		}
	}
	for t := range r.Stages {
		s := &r.Stages[t]
		if !byPass {
			add([2]*float64{&s.TrainError, &s.TrainLoss}, [2]*float64{s.HoldoutError, s.HoldoutLoss}, [2]*float64{s.TestError, s.TestLoss})
			continue
		}
		for i := range s.ByPass {
			p := &s.ByPass[i]
			add([2]*float64{&p.TrainError, &p.TrainLoss}, [2]*float64{p.HoldoutError, p.HoldoutLoss}, [2]*float64{p.TestError, p.TestLoss})
		}
	}
	return points
}

// confusionOf returns a confusion matrix for the page.
func confusionOf(title, split string, labels []string, of schemas.SplitReport) confusion {
	c := confusion{Caption: split + " rows of " + title + " by true and predicted class", Head: slices.Clone(labels)}
	rates := len(of.F1) == len(labels) && len(of.Precision) == len(labels) && len(of.Recall) == len(labels)
	if rates {
		c.Head = append(c.Head, "precision", "recall", "F1")
	}
	for truth, row := range of.Confusion {
		total := int64(1)
		for _, n := range row {
			total += n
		}
		r := confusionRow{Label: strings.TrimSpace(labels[truth])}
		for predicted, n := range row {
			r.Cells = append(r.Cells, cell{n, (100*n + total - 1) / total, truth == predicted}) // any row at all shades a cell
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
