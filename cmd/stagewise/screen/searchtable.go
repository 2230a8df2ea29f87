package screen

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/cmd/stagewise/artifact"
	"github.com/stagewise/stagewise/compare"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// ByError is what the candidates of a search are judged by, unless --by says another of [compare.Orders].
const ByError = "error"

// Candidate is a configuration of a search, and its run once that has ended.
type Candidate struct {
	*config.Config
	Set []string // beyond the flags, as --set takes it
	replay.Candidate

	folds folds // of cross-validation
}

// Search is a search that has ended: its candidates, and the measure that it judges them by.
type Search struct {
	Candidates []Candidate
	By         string
	Ended      time.Time
}

// Conclude writes the table and the best candidate.
func (s *Search) Conclude(w io.Writer) error {
	if err := s.table(w); err != nil {
		return err
	}
	best := s.Best()
	if best == nil {
		return errors.New("no run made a version that predicts holdout rows: see the table")
	}
	fmt.Fprint(w, "best:")
	for _, set := range best.Set {
		fmt.Fprintf(w, " --set %s", set)
	}
	fmt.Fprintln(w)
	if best.Report.TestError != nil {
		fmt.Fprintf(w, "test error %s\n", Percent(best.Report.TestError))
	}
	return nil
}

// table writes a row for each candidate, the best first.
func (s *Search) table(w io.Writer) error {
	var table artifact.Table
	titles := []any{"run"} // in the order of the values, as the page numbers them
	for _, set := range s.Candidates[0].Set {
		key, _, _ := strings.Cut(set, "=")
		titles = append(titles, key)
	}
	more := !compare.OfEveryTask(s.By) // the measure that the runs are judged by has a column
	if more {
		titles = append(titles, "holdout "+s.order().Measure())
	}
	last := "digest"
	if len(s.Candidates[0].folds) > 0 {
		last = "means"
	}
	table.Row(append(titles, "holdout error", "holdout log loss", "train error", "seconds", last)...)
	for _, n := range s.order().Ranks(s.Compared()) {
		candidate := &s.Candidates[n]
		cells := []any{n + 1}
		for _, set := range candidate.Set {
			_, value, _ := strings.Cut(set, "=")
			cells = append(cells, value)
		}
		r := candidate.Report
		if more {
			cells = append(cells, s.order().Text(r))
		}
		if r == nil {
			table.Row(append(cells, none, none, none, none, candidate.Err)...)
			continue
		}
		holdout, logLoss := none, none
		if split, ok := r.Splits[examples.Holdout.String()]; ok {
			holdout, logLoss = Percent(&split.Error)+candidate.folds.errorText(), loss(split.LogLoss)+candidate.folds.lossText()
		}
		digest := r.WeightsDigest.Short()
		if n := len(candidate.folds); n > 0 {
			digest = fmt.Sprintf("of %d folds", n)
		}
		table.Row(append(cells, holdout, logLoss, Percent(&r.TrainError), fmt.Sprintf("%.2f", r.Seconds), digest)...)
	}
	return table.Write(w)
}

// Best returns the candidate with the best predictions of the holdout rows, the first of several; nil if there is none.
func (s *Search) Best() *Candidate {
	best := s.order().Best(s.Compared())
	if best < 0 {
		return nil
	}
	return &s.Candidates[best]
}

// order is what the candidates are sorted by.
func (s *Search) order() compare.Order {
	return compare.Order{Split: examples.Holdout.String(), By: s.By}
}

// About says what the page of a search is about.
func (s *Search) About() compare.About {
	var keys []string
	for _, set := range s.Candidates[0].Set {
		key, _, _ := strings.Cut(set, "=")
		keys = append(keys, key)
	}
	return compare.About{Title: "Search over " + english.OxfordWordSeries(keys, "and"), Pipeline: s.Candidates[0].Name,
		Date: date(s.Ended), By: s.order()}
}

// Compared returns the candidates as package compare knows them.
func (s *Search) Compared() (runs []compare.Run) {
	for i, candidate := range s.Candidates {
		state := schemas.Done
		if candidate.Err != nil {
			state = schemas.Failed
		}
		var settings []compare.Setting
		for _, set := range candidate.Set {
			key, value, _ := strings.Cut(set, "=")
			settings = append(settings, compare.Setting{Key: key, Value: value})
		}
		runs = append(runs, compare.Run{
			Title: fmt.Sprintf("run %d", i+1), State: state, Settings: settings, Plan: candidate.Plan, Report: candidate.Report,
		})
	}
	return runs
}
