package screen

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/cmd/stagewise/artifact"
	"github.com/stagewise/stagewise/compare"
	"github.com/stagewise/stagewise/pipeline/dispatch"
)

// Compared returns runs as package compare knows them.
func Compared(runs []dispatch.RunDetails) (list []compare.Run) {
	names := map[string]bool{}
	for _, r := range runs {
		names[r.Pipeline] = true
	}
	for _, r := range runs {
		title := "run " + r.Run
		if r.Version > 0 {
			title = fmt.Sprintf("version %d", r.Version)
		}
		if len(names) > 1 {
			title = r.Pipeline + " " + title
		}
		list = append(list, compare.Run{Title: title, State: r.State, Date: date(r.Since), Plan: r.Plan, Report: r.Report})
	}
	return list
}

// AboutRun says what the page of a run is about.
func AboutRun(r compare.Run, of dispatch.RunDetails) compare.About {
	title := strings.ToUpper(r.Title[:1]) + r.Title[1:]
	return compare.About{Title: title, Pipeline: fmt.Sprintf("%s, run %s", of.Pipeline, of.Run)}
}

// AboutRuns says what the page of several runs is about, given what it sorts by.
func AboutRuns(runs []dispatch.RunDetails, by string) compare.About {
	return compare.About{Title: "Runs compared", Pipeline: pipelinesOf(runs), By: compare.Order{By: by}}
}

// pipelinesOf names the pipelines of runs.
func pipelinesOf(runs []dispatch.RunDetails) string {
	var names []string
	for _, r := range runs {
		if !slices.Contains(names, r.Pipeline) {
			names = append(names, r.Pipeline)
		}
	}
	return english.OxfordWordSeries(names, "and")
}

// maxValue is how many characters of a value a terminal shows of each of several runs. Runs show has all.
const maxValue = 24

// WriteCompared writes how runs went, and then in what their plans differ: a column for each run. On a terminal runs that do not fit beside
// the others are below them.
func WriteCompared(w io.Writer, runs []compare.Run, by compare.Order) error {
	results, differences := append([]compare.Row{rank(runs, by)}, compare.Measures(runs)...), compare.Differences(runs)
	columns, most := 0, 0
	if width := terminalWidth(w); width != nil {
		columns, most = width(), maxValue
	}
	lists := beside(runs, append(slices.Clone(results), differences...), columns, most)
	for i, list := range lists {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := writeCompared(w, runs, list, results, differences, most); err != nil {
			return err
		}
	}
	return nil
}

// rank returns the ranks of runs, 1 for the best; a run without predictions has none.
func rank(runs []compare.Run, by compare.Order) compare.Row {
	row := compare.Row{Name: "rank by " + by.Words(runs), Values: slices.Repeat([]string{none}, len(runs))}
	for place, i := range by.Ranks(runs) {
		if by.Best(runs[i:i+1]) == 0 {
			row.Values[i] = strconv.Itoa(place + 1)
		}
	}
	return row
}

// beside groups runs that fit beside each other on a terminal with this number of columns. 0 means no limit.
func beside(runs []compare.Run, rows []compare.Row, columns, most int) (lists [][]int) {
	const gap = 2
	names := 0
	for _, row := range rows {
		names = max(names, utf8.RuneCountInString(row.Name)+gap)
	}
	width := 0
	for i, r := range runs {
		own := utf8.RuneCountInString(r.Title) + gap
		for _, row := range rows {
			own = max(own, utf8.RuneCountInString(shown(row.Values[i], most))+gap)
		}
		if width += own; i == 0 || columns > 0 && names+width > columns {
			lists, width = append(lists, nil), own
		}
		lists[len(lists)-1] = append(lists[len(lists)-1], i)
	}
	return lists
}

// shown cuts a text after a number of characters. 0 means no limit.
func shown(text string, most int) string {
	if most == 0 {
		return text
	}
	return artifact.Cut(text, most)
}

// writeCompared writes some of the runs.
func writeCompared(w io.Writer, runs []compare.Run, list []int, results, differences []compare.Row, most int) error {
	var table artifact.Table
	row := func(name string, value func(i int) string) {
		cells := []any{name}
		for _, i := range list {
			cells = append(cells, shown(value(i), most))
		}
		table.Row(cells...)
	}
	title := func(i int) string { return runs[i].Title }
	row("result", title)
	for _, r := range results {
		row(r.Name, func(i int) string { return r.Values[i] })
	}
	table.Row("", "")
	if len(differences) == 0 {
		table.Row("the plans are identical")
		return table.Write(w)
	}
	row("plan", title)
	for _, r := range differences {
		row(r.Name, func(i int) string { return r.Values[i] })
	}
	return table.Write(w)
}
