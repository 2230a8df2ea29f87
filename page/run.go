package page

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// followed is a run that is followed.
type followed struct {
	plan    *schemas.Plan
	chain   *protocol.Chain
	of      map[int]bool  // the partitions that each visit has
	shares  map[int][]int // the partitions of each share, by the first that the share may have
	end     *schemas.End  // nil: the run has not ended
	news    time.Time
	reports map[int]*schemas.StageReport
	parts   map[place]map[int]bool // the partitions whose part is published
	failure string                 // why a worker can't make the due visit; empty: no worker has failed
	failed  wire.Digest
}

// place is what workers publish in parts: a visit, or the residuals of a stage.
type place struct {
	stage, visit int
	parent       wire.Digest // of a visit
}

// residuals is the visit of a place that has the residuals of a stage.
const residuals = -1

// reread is the time without a message after which the plans are read again, to find messages that were missed during a disconnection.
const reread = 30 * time.Second

// followRuns follows the plans, and the records of the run that is under way.
func (r *reader) followRuns(ctx context.Context) error {
	since, err := r.client.Now(ctx)
	if err != nil {
		return err
	}
	records := []protocol.Position{{Topic: r.client.Topics.Weights, Offset: since.Weights, Compacted: true}}
	for p, end := range since.Statistics {
		records = append(records, protocol.Position{Topic: r.client.Topics.Statistics, Partition: p, Offset: end, Compacted: true})
	}
	plans, err := r.client.FollowPlans(ctx, nil, nil, records...)
	if err != nil {
		return err
	}
	defer plans.Close()
	for err = r.apply(ctx, plans.Ledger); err == nil; {
		delivery, late, failure := plans.Deliver(ctx, reread)
		if err = failure; err == nil && late {
			err = plans.Renew(ctx, r.client.ReadLedger)
		}
		switch {
		case err != nil:
		case late || delivery != nil && delivery.Topic == r.client.Topics.Plans:
			err = r.apply(ctx, plans.Ledger)
		case delivery != nil && r.now != nil: // reports of stages precede the end of the run, but on another topic
			r.change(func() { r.now.add(delivery.Topic == r.client.Topics.Weights, delivery.Message) })
		}
	}
	return err
}

// apply updates the versions and the current run from the plans topic. The records of a run are read when it becomes the current one, and
// later ones as they arrive; a record that is read twice changes nothing.
func (r *reader) apply(ctx context.Context, l *protocol.Ledger) error {
	var first *schemas.Plan
	var queue []string
	for id, plan := range l.Unfinished() {
		if first == nil {
			first = plan
		} else {
			queue = append(queue, id)
		}
	}
	if first == nil { // the last run, which may have begun and ended since the last update
		for _, first = range l.Runs() {
		}
	}
	now := r.now // only this goroutine changes it
	if first != nil && (now == nil || now.chain.Run != first.Run()) {
		now = newFollowed(first, r.client)
		now.end = l.End(now.chain.Run)
		if err := r.readRun(ctx, now); err != nil {
			return err
		}
	}
	r.change(func() {
		if now != nil && now.end == nil {
			if now.end = l.End(now.chain.Run); now.end != nil {
				now.news = r.clock()
			}
		}
		r.now, r.queue, r.errors[partRuns] = now, queue, nil
		r.places, r.offered, r.pinned = l.Versions(), "", ""
		if p := l.Offered(); p != nil {
			r.offered = p.Run
		}
		if p := l.Pinned(); p != nil {
			r.pinned = p.Run
		}
	})
	return nil
}

// readRun reads the records that a run has published so far.
func (r *reader) readRun(ctx context.Context, f *followed) error {
	read := func(topic string, partition int, from int64) error {
		for m, err := range r.client.Remaining(ctx, topic, partition, from, math.MaxInt64) {
			if err != nil {
				return fmt.Errorf("read what run %s has published: %w", f.chain.Run, err)
			}
			f.add(topic == r.client.Topics.Weights, m)
		}
		return nil
	}
	if err := read(r.client.Topics.Weights, 0, f.plan.Since.Weights); err != nil || f.end != nil {
		return err
	}
	spans, err := r.client.Log.Spans(ctx, r.client.Topics.Statistics)
	for p, span := range spans {
		if p < len(f.plan.Since.Statistics) {
			span.From = f.plan.Since.Statistics[p]
		}
		if err := read(r.client.Topics.Statistics, p, span.From); err != nil {
			return err
		}
	}
	return err
}

func newFollowed(plan *schemas.Plan, client *protocol.Client) *followed {
	f := &followed{
		plan: plan, chain: protocol.NewOutline(plan, client.Memory), of: map[int]bool{}, shares: map[int][]int{},
		reports: map[int]*schemas.StageReport{}, parts: map[place]map[int]bool{},
	}
	for _, share := range plan.Shares(plan.Partitions()) {
		f.shares[share.First] = share.Partitions
		for _, p := range share.Partitions {
			f.of[p] = true
		}
	}
	return f
}

// add processes a message of the weights topic, or of the statistics topic. Messages that are damaged, of other runs, or
// were taken before change nothing.
func (f *followed) add(weights bool, m protocol.Message) {
	if m.Run() != f.chain.Run {
		return
	}
	if m.Time.After(f.news) {
		f.news = m.Time
	}
	switch kind := m.Kind(); {
	case weights && kind == schemas.KindStage:
		if report, err := schemas.DecodeJSON[schemas.StageReport](m.Message); err == nil {
			f.reports[report.Stage] = report
		}
	case weights:
		if grown, _ := f.chain.Add(m.Message); grown { // readers of a run ignore damaged messages
			past := func(at place, _ map[int]bool) bool { return at.parent != f.chain.Head() && f.chain.Has(at.parent) }
			maps.DeleteFunc(f.parts, past)
		}
	case kind == statistics.KindVisit || kind == statistics.KindSeal:
		if id, err := wire.IdentityOf(m.Message); err == nil && kind == statistics.KindVisit {
			f.publish(place{id.Stage, id.Visit, id.Parent}, f.shares[id.Partition])
		} else if err == nil {
			f.publish(place{stage: id.Stage, visit: residuals}, f.shares[id.Partition])
		}
	case kind == schemas.KindFailure:
		if failure, err := schemas.DecodeJSON[schemas.Failure](m.Message); err == nil {
			f.failure, f.failed = failure.Reason, failure.Parent
		}
	}
}

// publish adds partitions to a place, unless there are too many places already.
func (f *followed) publish(at place, partitions []int) {
	if f.parts[at] == nil && len(f.parts) < maxPlaces+len(f.plan.Stages) {
		f.parts[at] = map[int]bool{}
	}
	for _, number := range partitions {
		if have := f.parts[at]; have != nil {
			have[number] = true
		}
	}
}

// underWay reports whether the run has not ended.
func (r *Run) underWay() bool {
	return r != nil && (r.State == stateWaiting || r.State == stateRunning)
}

// States of a run that has not ended.
const (
	stateWaiting = "waiting"
	stateRunning = "running"
)

// kindTrain is the kind of a run outside a chain.
const kindTrain = "train"

// kindOf returns the kind of the run of a plan.
func kindOf(plan *schemas.Plan) string {
	if plan.Chain == nil {
		return kindTrain
	}
	return plan.Kind()
}

// state returns the run for the page.
func (f *followed) state() *Run {
	due, seal := f.due()
	s := &Run{
		ID: f.chain.Run, Kind: kindOf(f.plan), State: stateWaiting, Stage: due.Stage, Visit: due.Number, Of: len(f.of),
		News: milliseconds(f.news), Sealing: seal != protocol.NoStage && f.end == nil, Missing: []int{},
	}
	if f.end != nil {
		s.State, s.Reason, s.Stage = f.end.State, f.end.Reason, len(f.plan.Stages)
	} else if f.chain.Survey != nil || len(f.parts) > 0 {
		s.State = stateRunning
	}
	have := f.have(due, seal)
	for _, p := range slices.Sorted(maps.Keys(f.of)) {
		if have[p] {
			s.Have++
		} else if len(s.Missing) < maxMissing {
			s.Missing = append(s.Missing, p)
		}
	}
	for t, stage := range f.plan.Stages {
		step := Step{Stage: t, Link: stage.Link, Block: fmt.Sprintf("%d %s", stage.Features.Size, stage.Features.Kind), Most: stage.Passes,
			Done: f.reports[t], Planned: f.reports[t] == nil && f.end == nil && t > due.Stage}
		if stage.Features.Size == 0 {
			step.Block = "all " + stage.Features.Kind
		}
		if step.Done == nil { // its report has them
			step.Passes = f.chain.Passes(t)
		}
		if f.plan.Members() > 1 {
			step.Member = f.plan.Member(t) + 1
		}
		if u := f.plan.Update(); u != nil {
			step.Most = u.Passes
		}
		s.Stages = append(s.Stages, step)
	}
	return s
}

// due returns the visit that is due, and the stage whose residuals must be sealed before it, or [protocol.NoStage]. An
// update publishes no residuals.
func (f *followed) due() (v protocol.Visit, seal int) {
	if v, seal = f.chain.Due(); f.plan.Update() != nil {
		seal = protocol.NoStage
	}
	return v, seal
}

// have returns the partitions whose part of the due visit, or of the due residuals, is published. A small update's solver needs none.
func (f *followed) have(due protocol.Visit, seal int) map[int]bool {
	switch {
	case f.end != nil, due.Stage >= len(f.plan.Stages) && seal == protocol.NoStage, f.plan.Update().IsLocal():
		return f.of
	case seal != protocol.NoStage:
		return f.parts[place{stage: seal, visit: residuals}]
	}
	return f.parts[place{due.Stage, due.Number, due.Parent}]
}

// milliseconds returns a time in milliseconds since 1970; 0 for the zero time.
func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// roles returns the roles of processes, in the order of the page. Workers come before the solvers that wait for them.
func roles() []string {
	return []string{protocol.RoleIngest, protocol.RoleWork, protocol.RoleSolve, protocol.RoleRun, protocol.RoleScore, protocol.RoleServe}
}

// inRuns reports whether the processes of a role take part in runs.
func inRuns(role string) bool {
	return role == protocol.RoleWork || role == protocol.RoleSolve || role == protocol.RoleRun
}

// pollStaff asks the brokers which processes work on the runs.
func (r *reader) pollStaff(ctx context.Context) error {
	embedded, err := r.log.IsEmbedded(ctx)
	if err != nil {
		return err
	}
	s, now := Staff{Embedded: embedded, Hidden: []string{}, Members: map[string][]Worker{}}, r.clock()
	for _, role := range roles() {
		owners, err := r.log.Owners(ctx, r.client.Topics.Group(role))
		switch {
		case err != nil && inRuns(role):
			s.Unknown = err.Error() // the rest of the page needs no such right
		case err != nil:
			s.Hidden = append(s.Hidden, role)
		}
		for _, o := range owners {
			// The coordinator puts the name of the client before a UUID: a few digits tell members of one host apart.
			_, id, _ := strings.Cut(o.ID, "-")
			s.Members[role] = append(s.Members[role], Worker{ID: id[:min(len(id), 8)], Host: o.Host, Partitions: append([]int{}, o.Partitions...)})
		}
	}
	r.change(func() {
		r.staff, r.polled = s, true
		for role := range s.Members {
			r.last[role] = now
		}
	})
	return nil
}

// knows reports whether the processes are known.
func (r *reader) knows(staff *Staff) bool { return r.polled && staff.Unknown == "" && !staff.Embedded }

// working returns the processes, and what they do in a run, or wait for. The page names no more than a few of what is missing.
func (r *reader) working(now *Run) Staff {
	s := r.staff
	s.Members = map[string][]Worker{}
	var behind []string // hosts of workers that have not published all of their parts
	for _, role := range roles() {
		for _, w := range r.staff.Members[role] {
			switch {
			case !now.underWay() && inRuns(role):
				w.Waits = "waits for a run"
			case role == protocol.RoleWork:
				var lacks bool
				if w.Waits, lacks = r.now.work(w.Partitions, now.Have == now.Of); lacks {
					behind = append(behind, w.Host)
				}
			case len(w.Partitions) == 0 && role != protocol.RoleServe:
				w.Waits = "stands by"
			case role == protocol.RoleIngest:
				w.Waits = "ingests " + r.options.Source
			case role == protocol.RoleScore:
				w.Waits = "predicts"
			case role == protocol.RoleServe:
				w.Waits = "answers"
			case role == protocol.RoleRun:
				w.Waits = "waits for the run"
			case now.Have == now.Of:
				w.Waits = "solves"
			case len(behind) > 0:
				behind = slices.Compact(behind)
				w.Waits = "waits for " + english.WordSeries(behind[:min(len(behind), 3)], "and")
			default:
				w.Waits = "waits for workers"
			}
			s.Members[role] = append(s.Members[role], w)
		}
	}
	return s
}

// work returns what a worker with these partitions does or waits for, and whether a part that is due lacks. whole reports whether other
// workers have published all parts too.
func (f *followed) work(partitions []int, whole bool) (waits string, lacks bool) {
	due, seal := f.due()
	have, of, published := f.have(due, seal), 0, 0
	for _, p := range partitions {
		if f.of[p] {
			if of++; have[p] {
				published++
			}
		}
	}
	switch {
	case len(partitions) == 0:
		return "stands by: others own all partitions", false
	case of == 0:
		return "waits: the run has nothing of its partitions", false
	case published == of && whole:
		return "waits for the solver", false
	case published == of:
		return "waits for other workers", false
	}
	what := event.VisitOf(due.Stage, due.Number, len(f.plan.Stages))
	if seal != protocol.NoStage {
		what = "the residuals of " + event.StageOf(seal, len(f.plan.Stages))
	}
	return fmt.Sprintf("works on %s: %d of %d partitions are published", what, published, of), true
}

// waits describes what the run waits for.
func (r *reader) waits(s *State) {
	now := s.Run
	if !now.underWay() {
		return
	}
	missing := fmt.Sprintf("%s of %d", english.Plural(now.Of-now.Have, "partition", ""), now.Of)
	known := r.knows(&s.Staff)
	switch {
	case known && len(s.Staff.Members[protocol.RoleWork]) == 0:
		now.Waits = "for a worker: no process runs stagewise work"
	case known && len(s.Staff.Members[protocol.RoleSolve]) == 0:
		now.Waits = "for a solver: no process runs stagewise solve"
	case now.Sealing && now.Have < now.Of:
		now.Waits = "for residuals of " + missing
	case now.Stage < 0 && now.Have < now.Of:
		now.Waits = "for workers to survey " + missing
	case now.Stage >= len(now.Stages):
		now.Waits = "for its version to be written"
	case now.Have < now.Of:
		now.Waits = "for workers to visit " + missing
	default:
		now.Waits = "for the solver"
	}
}
