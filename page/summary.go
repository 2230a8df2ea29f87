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

// summary returns the answers to the first questions of an operator.
func (r *reader) summary(s *State) Summary {
	m := Summary{Pipeline: r.options.Name, Brokers: r.options.Brokers, Needs: []Need{},
		Facts: []Fact{r.behind(s), errorOf(s), r.offeredOf(s), underWay(s)}}
	need := func(level Level, about, format string, values ...any) {
		m.Needs = append(m.Needs, Need{level, fmt.Sprintf(format, values...), about})
	}
	if quiet := r.now().Sub(r.heard); quiet > max(10*time.Second, 5*r.options.every()) {
		need(Trouble, aboutFlow, "The brokers have not answered for %s. The page may be older than that.", words(quiet))
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
				need(Notice, aboutFlow, "Part of this page is empty: %v.", err)
			default:
				need(Trouble, aboutFlow, "Part of this page may be old: %v.", err)
			}
			told[err.Error()] = true
		}
	}
	if r.absent {
		need(Notice, aboutFlow, "The pipeline has no topics yet: stagewise train or stagewise run creates them.")
	}
	needsOfRun(s, r, need)
	r.needsOfProcesses(s, need)
	needsOfVersions(s, need)
	if recent := r.topics.bad; recent > 0 {
		common := ""
		if len(s.Quarantine.Reasons) > 0 {
			common = fmt.Sprintf(" Most common reason: %s.", s.Quarantine.Reasons[0].Reason)
		}
		need(Notice, aboutQuarantine, "%s %s could not be used in the last hour.%s", humanize.Comma(recent),
			english.PluralWord(int(recent), "message", ""), common)
	}
	slices.SortStableFunc(m.Needs, func(a, b Need) int { return cmp.Compare(b.Level, a.Level) }) // trouble, notice
	m.Level, m.Verdict = verdict(m.Needs, s)
	return m
}

// verdict says in a sentence whether all is well.
func verdict(needs []Need, s *State) (Level, string) {
	problems, warnings := 0, 0
	for _, n := range needs {
		if n.Level == Trouble {
			problems++
		} else {
			warnings++
		}
	}
	switch {
	case problems == 1:
		return Trouble, "One problem needs action."
	case problems > 1:
		return Trouble, fmt.Sprintf("%d problems need action.", problems)
	case s.Run == nil && len(s.Versions) == 0:
		level, text := Good, "Nothing has run yet."
		if warnings > 0 {
			level = Notice
		}
		if len(s.Staff.Members[protocol.RoleRun]) > 0 {
			text = "Waiting for the first examples."
		}
		return level, text
	case warnings == 1:
		return Notice, "No problems, one warning."
	case warnings > 1:
		return Notice, fmt.Sprintf("No problems, %d warnings.", warnings)
	}
	return Good, "All is well."
}

// needsOfRun adds the problems of a run.
func needsOfRun(s *State, r *reader, need func(level Level, about, format string, values ...any)) {
	run := s.Run
	switch {
	case run == nil:
		return
	case run.State == schemas.Failed:
		need(Trouble, aboutRun, "Run %s failed: %s.", run.ID, run.Reason)
		return
	case !run.underWay():
		return
	}
	f := r.follows.now
	if due, _ := f.due(); f.failure != "" && f.failed == due.Parent {
		need(Notice, aboutRun, "A worker can't make the current visit: %s.", f.failure)
	}
	if r.knows(&s.Staff) && (run.Kind == kindTrain || len(s.Staff.Members[protocol.RoleRun]) > 0) { // a runner works and solves too
		for _, role := range []string{protocol.RoleWork, protocol.RoleSolve} {
			if len(s.Staff.Members[role]) == 0 {
				need(Trouble, aboutStaff, "Run %s is waiting: no process runs stagewise %s.", run.ID, role)
			}
		}
	}
	if quiet := r.now().Sub(time.UnixMilli(run.News)); run.News > 0 && quiet > silent {
		need(Notice, aboutRun, "Run %s has made no progress for %s. It is waiting %s.", run.ID, words(quiet), run.Waits)
	}
}

// needsOfProcesses adds the roles that no process has.
func (r *reader) needsOfProcesses(s *State, need func(level Level, about, format string, values ...any)) {
	staff := &s.Staff
	if !r.polled || staff.Unknown != "" {
		return
	}
	lag, _ := r.topics.behind()
	var waits []string
	if r.topics.waits > 0 {
		waits = append(waits, waiting(r.topics.waits, r.options.Source))
	}
	if lag > 0 {
		waits = append(waits, waiting(lag, r.topics.of(roleExamples).name))
	}
	chain, told := s.isChain(), false // a runner ingests too
	switch left := r.gone(protocol.RoleRun); {
	case len(staff.Members[protocol.RoleRun]) > 0:
	case staff.Embedded && left == "": // the broker's own process may do it, as a member of no group
	case chain && len(waits) > 0:
		told = true
		need(Trouble, aboutStaff, "No process runs stagewise run, and %s.", strings.Join(waits, " and "))
	case chain && s.Run.underWay():
		need(Trouble, aboutStaff, "Run %s is waiting: no process runs stagewise run.", s.Run.ID)
	case left != "":
		need(Notice, aboutStaff, "No process runs stagewise run: the last one was seen %s ago.", left)
	}
	ingested := staff.Embedded || len(staff.Members[protocol.RoleIngest])+len(staff.Members[protocol.RoleRun]) > 0 ||
		slices.Contains(staff.Hidden, protocol.RoleIngest)
	if r.topics.waits > 0 && !ingested && !told {
		need(Trouble, aboutStaff, "%s, and no process ingests them.", waiting(r.topics.waits, r.options.Source))
	}
	for _, role := range []string{protocol.RoleScore, protocol.RoleServe} {
		if left := r.gone(role); left != "" && len(staff.Members[role]) == 0 {
			need(Trouble, aboutStaff, "No process runs stagewise %s: the last one was seen %s ago.", role, left)
		}
	}
}

// isChain reports whether stagewise run makes the versions. Plans of its past runs may be gone.
func (s *State) isChain() bool {
	switch {
	case s.Run != nil:
		return s.Run.Kind != kindTrain
	case len(s.Versions) > 0:
		return s.Versions[len(s.Versions)-1].Kind != kindTrain
	}
	return false
}

// gone returns the time since a process of a role was last seen, in words; "" if none was ever seen.
func (r *reader) gone(role string) string {
	if last, seen := r.last[role]; seen {
		return words(r.now().Sub(last))
	}
	return ""
}

// waiting describes the number of messages that wait on a topic.
func waiting(messages int64, topic string) string {
	return humanize.Comma(messages) + " " + english.PluralWord(int(messages), "message waits", "messages wait") + " on " + topic
}

// needsOfVersions adds the problems of versions.
func needsOfVersions(s *State, need func(level Level, about, format string, values ...any)) {
	if len(s.Versions) == 0 {
		return
	}
	newest, withheld := s.Versions[len(s.Versions)-1], 0
	var out *Version
	for i := range s.Versions {
		v := &s.Versions[i]
		if withheld++; v.Offered {
			withheld = 0
		}
		if v.Latest {
			out = v
		}
	}
	switch keeps := "nothing"; {
	case withheld > 0:
		if out != nil {
			keeps = fmt.Sprintf("version %d", out.Version)
		}
		level := Notice
		if withheld > 1 {
			level = Trouble
		}
		what, why := english.PluralWord(withheld, "version", fmt.Sprintf("%d versions", withheld)), ""
		if newest.AtLeast > 0 {
			why = fmt.Sprintf(" They have learnt from fewer than %s rows, as the log has lost others: set retrain.accept_loss, or pin a "+
				"version, if you want them.", humanize.Comma(newest.AtLeast))
		}
		need(level, aboutVersions, "The gate withholds the newest %s. Subscribers keep %s.%s", what, keeps, why)
	case out != nil && out.Pinned && out.Version != newest.Version:
		need(Notice, aboutVersions, "Version %d is pinned, so subscribers do not get the newest version, %d.", out.Version, newest.Version)
	}
	if newest.MostlyBad {
		need(Trouble, aboutQuarantine, "Most messages of version %d were unusable. Has a producer changed its format?", newest.Version)
	}
	if newest.Drift {
		need(Notice, aboutError, "Drift alarm: the stream changed at version %d.", newest.Version)
	}
	if newest.UnknownRows > 0 {
		need(Notice, aboutVersions, "%s of version %d have a label that is not a class.", english.Plural(int(newest.UnknownRows), "row", ""),
			newest.Version)
	}
}

// behind returns the fact about the lag of the versions behind the examples. Messages of the source topic and those of the examples,
// which are batches of rows, are not added: each has its topic.
func (r *reader) behind(s *State) Fact {
	f := Fact{Question: "How far behind?", Answer: "Not known", About: aboutFlow}
	var parts []string
	known, rate := false, 0.0
	for _, t := range s.Topics { // the source topic comes before the examples
		if t.Role != roleSource && t.Role != roleExamples || t.Lag == nil {
			continue
		}
		if !known {
			f.Answer, rate, known = "Up to date", t.Rate, true
		}
		if *t.Lag == 0 {
			continue
		}
		count := humanize.Comma(*t.Lag) + " " + english.PluralWord(int(*t.Lag), "message", "")
		wait, until := english.PluralWord(int(*t.Lag), "waits", "wait"), "learnt"
		if t.Role == roleSource {
			until = "ingested"
		}
		if len(parts) == 0 {
			f.Answer = count
		} else {
			wait = count + " (" + english.PluralWord(int(*t.Lag), "a batch", "batches") + " of rows) " + wait
		}
		parts = append(parts, fmt.Sprintf("%s on %s to be %s", wait, t.Name, until))
	}
	if !known {
		return f
	}
	f.Detail = strings.Join(append(parts, coming(rate)), "; ")
	return f
}

// coming describes the number of messages that arrive per second.
func coming(rate float64) string {
	switch {
	case rate == 0:
		return "no new messages are arriving"
	case rate < 10:
		return fmt.Sprintf("%.1f arriving per second", rate)
	}
	return humanize.Comma(int64(rate+0.5)) + " arriving per second"
}

// errorOf returns the fact about the error.
func errorOf(s *State) Fact {
	f := Fact{Question: "What is the error?", Answer: "Not known", Detail: "no version has been made", About: aboutError}
	measured := func(v *Version, err *float64, of string) bool {
		if err != nil {
			f.Answer, f.Detail, f.When, f.Since = percent(*err), of, "made", v.Written
		}
		return err != nil
	}
	// A full version of a chain learns only rows that were predicted before: the update before it has their error.
	for i := len(s.Versions) - 1; i >= max(0, len(s.Versions)-2); i-- {
		v := &s.Versions[i]
		if measured(v, v.PrequentialError, fmt.Sprintf("on new rows, before version %d learnt them", v.Version)) {
			return f
		}
	}
	if len(s.Versions) > 0 {
		v := &s.Versions[len(s.Versions)-1]
		_ = measured(v, v.TestError, fmt.Sprintf("of test rows, version %d", v.Version)) ||
			measured(v, v.HoldoutError, fmt.Sprintf("of holdout rows, version %d", v.Version)) ||
			measured(v, v.TrainError, fmt.Sprintf("of the training rows of version %d", v.Version))
	}
	return f
}

func percent(v float64) string { return fmt.Sprintf("%.2f %%", v) }

// offeredOf returns the fact about the version that subscribers get. It may not be described yet.
func (r *reader) offeredOf(s *State) Fact {
	f := Fact{Question: "Which version is in use?", Answer: "None", Detail: "no version is offered yet", About: aboutVersions}
	if at := slices.IndexFunc(r.places, func(p schemas.Place) bool { return p.Run == r.latest() }); at >= 0 {
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
	if run == nil {
		return f
	}
	if !run.underWay() {
		f.Detail, f.When, f.Since = fmt.Sprintf("last run %s is %s", run.ID, run.State), "ended", run.News
		return f
	}
	switch {
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
