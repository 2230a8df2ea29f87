package screen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

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
