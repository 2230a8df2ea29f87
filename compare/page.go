package compare

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stagewise/stagewise/internal/chart"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

//go:embed page.html
var pageText string

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
	Caption string // text below it; "": none
	Shape   examples.Image
	Values  []float32 // as many as the shape has
}

// page has the values of the template. Its script draws diagrams, confusion matrices and pictures from Drawn.
type page struct {
	About
	Runs      []Run
	Results   []runTable // of several runs: settings and the measures that decide, and the other measures
	Tables    []Table
	Galleries []Gallery
	Script    template.JS
	Drawn     struct {
		Runs     []drawnRun
		Pictures [][]drawnPicture // of each gallery
	}
}

// mostClasses is the maximum number of classes of a readable confusion matrix.
const mostClasses = 50

// drawnRun has the part of a run's report that the script draws; empty for a run without a report.
type drawnRun struct {
	Title  string
	Labels []string
	Stages []schemas.StageReport
	Splits map[string]schemas.SplitReport
}

// drawnPicture has the levels of red, green and blue of each pixel.
type drawnPicture struct {
	Caption       string
	Width, Height int
	Levels        []byte
}

// runTable has a row for each run, and a column for each field in which runs differ.
type runTable struct {
	Caption string
	Columns []Row // with the values of the runs
	Plan    int   // number of columns, the first ones, that are settings
	Best    int   // index of the best run; −1: none
	Runs    []Run
	Same    []string // measures that all runs have the same value of, with the value
}

// Differs reports whether a run has another setting than the best.
func (t runTable) Differs(column, run int) bool {
	return column < t.Plan && t.Best >= 0 && t.Columns[column].Values[run] != t.Columns[column].Values[t.Best]
}

// WritePage writes a page about runs: one self-contained file of HTML.
func WritePage(w io.Writer, about About, runs []Run) error {
	runs = about.By.Sorted(runs)
	p := page{About: about, Runs: runs}
	if len(runs) == 1 {
		measures := Table{Caption: "How the run went", Head: []string{"measure", "value"}}
		for _, row := range Measures(runs) {
			measures.Rows = append(measures.Rows, Bar{Name: row.Name, Cells: row.Values})
		}
		p.Tables = []Table{measures}
		p.Date = strings.Trim(p.Date+", "+runs[0].Date, ", ")
	} else {
		first, more := tablesOf(runs, about.By)
		p.Results = []runTable{first, more}
	}
	for _, r := range runs {
		drawn, of := drawnRun{Title: r.Title}, ""
		if r.Report != nil {
			drawn.Labels, drawn.Stages, drawn.Splits = r.Report.Labels, r.Report.Stages, maps.Clone(r.Report.Splits)
			for name, s := range drawn.Splits {
				if len(s.Confusion) > mostClasses {
					s.Confusion = nil
					drawn.Splits[name] = s
				}
			}
		}
		if len(runs) > 1 {
			of = ": " + r.Title
		}
		p.Drawn.Runs = append(p.Drawn.Runs, drawn)
		for _, t := range r.Bars {
			if t.Title != "" {
				t.Title += of
			}
			p.Tables = append(p.Tables, t)
		}
		for _, g := range r.Galleries {
			var pictures []drawnPicture
			for _, picture := range g.Pictures {
				pictures = append(pictures, picture.drawn())
			}
			g.Title += of
			p.Galleries, p.Drawn.Pictures = append(p.Galleries, g), append(p.Drawn.Pictures, pictures)
		}
	}
	return p.write(w)
}

// WriteTables writes a page of tables.
func WriteTables(w io.Writer, about About, tables []Table) error {
	p := page{About: about, Tables: tables}
	return p.write(w)
}

// write writes the page.
func (p *page) write(w io.Writer) error {
	p.Script = template.JS(chart.Script())
	t, err := template.New("page").Funcs(template.FuncMap{
		"breaks": strings.NewReplacer(".", ".\u200b", "_", "_\u200b").Replace, // a line may break after a dot or an underscore of a key
		"colour": func(run int) int { return min(run, 8) },                    // the others share one
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

// tablesOf returns the tables of runs, which are in their order: of their settings and the measures that decide, and of the
// other measures.
func tablesOf(runs []Run, by Order) (first, more runTable) {
	best, settings := by.Best(runs), settings(runs)
	first = runTable{Caption: "Runs by " + by.Words(runs) + ", best first. In color: settings that differ from the best run",
		Runs: runs, Best: best, Columns: settings, Plan: len(settings)}
	more = runTable{Caption: "Other measures", Runs: runs, Best: best}
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
