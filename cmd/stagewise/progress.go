package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// progress is the recorder for people: lines on out, a row of a table for each stage, and while one is under way a bar on
// the terminal, if there is one.
type progress struct {
	out    io.Writer
	bar    *bar
	stages []schemas.Stage
	titled bool    // the table has its head
	passed string  // what the last pass of the stage came to
	shown  float64 // the fraction of the run that was shown last: a resumed run repeats visits, its bar does not go back
	bad    int     // quarantined
}

func newProgress(out, stderr io.Writer, now func() time.Time) *progress {
	return &progress{out: out, bar: newBar(stderr, now)}
}

// finish takes the bar away.
func (p *progress) finish() { p.bar.clear() }

// mostQuarantined is how many bad messages are worth a line each.
const mostQuarantined = 5

func (p *progress) Record(e event.Event) {
	switch e := e.(type) {
	case event.Ingested:
		p.ingested(e)
	case event.Began:
		p.stages = e.Stages
		if e.Followed {
			p.line("run %s, on which others work", e.Run)
		} else if e.Resumed {
			p.line("run %s goes on where it was", e.Run)
		} else {
			p.line("run %s", e.Run)
		}
	case event.Progressed:
		p.progressed(e)
	case event.Quarantined:
		if p.bad++; p.bad <= mostQuarantined {
			p.line("quarantined examples[%d]@%d: %s", e.Partition, e.Offset, e.Reason)
		} else if p.bad == mostQuarantined+1 {
			p.line("quarantined more; they are all on the quarantine topic")
		}
	case event.Surveyed:
		p.surveyed(e)
	case event.Passed:
		p.passed = fmt.Sprintf("pass %d/%d", e.Pass, p.passes(e.Stage))
		if s, ok := e.Metrics[schemas.Train]; ok {
			p.passed += fmt.Sprintf("  loss %.4f  error %.2f %%", s.Loss, s.Error)
		}
	case event.StageEnded:
		p.stage(e)
	case event.Advanced:
		p.progressed(event.Progressed{Stage: e.Stage, Visit: e.Visit, Of: 1})
	case event.Waiting:
		if e.Over {
			p.line("%s: goes on", e.What)
		} else {
			p.line("%s: waiting for %v: %v", e.What, e.Since.Round(time.Second), e.Err)
		}
	case event.Noticed:
		p.line("%s", e.Text)
	}
}

func (p *progress) line(format string, values ...any) {
	p.bar.clear()
	fmt.Fprintf(p.out, format+"\n", values...)
}

func (p *progress) ingested(e event.Ingested) {
	files := strings.Join(e.Files, ", ")
	switch {
	case e.Known:
		p.line("%s: %s %s rows are on the topic already", files, humanize.Comma(e.Rows), e.Split)
	case e.Done:
		p.line("%s: %s %s rows", files, humanize.Comma(e.Rows), e.Split)
	default:
		p.bar.draw("ingest", -1, humanize.Comma(e.Rows)+" rows of "+files)
	}
}

func (p *progress) surveyed(e event.Surveyed) {
	var rows []string
	for split := schemas.Train; split < schemas.Splits; split++ {
		if n := e.Rows[split]; n > 0 {
			rows = append(rows, humanize.Comma(n)+" "+split.String())
		}
	}
	inputs := ""
	if e.Inputs != e.Features {
		inputs = fmt.Sprintf(", %d of them made", e.Inputs)
	}
	took := ""
	if e.Elapsed > 0 {
		took = fmt.Sprintf("; surveyed in %.1f s", e.Elapsed.Seconds())
	}
	p.line("%s rows; %d features%s; %d classes%s", strings.Join(rows, ", "), e.Features, inputs, e.Classes, took)
}

// progressed draws how far the whole run is; the survey has a bar of its own.
func (p *progress) progressed(e event.Progressed) {
	part := -1.0
	if e.Of > 0 {
		part = float64(e.Rows) / float64(e.Of)
	}
	if e.Stage == schemas.Survey {
		p.bar.draw("survey", part, "")
		return
	}
	visits := float64(p.visits(e.Stage))
	within := min((float64(e.Visit)+max(part, 0))/visits, 1)
	p.shown = max(p.shown, (float64(e.Stage)+within)/float64(max(len(p.stages), e.Stage+1)))
	p.bar.draw(fmt.Sprintf("stage %d/%d", e.Stage+1, max(len(p.stages), e.Stage+1)), p.shown, p.passed)
}

// passes returns how many passes a stage has at most.
func (p *progress) passes(stage int) int {
	if stage >= len(p.stages) || link.Named(p.stages[stage].Link).Quadratic {
		return 1
	}
	return max(p.stages[stage].Passes, 1)
}

// visits returns how many visits a stage has at most.
func (p *progress) visits(stage int) int {
	if stage >= len(p.stages) {
		return 1
	}
	return link.Named(p.stages[stage].Link).VisitsPerPass() * p.passes(stage)
}

// The table is for terminals of 80 columns.
const (
	head = "                                error             loss\n"
	row  = "%6s  %-10s  %6s  %7s  %7s  %7s  %7s  %7s\n"
)

func (p *progress) stage(e event.StageEnded) {
	p.bar.clear()
	if !p.titled {
		fmt.Fprint(p.out, head)
		fmt.Fprintf(p.out, row, "stage", "link", "passes", "train", "test", "train", "test", "seconds")
		p.titled = true
	}
	fmt.Fprintf(p.out, row, fmt.Sprintf("%d/%d", e.Stage+1, e.Stages), e.Link, fmt.Sprint(e.Passes),
		percent(&e.TrainError), percent(e.TestError), loss(&e.TrainLoss), loss(e.TestLoss), fmt.Sprintf("%.1f", e.Seconds))
	p.passed = ""
}

const none = "-"

func percent(v *float64) string {
	if v == nil {
		return none
	}
	return fmt.Sprintf("%.2f %%", *v)
}

func loss(v *float64) string {
	if v == nil {
		return none
	}
	return fmt.Sprintf("%.4f", *v)
}
