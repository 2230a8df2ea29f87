package screen

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"golang.org/x/sys/unix"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Progress is the recorder that shows a run on the screen: lines and a table with a row for each stage on w, and below them a
// progress bar if w is a terminal.
type Progress struct {
	w        io.Writer
	bar      *bar
	stages   []schemas.Stage
	members  int             // number of models that the run averages; 1: no average
	member   int             // of the last row of the table
	lost     map[string]bool // columns that were reported as lost
	titled   bool            // the head of the table is written
	lastPass string          // number, loss and error of the last pass of the stage
	fraction float64         // the largest fraction of the run that was drawn
	joined   *event.Joined   // the last counts of a join, until they are written
	chained  bool            // the run is of a chain, which has a row for each version
	scored   event.Scored    // the messages and rows that score has predicted
	lag      int64           // offsets without predictions, of the partitions that this process predicts for
}

// NewProgress returns a recorder that writes to w.
func NewProgress(w io.Writer, now func() time.Time) *Progress {
	return &Progress{w: w, lost: map[string]bool{}, bar: newBar(w, now)}
}

// Finish erases the bar.
func (p *Progress) Finish() { p.bar.clear() }

// Record shows an event.
func (p *Progress) Record(e event.Event) {
	switch e := e.(type) {
	case event.Ingested:
		p.ingest(e)
	case event.Following:
		p.line("following topic %s until interrupted", e.Topic)
	case event.Answers:
		if e.Version == 0 {
			p.line("messages wait for a version: %v", e.Why)
		}
	case event.Scored:
		p.scored.Messages, p.scored.Rows, p.scored.Bad = p.scored.Messages+e.Messages, p.scored.Rows+e.Rows, p.scored.Bad+e.Bad
		p.scored.Version = e.Version
		p.score()
	case event.Predicted:
		text := fmt.Sprintf("predictions for %s rows of %s of %s are on %s", humanize.Comma(p.scored.Rows),
			english.Plural(p.scored.Messages, "message", ""), e.From, e.To)
		if bad := p.scored.Bad; bad > 0 {
			text += fmt.Sprintf("; %s can't be used: see the reasons in their predictions", english.Plural(bad, "message", ""))
		}
		p.line("%s", text)
	case event.ScoringLag:
		p.lag = 0
		for _, offsets := range e.Offsets {
			p.lag += offsets
		}
		p.score()
	case event.PageServed:
		p.line("page: %s", e.URL)
	case event.Began:
		p.stages, p.members, p.fraction, p.chained = e.Stages, e.Members, 0, e.Chained
		if e.Chained {
			return
		} else if e.Followed {
			p.line("run %s, on other processes", e.Run)
		} else if e.Resumed {
			p.line("run %s, resumed", e.Run)
		} else {
			p.line("run %s", e.Run)
		}
	case event.Followed:
		p.follow(e)
	case event.StoodAside:
		if !e.Over {
			p.line("standing aside for run %s: %s", e.Run, e.Why)
		}
	case event.Progressed:
		p.progress(e)
	case event.Trying:
		note := fmt.Sprintf("stage %d", e.Stage+1)
		if e.Stage == wire.Survey {
			note = "survey"
		}
		p.bar.draw("stages: trying candidates", -1, note)
	case event.Quarantined:
		if e.Messages > 1 {
			p.line("quarantined %s messages of %s[%d], the newest at %d: %s", humanize.Comma(int64(e.Messages)), cmp.Or(e.Topic, "examples"),
				e.Partition, e.Offset, e.Reason)
		} else {
			p.line("quarantined %s[%d]@%d: %s", cmp.Or(e.Topic, "examples"), e.Partition, e.Offset, e.Reason)
		}
	case event.Joined:
		p.joined = &e
	case event.Retrained:
		p.retrained(e)
	case event.Expecting:
		p.expect(e)
	case event.StoodBy:
		p.line("%s", e.Why)
	case event.Replaced:
		p.line("%s[%d] no longer has what the chain learnt before offset %d: it was truncated or recreated. The chain continues from "+
			"offset %d, without %s",
			e.Topic, e.Partition, e.Looked, e.Proven, english.Plural(int(e.Rows), "row", ""))
	case event.Lost:
		p.line("lost %s of %s[%d]: the offsets %d to %d were deleted before they were read, or are missing in the archive. Their examples are "+
			"not learnt", english.Plural(int(e.To-e.From), "message", ""), e.Topic, e.Partition, e.From, e.To-1)
	case event.ColumnLost:
		if e.Rows == 0 || p.lost[e.Column] {
			return
		}
		if p.lost[e.Column] = true; e.File != "" {
			p.line("column %q of %s: earlier rows had a value, but %s have none, most of those from there on. The mean of the column, or no "+
				"word, replaces it", e.Column, e.File, english.Plural(int(e.Rows), "later row", ""))
		} else if e.Optional {
			p.line("column %q of %s: earlier rows had a value, but most new rows have none. Its mean replaces it (examples.missing). These "+
				"rows raise no drift alarm, and versions that have learnt them are offered only if the gate has compared them", e.Column, e.Topic)
		} else {
			p.line("column %q of %s: earlier rows had a value, but most new rows have none. They are quarantined. Has a producer renamed "+
				"or dropped it? List it in examples.missing if its mean is to replace it", e.Column, e.Topic)
		}
	case event.Incomplete:
		p.line("skipped version %d: %v", e.Version, e.Why)
	case event.Surveyed:
		if !p.chained {
			p.survey(e)
		}
	case event.Passed:
		p.lastPass = fmt.Sprintf("pass %d/%d", e.Pass, p.maxPasses(e.Stage))
		if s, ok := e.Metrics[examples.Train]; ok {
			p.lastPass += fmt.Sprintf("  loss %.4f  error %.2f %%", s.Loss, s.Error)
		}
		if s, ok := e.Metrics[examples.Holdout]; ok {
			p.lastPass += fmt.Sprintf("  holdout %.2f %%", s.Error)
		}
	case event.StageEnded:
		if !p.chained {
			p.row(e)
		}
	case event.Advanced:
		p.progress(event.Progressed{Stage: e.Stage, Visit: e.Visit, Of: 1})
	case event.Waiting:
		switch {
		case e.Over && e.Err == nil:
			p.line("%s: succeeded after %v", e.What, e.Since.Round(time.Second))
		case e.Over:
			p.line("%s: gave up after %v", e.What, e.Since.Round(time.Second))
		default:
			p.line("%s: waiting for %v: %v", e.What, e.Since.Round(time.Second), e.Err)
		}
	case event.Noticed:
		p.line("%s", e.Text)
	}
}

// expect shows what a chain waits for: instead of the bar, and on a line before the first version.
func (p *Progress) expect(e event.Expecting) {
	text := fmt.Sprintf("waiting for %s rows (%s so far)", humanize.Comma(e.Of), humanize.Comma(e.Rows))
	switch {
	case e.After == 0:
	case e.Until.IsZero():
		text += fmt.Sprintf(", or %s after the first", durationText(e.After))
	default:
		text += ", or until " + e.Until.Local().Format(time.TimeOnly)
	}
	const hint = "--until end learns what is there"
	switch first := !e.Again && !p.titled; {
	case p.bar.width != nil && first:
		p.line("%s", hint)
	case first:
		p.line("%s; %s", text, hint)
	}
	p.bar.clear() // draw it regardless of the time of the last drawing
	p.bar.draw(text, -1, "")
}

// durationText formats a duration without parts that are 0.
func durationText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// line writes a line instead of the bar.
func (p *Progress) line(format string, values ...any) {
	p.bar.clear()
	fmt.Fprintf(p.w, format+"\n", values...)
}

// follow writes what a run of other processes waits for, and which processes work on it.
func (p *Progress) follow(e event.Followed) {
	who := "it"
	if e.Quiet > 0 {
		who = fmt.Sprintf("no progress for %v: the run", e.Quiet)
	}
	switch {
	case len(e.Behind) > 0:
		p.line("%s waits for %s %s to end", who, english.PluralWord(len(e.Behind), "run", ""), english.WordSeries(e.Behind, "and"))
	case e.Stage == len(p.stages):
		p.line("%s is waiting to end: no visits remain", who)
	default:
		p.line("%s waits for %s", who, event.VisitOf(e.Stage, e.Visit, len(p.stages)))
	}
	switch {
	case e.Staff.Unknown != nil:
		p.line("the processes that work on it are unknown: %v", e.Staff.Unknown)
	case len(e.Staff.Workers)+len(e.Staff.Solvers) == 0 && e.Staff.Embedded:
		p.line("the process that runs the embedded broker works on it")
	default:
		p.line("%s; %s", present("worker", "work", e.Staff.Workers), present("solver", "solve", e.Staff.Solvers))
	}
}

// present describes the hosts of the members of a role, or what to do if there are none.
func present(role, command string, hosts []string) string {
	if len(hosts) == 0 {
		return fmt.Sprintf("no %s: start stagewise %s -c FILE", role, command)
	}
	return english.Plural(len(hosts), role, "") + ": " + strings.Join(hosts, ", ")
}

// retrained writes the row of a version of a chain.
func (p *Progress) retrained(e event.Retrained) {
	if !p.titled {
		p.line("%8s  %-6s  %9s  %11s  %12s  %8s  %7s", "version", "", "new rows", "window", "error before", "holdout", "seconds")
		p.titled = true
	}
	note := ""
	if e.Drift {
		note += "  the stream has changed"
	}
	if !e.Offered {
		note += "  not offered"
		if e.AtLeast > 0 {
			note += fmt.Sprintf(": learnt from fewer than %s rows, as the log has lost others (retrain.accept_loss: true offers such "+
				"versions, stagewise weights pin %d this one)", humanize.Comma(e.AtLeast), e.Version)
		} else if e.Unseen {
			note += ": most new rows lack optional columns, and no rows were held out to compare it (examples.holdout)"
		} else if g := e.Gate; g != nil {
			note += fmt.Sprintf(": loss %.3g, offered version %.3g", g.Loss, g.OfferedLoss)
		}
	}
	if e.MostlyBad != nil {
		note += "  most messages are unusable"
	}
	if e.Lost > 0 {
		note += fmt.Sprintf("  %s lost", english.Plural(int(e.Lost), "message", ""))
	}
	if e.Gone > 0 {
		note += fmt.Sprintf("  %s gone", english.Plural(int(e.Gone), "row", ""))
	}
	if e.NoLabel > 0 {
		note += fmt.Sprintf("  %s without a label (null, empty or one of examples.missing_values)", english.Plural(int(e.NoLabel), "row", ""))
	}
	note = served(e.Served) + note
	p.line("%8d  %-6s  %9s  %11s  %12s  %8s  %7.2f%s", e.Version, e.Kind, humanize.Comma(e.Rows), humanize.Comma(e.WindowRows),
		Percent(e.PrequentialError), Percent(e.HoldoutError), e.Seconds, note)
	if o := e.Outcomes; o != nil {
		if p.line("%s", schemas.JoinText(o.JoinCounts)); o.Withhold() {
			p.line("%s", o.Why())
		}
	}
	if b := e.MostlyBad; b != nil {
		p.line("%d of %d new messages can't be used; the first is partition %d, offset %d: %s", b.Messages, b.Of, b.Partition, b.Offset, b.Reason)
	}
}

// served returns the error rates of served predictions, by version.
func served(reports []schemas.ServedReport) (text string) {
	for i, s := range reports {
		if i == 0 {
			text = "  served error "
		} else {
			text += ", "
		}
		text += fmt.Sprintf("%.2f %% (version %d, %s)", s.Error, s.Version, english.Plural(int(s.Rows), "row", ""))
	}
	return text
}

func (p *Progress) ingest(e event.Ingested) {
	files := strings.Join(e.Files, ", ")
	switch {
	case e.Known:
		p.line("%s: %s %s rows, already on the topic", files, humanize.Comma(e.Rows), e.Split)
	case e.Done:
		if p.line("%s: %s %s rows", files, humanize.Comma(e.Rows), e.Split); p.joined != nil {
			p.line("topic %s: %s", p.joined.Outcomes, schemas.JoinText(p.joined.Counts))
			p.joined = nil
		}
	default:
		p.bar.draw("ingest", -1, humanize.Comma(e.Rows)+" rows of "+files)
	}
}

// score draws the progress of predictions for a topic.
func (p *Progress) score() {
	note := humanize.Comma(p.scored.Rows) + " rows"
	if p.scored.Version > 0 {
		note += fmt.Sprintf(", version %d", p.scored.Version)
	}
	p.bar.draw("score", -1, fmt.Sprintf("%s, %s left", note, english.Plural(int(p.lag), "message", "")))
}

func (p *Progress) survey(e event.Surveyed) {
	var rows []string
	for split := examples.Train; split < examples.Splits; split++ {
		if n := e.Rows[split]; n > 0 {
			rows = append(rows, humanize.Comma(n)+" "+split.String())
		}
	}
	inputs := ""
	switch {
	case e.Sparse:
		inputs = fmt.Sprintf(" (sparse), %d of them in use", e.Inputs)
	case e.Inputs != e.Features: // only principal components change the number of dense ones
		inputs = fmt.Sprintf(" → %d components", e.Inputs)
	}
	took := ""
	if e.Elapsed > 0 {
		took = fmt.Sprintf("; surveyed in %.1f s", e.Elapsed.Seconds())
	}
	p.line("%s rows; %d features%s; %s%s", strings.Join(rows, ", "), e.Features, inputs, english.Plural(e.Classes, e.Task.Noun(), ""), took)
	for _, r := range coverage.PassOverReasons() {
		if n := e.PassedOver[r.Reason]; n > 0 {
			p.line("passed over: %s %s", english.Plural(int(n), r.What, ""), r.Meaning)
		}
	}
}

// progress draws a bar for the whole run. The survey, which comes before it, has a bar of its own.
func (p *Progress) progress(e event.Progressed) {
	part := -1.0 // of the visit; unknown while Of is 0
	if e.Of > 0 {
		part = float64(e.Rows) / float64(e.Of)
	}
	if e.Stage == wire.Survey {
		p.bar.draw("survey", part, "")
		return
	}
	stages := max(len(p.stages), e.Stage+1)
	ofStage := min((float64(e.Visit)+max(part, 0))/float64(p.maxVisits(e.Stage)), 1)
	// A run that is resumed repeats visits. Its bar does not go back.
	p.fraction = max(p.fraction, (float64(e.Stage)+ofStage)/float64(stages))
	title := fmt.Sprintf("stage %d/%d", e.Stage+1, stages)
	if p.members > 1 {
		title = fmt.Sprintf("member %d/%d, %s", e.Stage*p.members/stages+1, p.members, title)
	}
	p.bar.draw(title, p.fraction, p.lastPass)
}

// maxPasses returns the maximum number of passes of a stage.
func (p *Progress) maxPasses(stage int) int {
	if stage >= len(p.stages) || link.Named(p.stages[stage].Link).Quadratic {
		return 1
	}
	return max(p.stages[stage].Passes, 1)
}

// maxVisits returns the maximum number of visits of a stage.
func (p *Progress) maxVisits(stage int) int {
	if stage >= len(p.stages) {
		return 1
	}
	return link.Named(p.stages[stage].Link).VisitsPerPass() * p.maxPasses(stage)
}

// row writes the row of a stage.
func (p *Progress) row(e event.StageEnded) {
	p.bar.clear()
	if !p.titled {
		fmt.Fprint(p.w, stageHead())
		p.titled = true
	}
	if e.Member != p.member {
		fmt.Fprintf(p.w, "member %d/%d\n", e.Member, p.members)
		p.member = e.Member
	}
	fmt.Fprint(p.w, stageRows(&e.StageReport, e.Stages))
	p.lastPass = ""
}

// bar is a progress bar on the last line of a terminal. If w is not a terminal, it draws nothing.
type bar struct {
	w     io.Writer
	width func() int // the columns of the terminal; nil if w is not a terminal
	now   func() time.Time
	last  time.Time // when the bar was last drawn
	drawn bool      // the bar is on the screen
}

const (
	// minInterval is the shortest time between two drawings. A faster bar would flicker.
	minInterval = 100 * time.Millisecond
	// maxCells is the length of the bar itself on a wide terminal.
	maxCells = 24
)

// newBar returns a bar on w, which draws only if w is a terminal.
func newBar(w io.Writer, now func() time.Time) *bar {
	return &bar{w: w, now: now, width: terminalWidth(w)}
}

// terminalWidth returns a function that returns the columns of a terminal; nil if w is not a terminal.
func terminalWidth(w io.Writer) func() int {
	f, ok := w.(interface{ Fd() uintptr })
	if !ok {
		return nil
	}
	size := func() (*unix.Winsize, error) { return unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ) }
	if _, err := size(); err != nil {
		return nil
	}
	return func() int {
		if s, err := size(); err == nil && s.Col > 0 {
			return int(s.Col)
		}
		return 80
	}
}

// draw shows title, a bar and note. fraction is the completed part, from 0 to 1; if it is negative, the line has no
// bar. draw does nothing if the last drawing was less than minInterval ago.
func (b *bar) draw(title string, fraction float64, note string) {
	if b.width == nil {
		return
	}
	now := b.now()
	if b.drawn && now.Sub(b.last) < minInterval {
		return
	}
	b.last, b.drawn = now, true
	// Some terminals go to the next line after a character in the last column.
	maxRunes := b.width() - 1
	line := title
	if fraction >= 0 {
		percent := fmt.Sprintf(" %3.0f %%", 100*fraction)
		line = fmt.Sprintf("%-11s  ", title)
		cells := max(0, min(maxCells, maxRunes-len(line)-len(percent)-2-len([]rune(note))))
		full := int(fraction * float64(cells))
		line += fmt.Sprintf("%s%s%s", strings.Repeat("█", full), strings.Repeat("░", cells-full), percent)
	}
	runes := []rune(strings.TrimRight(line+"  "+note, " "))
	if len(runes) > maxRunes {
		runes = runes[:max(0, maxRunes)]
	}
	// One write puts the new line over the old one and then erases the rest of the old one. The line is never empty in between,
	// so it does not flicker.
	fmt.Fprintf(b.w, "\r%s\x1b[K", string(runes))
}

// clear erases the bar, so that a line of text can take its place.
func (b *bar) clear() {
	if b.drawn {
		fmt.Fprint(b.w, "\r\x1b[K")
		b.drawn = false
	}
}
