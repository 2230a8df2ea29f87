package page

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// following has the runs of a pipeline according to the plans topic: the waiting runs, and the current or else the last one.
type following struct {
	queue  []string // the runs that wait behind it
	queued int
	now    *followed // nil: none is known
}

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

// reread is the interval at which the plans are read again without a message, to find messages that were missed during a disconnection.
const reread = 30 * time.Second

// gathered is the time for which messages of the plans topic are collected before they are processed: a chain may make
// twenty versions per second.
const gathered = 100 * time.Millisecond

// followRuns follows the plans, and the records of the run that is under way.
func (r *reader) followRuns(ctx context.Context) error {
	records, err := r.positions(ctx)
	if err != nil {
		return err
	}
	plans, err := r.client.FollowPlans(ctx, nil, nil, records...)
	if err != nil {
		return err
	}
	defer plans.Close()
	if err := r.apply(ctx, plans.Ledger); err != nil {
		return err
	}
	for due, waits := time.Now().Add(reread), false; ; {
		delivery, _, err := plans.Deliver(ctx, time.Until(due))
		if late := !time.Now().Before(due); err == nil && late {
			if !waits {
				err = plans.Renew(ctx, r.client.ReadLedger)
			}
			if err == nil {
				err = r.apply(ctx, plans.Ledger)
			}
			due, waits = time.Now().Add(reread), false
		}
		switch {
		case err != nil:
			return err
		case delivery == nil:
		case delivery.Topic != r.client.Topics.Plans:
			r.change(func() { r.follows.add(delivery.Topic == r.client.Topics.Weights, delivery.Message) })
		case !waits:
			due, waits = time.Now().Add(gathered), true
		}
	}
}

// positions returns the positions from which to follow weights and statistics: their ends.
func (r *reader) positions(ctx context.Context) ([]protocol.Position, error) {
	since, err := r.client.Now(ctx)
	if err != nil {
		return nil, err
	}
	positions := []protocol.Position{{Topic: r.client.Topics.Weights, Offset: since.Weights, Compacted: true}}
	for p, end := range since.Statistics {
		positions = append(positions, protocol.Position{Topic: r.client.Topics.Statistics, Partition: p, Offset: end, Compacted: true})
	}
	return positions, nil
}

// apply updates the versions and the current run from the plans topic. The records of a run are read when it becomes the current one, and
// later ones as they arrive; a record that is read twice changes nothing.
func (r *reader) apply(ctx context.Context, l *protocol.Ledger) error {
	var first *followed
	var queue []string
	queued := 0
	for id, plan := range l.Unfinished() {
		switch {
		case first == nil:
			first = newFollowed(plan, r.client)
		case len(queue) < maxQueue:
			queue = append(queue, id)
			fallthrough
		default:
			queued++
		}
	}
	r.mutex.Lock()
	now := r.follows.now
	r.mutex.Unlock()
	if first == nil { // the last run, which may have begun and ended since the last update
		var last *schemas.Plan
		for id, plan := range l.Runs() {
			if l.End(id) != nil {
				last = plan
			}
		}
		if last != nil && (now == nil || last.Run() != now.chain.Run) {
			first = newFollowed(last, r.client)
			first.end = l.End(first.chain.Run)
		}
	}
	if first != nil && (now == nil || now.chain.Run != first.chain.Run) {
		if err := r.readRun(ctx, first); err != nil {
			return err
		}
		now = first
	}
	r.change(func() {
		if now != nil && now.end == nil {
			if now.end = l.End(now.chain.Run); now.end != nil {
				now.news = r.now()
			}
		}
		r.follows, r.errors[partRuns] = following{queue, queued, now}, nil
		r.places, r.offered, r.pinned = l.Versions(), "", ""
		if p := l.Offered(); p != nil {
			r.offered = p.Run
		}
		if p := l.Pinned(); p != nil {
			r.pinned = p.Run
		}
	})
	select {
	case r.more <- struct{}{}:
	default:
	}
	return nil
}

// readRun reads the records that a run has published so far.
func (r *reader) readRun(ctx context.Context, f *followed) error {
	add := func(weights bool, messages iter.Seq2[protocol.Message, error]) error {
		for m, err := range messages {
			if err != nil {
				return fmt.Errorf("read what run %s has published: %w", f.chain.Run, err)
			}
			f.add(weights, m)
		}
		return nil
	}
	to, err := r.client.Now(ctx)
	if err != nil {
		return err
	}
	if err := add(true, r.client.Remaining(ctx, r.client.Topics.Weights, 0, f.plan.Since.Weights, to.Weights)); err != nil {
		return err
	}
	if f.end != nil {
		return nil
	}
	for p, end := range to.Statistics {
		from := int64(0)
		if p < len(f.plan.Since.Statistics) {
			from = f.plan.Since.Statistics[p]
		}
		if err := add(false, r.client.Remaining(ctx, r.client.Topics.Statistics, p, from, end)); err != nil {
			return err
		}
	}
	return nil
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

// add processes a message of the weights topic, or of the statistics topic.
func (f *following) add(weights bool, m protocol.Message) {
	if f.now != nil && f.now.end == nil {
		f.now.add(weights, m)
	}
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
func (r *Run) underWay() bool { return r.State == stateWaiting || r.State == stateRunning }

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
func (f *following) state() *Run {
	if f.now == nil {
		return nil
	}
	s := f.now.state()
	s.Queue, s.Queued = append([]string{}, f.queue...), f.queued
	return s
}

func (f *followed) state() *Run {
	due, seal := f.due()
	s := &Run{
		ID: f.chain.Run, Kind: kindOf(f.plan), State: stateWaiting, Stage: due.Stage, Visit: due.Number, Of: len(f.of),
		News:    milliseconds(f.news),
		Sealing: seal != protocol.NoStage && f.end == nil, Missing: []int{},
	}
	if f.end != nil {
		s.State, s.Reason, s.Stage = f.end.State, f.end.Reason, len(f.plan.Stages)
	} else if f.chain.Survey != nil || len(f.parts) > 0 {
		s.State = stateRunning
	}
	have := f.have(due, seal)
	for p := range f.of {
		switch {
		case have[p]:
			s.Have++
		default:
			s.Missing = append(s.Missing, p)
		}
	}
	slices.Sort(s.Missing)
	s.Missing = s.Missing[:min(len(s.Missing), maxMissing)]
	for t, stage := range f.plan.Stages {
		step := Step{Stage: t, Link: stage.Link, Block: blockOf(stage.Features), Most: stage.Passes, Done: f.reports[t],
			Planned: f.reports[t] == nil && f.end == nil && t > due.Stage}
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

// blockOf describes the features of a stage.
func blockOf(f schemas.Features) string {
	if f.Size == 0 {
		return "all " + f.Kind
	}
	return fmt.Sprintf("%d %s", f.Size, f.Kind)
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
	s := Staff{Embedded: embedded, Hidden: []string{}, Members: map[string][]Worker{}}
	for _, role := range roles() {
		switch owners, err := r.log.Owners(ctx, r.client.Topics.Group(role)); {
		case err != nil && inRuns(role):
			s.Unknown = err.Error() // the rest of the page needs no such right
		case err != nil:
			s.Hidden = append(s.Hidden, role)
		default:
			for _, o := range owners {
				s.Members[role] = append(s.Members[role], worker(o))
			}
		}
	}
	now := r.now()
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

func worker(o kafkalog.Owner) Worker {
	// The coordinator puts the name of the client before a UUID: a few digits tell members of one host apart.
	_, id, _ := strings.Cut(o.ID, "-")
	return Worker{ID: id[:min(len(id), 8)], Host: o.Host, Partitions: append([]int{}, o.Partitions...)}
}

// working returns the processes, and what they do in a run, or wait for. The page names no more than a few of what is missing.
func (r *reader) working(now *Run) Staff {
	s := r.staff
	s.Hidden, s.Members = append([]string{}, s.Hidden...), map[string][]Worker{}
	idle := now == nil || !now.underWay()
	var behind []string // hosts of workers that have not published all of their parts
	for _, role := range roles() {
		for _, w := range r.staff.Members[role] {
			switch {
			case idle && inRuns(role):
				w.Waits = "waits for a run"
			case role == protocol.RoleWork:
				if r.work(&w, now) {
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

// work sets the number of due parts that a worker has published, and reports whether any is missing.
func (r *reader) work(w *Worker, now *Run) (lacks bool) {
	f := r.follows.now
	due, seal := f.due()
	have, of := f.have(due, seal), 0
	for _, p := range w.Partitions {
		if f.of[p] {
			if of++; have[p] {
				w.Have++
			}
		}
	}
	what := event.VisitOf(due.Stage, due.Number, len(f.plan.Stages))
	if seal != protocol.NoStage {
		what = "the residuals of " + event.StageOf(seal, len(f.plan.Stages))
	}
	switch {
	case len(w.Partitions) == 0:
		w.Waits = "stands by: others own all partitions"
	case of == 0:
		w.Waits = "waits: the run has nothing of its partitions"
	case w.Have < of:
		w.Waits = fmt.Sprintf("works on %s: %d of %d partitions are published", what, w.Have, of)
	case now.Have == now.Of:
		w.Waits = "waits for the solver"
	default:
		w.Waits = "waits for other workers"
	}
	return w.Have < of
}

// waits describes what the run waits for.
func (r *reader) waits(s *State) {
	now := s.Run
	if now == nil || !now.underWay() {
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
