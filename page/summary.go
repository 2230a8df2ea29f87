package page

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
)

// The parts of the page, as its anchors name them.
const (
	aboutFlow       = "flow"
	aboutRun        = "run"
	aboutError      = "error"
	aboutVersions   = "versions"
	aboutStaff      = "staff"
	aboutQuarantine = "quarantine"
)

// silent is the time without a message after which a run is a problem: longer than most visits take.
const silent = 2 * time.Minute

// fresh is the time for which a message in quarantine counts as a problem.
const fresh = time.Hour

// need adds a problem.
func (m *Summary) need(level Level, about, format string, values ...any) {
	m.Needs = append(m.Needs, Need{level, fmt.Sprintf(format, values...), about})
}

// summary returns the answers to the first questions of an operator.
func (r *reader) summary(s *State) Summary {
	m := Summary{Pipeline: r.options.Name, Brokers: r.options.Brokers, Needs: []Need{},
		Facts: []Fact{behind(s), errorOf(s), r.offeredOf(s), underWay(s)}}
	if quiet := r.clock().Sub(r.heard); quiet > max(10*time.Second, 5*r.options.Every) {
		m.need(Trouble, aboutFlow, "The brokers have not answered for %s. The page may be older than that.", words(quiet))
	}
	told := map[string]bool{}
	for _, all := range r.errors {
		list := []error{all}
		if several, ok := all.(interface{ Unwrap() []error }); ok {
			list = several.Unwrap()
		}
		for _, err := range list {
			switch {
			case err == nil || told[err.Error()]:
				continue
			case errors.As(err, new(*missingRight)):
				m.need(Notice, aboutFlow, "Part of this page is empty: %v.", err)
			default:
				m.need(Trouble, aboutFlow, "Part of this page may be old: %v.", err)
			}
			told[err.Error()] = true
		}
	}
	if r.absent {
		m.need(Notice, aboutFlow, "The pipeline has no topics yet: stagewise train or stagewise run creates them.")
	}
	m.needsOfRun(s, r)
	m.needsOfProcesses(s, r)
	m.needsOfVersions(s)
	if r.bad > 0 {
		common := ""
		if len(s.Quarantine.Reasons) > 0 {
			common = fmt.Sprintf(" Most common reason: %s.", s.Quarantine.Reasons[0].Reason)
		}
		m.need(Notice, aboutQuarantine, "%s could not be used in the last hour.%s", counted(r.bad, "message", ""), common)
	}
	slices.SortStableFunc(m.Needs, func(a, b Need) int { return cmp.Compare(b.Level, a.Level) }) // trouble, notice
	m.judge(s)
	return m
}

// judge says in a sentence whether all is well.
func (m *Summary) judge(s *State) {
	problems := 0
	for _, n := range m.Needs {
		if n.Level == Trouble {
			problems++
		}
	}
	warnings := len(m.Needs) - problems
	switch {
	case problems > 0:
		m.Level = Trouble
	case warnings > 0:
		m.Level = Notice
	default:
		m.Level = Good
	}
	switch {
	case problems == 1:
		m.Verdict = "One problem needs action."
	case problems > 1:
		m.Verdict = fmt.Sprintf("%d problems need action.", problems)
	case s.Run == nil && len(s.Versions) == 0 && len(s.Staff.Members[protocol.RoleRun]) > 0:
		m.Verdict = "Waiting for the first examples."
	case s.Run == nil && len(s.Versions) == 0:
		m.Verdict = "Nothing has run yet."
	case warnings == 1:
		m.Verdict = "No problems, one warning."
	case warnings > 1:
		m.Verdict = fmt.Sprintf("No problems, %d warnings.", warnings)
	default:
		m.Verdict = "All is well."
	}
}

// needsOfRun adds the problems of a run.
func (m *Summary) needsOfRun(s *State, r *reader) {
	run := s.Run
	if run != nil && run.State == schemas.Failed {
		m.need(Trouble, aboutRun, "Run %s failed: %s.", run.ID, run.Reason)
	}
	if !run.underWay() {
		return
	}
	if due, _ := r.now.due(); r.now.failure != "" && r.now.failed == due.Parent {
		m.need(Notice, aboutRun, "A worker can't make the current visit: %s.", r.now.failure)
	}
	if r.knows(&s.Staff) && (run.Kind == kindTrain || len(s.Staff.Members[protocol.RoleRun]) > 0) { // a runner works and solves too
		for _, role := range []string{protocol.RoleWork, protocol.RoleSolve} {
			if len(s.Staff.Members[role]) == 0 {
				m.need(Trouble, aboutStaff, "Run %s is waiting: no process runs stagewise %s.", run.ID, role)
			}
		}
	}
	if quiet := r.clock().Sub(time.UnixMilli(run.News)); run.News > 0 && quiet > silent {
		m.need(Notice, aboutRun, "Run %s has made no progress for %s. It is waiting %s.", run.ID, words(quiet), run.Waits)
	}
}

// needsOfProcesses adds the roles that no process has.
func (m *Summary) needsOfProcesses(s *State, r *reader) {
	staff := &s.Staff
	if !r.polled || staff.Unknown != "" {
		return
	}
	var waits []string
	source := "" // what waits on the source topic
	for _, t := range s.backlogs() {
		if *t.Lag > 0 {
			waits = append(waits, counted(*t.Lag, "message waits", "messages wait")+" on "+t.Name)
			if t.Role == roleSource {
				source = waits[0]
			}
		}
	}
	// gone returns the time since a process of a role was last seen, in words; "" if none was ever seen.
	gone := func(role string) string {
		if last, seen := r.last[role]; seen {
			return words(r.clock().Sub(last))
		}
		return ""
	}
	switch left := gone(protocol.RoleRun); {
	case len(staff.Members[protocol.RoleRun]) > 0:
	case staff.Embedded && left == "": // the broker's own process may do it, as a member of no group
	case s.isChain() && len(waits) > 0:
		source = "" // a runner ingests too
		m.need(Trouble, aboutStaff, "No process runs stagewise run, and %s.", strings.Join(waits, " and "))
	case s.isChain() && s.Run.underWay():
		m.need(Trouble, aboutStaff, "Run %s is waiting: no process runs stagewise run.", s.Run.ID)
	case left != "":
		m.need(Notice, aboutStaff, "No process runs stagewise run: the last one was seen %s ago.", left)
	}
	ingested := staff.Embedded || len(staff.Members[protocol.RoleIngest])+len(staff.Members[protocol.RoleRun]) > 0 ||
		slices.Contains(staff.Hidden, protocol.RoleIngest)
	if source != "" && !ingested {
		m.need(Trouble, aboutStaff, "%s, and no process ingests them.", source)
	}
	for _, role := range []string{protocol.RoleScore, protocol.RoleServe} {
		if left := gone(role); left != "" && len(staff.Members[role]) == 0 {
			m.need(Trouble, aboutStaff, "No process runs stagewise %s: the last one was seen %s ago.", role, left)
		}
	}
}

// isChain reports whether stagewise run makes the versions. Plans of its past runs may be gone.
func (s *State) isChain() bool {
	if s.Run == nil && len(s.Versions) > 0 {
		return s.Versions[len(s.Versions)-1].Kind != kindTrain
	}
	return s.Run != nil && s.Run.Kind != kindTrain
}

// backlogs returns the source topic and then that of the examples, if their backlogs are known.
func (s *State) backlogs() (list []Topic) {
	for _, t := range s.Topics {
		if (t.Role == roleSource || t.Role == roleExamples) && t.Lag != nil {
			list = append(list, t)
		}
	}
	return list
}

// counted returns a number and the noun or sentence that it counts.
func counted(n int64, one, several string) string {
	return humanize.Comma(n) + " " + english.PluralWord(int(n), one, several)
}

// needsOfVersions adds the problems of versions.
func (m *Summary) needsOfVersions(s *State) {
	if len(s.Versions) == 0 {
		return
	}
	newest, withheld, keeps := &s.Versions[len(s.Versions)-1], 0, "nothing"
	var out *Version
	for i := range s.Versions {
		v := &s.Versions[i]
		if withheld++; v.Offered {
			withheld = 0
		}
		if v.Latest {
			out, keeps = v, fmt.Sprintf("version %d", v.Version)
		}
	}
	switch {
	case withheld > 0:
		level := Notice
		if withheld > 1 {
			level = Trouble
		}
		what, why := english.PluralWord(withheld, "version", fmt.Sprintf("%d versions", withheld)), ""
		if newest.AtLeast > 0 {
			why = fmt.Sprintf(" They have learnt from fewer than %s rows, as the log has lost others: set retrain.accept_loss, or pin a "+
				"version, if you want them.", humanize.Comma(newest.AtLeast))
		}
		m.need(level, aboutVersions, "The gate withholds the newest %s. Subscribers keep %s.%s", what, keeps, why)
	case out != nil && out.Pinned && out != newest:
		m.need(Notice, aboutVersions, "Version %d is pinned, so subscribers do not get the newest version, %d.", out.Version, newest.Version)
	}
	if newest.MostlyBad != nil {
		m.need(Trouble, aboutQuarantine, "Most messages of version %d were unusable. Has a producer changed its format?", newest.Version)
	}
	if newest.Drift {
		m.need(Notice, aboutError, "Drift alarm: the stream changed at version %d.", newest.Version)
	}
	if newest.UnknownRows > 0 {
		m.need(Notice, aboutVersions, "%s of version %d have a label that is not a class.", english.Plural(int(newest.UnknownRows), "row", ""),
			newest.Version)
	}
}

// behind returns the fact about the lag of the versions behind the examples. Messages of the source topic and those of the examples,
// which are batches of rows, are not added: each has its topic.
func behind(s *State) Fact {
	f := Fact{Question: "How far behind?", Answer: "Not known", About: aboutFlow}
	known := s.backlogs()
	if len(known) == 0 {
		return f
	}
	f.Answer = "Up to date"
	for _, t := range known {
		if *t.Lag == 0 {
			continue
		}
		count, wait, until := counted(*t.Lag, "message", ""), english.PluralWord(int(*t.Lag), "waits", "wait"), "learnt"
		if t.Role == roleSource {
			until = "ingested"
		}
		if f.Detail == "" {
			f.Answer = count
		} else {
			wait = count + " (" + english.PluralWord(int(*t.Lag), "a batch", "batches") + " of rows) " + wait
		}
		f.Detail += fmt.Sprintf("%s on %s to be %s; ", wait, t.Name, until)
	}
	switch rate := known[0].Rate; {
	case rate == 0:
		f.Detail += "no new messages are arriving"
	case rate < 10:
		f.Detail += fmt.Sprintf("%.1f arriving per second", rate)
	default:
		f.Detail += humanize.Comma(int64(rate+0.5)) + " arriving per second"
	}
	return f
}

// errorOf returns the fact about the error.
func errorOf(s *State) Fact {
	f := Fact{Question: "What is the error?", Answer: "Not known", Detail: "no version has been made", About: aboutError}
	n := len(s.Versions)
	if n == 0 {
		return f
	}
	type measured struct {
		of   *Version
		err  *float64
		rows string
	}
	last, before := &s.Versions[n-1], &s.Versions[max(n-2, 0)]
	for _, m := range []measured{
		// A full version of a chain learns only rows that were predicted before: the update before it has their error.
		{last, last.PrequentialError, "on new rows, before version %d learnt them"},
		{before, before.PrequentialError, "on new rows, before version %d learnt them"},
		{last, last.TestError, "of test rows, version %d"}, {last, last.HoldoutError, "of holdout rows, version %d"},
		{last, last.TrainError, "of the training rows of version %d"},
	} {
		if m.err != nil {
			f.Answer, f.Detail, f.When, f.Since = percent(*m.err), fmt.Sprintf(m.rows, m.of.Version), "made", m.of.Written
			break
		}
	}
	return f
}

func percent(v float64) string { return fmt.Sprintf("%.2f %%", v) }

// offeredOf returns the fact about the version that subscribers get. It may not be described yet.
func (r *reader) offeredOf(s *State) Fact {
	f := Fact{Question: "Which version is in use?", Answer: "None", Detail: "no version is offered yet", About: aboutVersions}
	if at := r.at(r.latest()); at >= 0 {
		f.Answer, f.Detail = fmt.Sprintf("Version %d", r.places[at].Version), "of run "+r.places[at].Run
	}
	for _, v := range s.Versions {
		if v.Latest {
			f.Answer, f.Detail, f.When, f.Since = fmt.Sprintf("Version %d", v.Version), "of run "+v.Run, "made", v.Written
			if v.Pinned {
				f.Detail = "pinned, " + f.Detail
			}
		}
	}
	return f
}

// underWay returns the fact about the current run.
func underWay(s *State) Fact {
	f := Fact{Question: "What is running?", Answer: "No active run", Detail: "no run has started", About: aboutRun}
	run := s.Run
	if len(s.Staff.Members[protocol.RoleRun]) > 0 {
		f.Answer = "Waiting for examples"
	}
	if len(s.Versions) > 0 {
		f.Detail = "no run since this page started"
	}
	switch {
	case run == nil:
		return f
	case !run.underWay():
		f.Detail, f.When, f.Since = fmt.Sprintf("last run %s is %s", run.ID, run.State), "ended", run.News
		return f
	case run.Stage < 0:
		f.Answer = "Survey"
	case run.Stage >= len(run.Stages):
		f.Answer = "Writing the version"
	default:
		f.Answer = fmt.Sprintf("Stage %d of %d", run.Stage+1, len(run.Stages))
	}
	f.Detail, f.When, f.Since = fmt.Sprintf("run %s waits %s", run.ID, run.Waits), "last message", run.News
	if run.Queued > 0 {
		f.Detail += fmt.Sprintf("; %s behind it", english.Plural(run.Queued, "run", ""))
	}
	return f
}

// words returns a time in words, roughly.
func words(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return english.Plural(int(d.Seconds()), "second", "")
	case d < 2*time.Hour:
		return english.Plural(int(d.Minutes()), "minute", "")
	case d < 48*time.Hour:
		return english.Plural(int(d.Hours()), "hour", "")
	}
	return english.Plural(int(d.Hours()/24), "day", "")
}
