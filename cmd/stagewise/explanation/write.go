package explanation

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"

	"github.com/dustin/go-humanize"

	"github.com/stagewise/stagewise/cmd/stagewise/artifact"
	"github.com/stagewise/stagewise/explain"
)

// About says what is explained, and where it is written.
type About struct {
	File       string // of the rows
	Top        int    // columns that are shown
	JSON, HTML string // files; "": none
}

// Write writes the files that were asked for, and the report for people, unless a file is the standard output.
func Write(stdout io.Writer, r *explain.Report, a About) error {
	if err := artifact.WriteJSON(a.JSON, stdout, r); err != nil {
		return err
	}
	if a.HTML != "" {
		if err := artifact.Write(a.HTML, stdout, func(w io.Writer) error { return writePage(w, r, a) }); err != nil {
			return err
		}
	}
	if a.JSON == artifact.StandardOutput || a.HTML == artifact.StandardOutput {
		return nil
	}
	return writeText(stdout, r, a)
}

//go:embed page.html
var pageText string

// page is what the template shows.
type page struct {
	*explain.Report
	About
	Numbers bool // are predicted, not labels
	Top     []explain.Column
	Longest float64 // rise of the loss that the longest bar has
}

// barPixels is the length of the longest bar.
const barPixels = 240

// writePage writes one file of HTML: it asks for nothing else, and runs no script.
func writePage(w io.Writer, r *explain.Report, a About) error {
	p := page{Report: r, About: a, Numbers: r.Task == regression, Top: r.Importance[:min(a.Top, len(r.Importance))]}
	for _, c := range p.Top {
		p.Longest = max(p.Longest, c.Rise.Loss)
	}
	bar := func(v, most float64) float64 { return math.Round(barPixels * share(v, most)) }
	t, err := template.New("page").Funcs(template.FuncMap{
		"number": number, "percent": percent, "plusminus": plusMinus, "percents": percents, "bar": bar,
		"comma": func(n int) string { return humanize.Comma(int64(n)) }, "measured": measured, "most": mostError,
	}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("parse the page: %w", err)
	}
	return t.Execute(w, p)
}

// mostError returns the largest error of slices, for the longest bar.
func mostError(s explain.Slices) (most float64) {
	for _, slice := range s.Slices {
		most = max(most, slice.Error)
	}
	return most
}
