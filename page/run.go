package page

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// following is the runs of a pipeline, as the plans topic has them, and the one that is under way, or was last.
type following struct {
	queue  []string // the runs that wait behind it
	queued int
	now    *followed // nil: none is known
}

// followed is a run that is followed.
type followed struct {
	plan    *schemas.Plan
	chain   *protocol.Chain
	codec   protocol.Codec
	of      map[int]bool  // the partitions that each visit has
	shares  map[int][]int // the partitions of each share, by the first that the share may have
	end     *schemas.End  // nil: it goes on
	news    time.Time
	reports map[int]*schemas.StageReport
	parts   map[place]*part
	records wire.Collector[float64]
	failure string // why a worker can't make the visit that is due; empty: none has said so
	failed  wire.Digest
}

// place is what workers publish in parts: a visit, or the residuals of a stage.
type place struct{ stage, visit int }

// residuals is the visit of a place that has the residuals of a stage.
const residuals = -1

// part is what is published of a place.
type part struct {
	parent wire.Digest  // of a visit
	have   map[int]bool // partitions
	losses [examples.Splits]statistics.Losses
}

// reread is how often the plans are read anew, without a message: so it is found out what went by during an absence.
const reread = 30 * time.Second

// gathered is how long messages of the plans topic are gathered before what they say is looked at: a chain may make
// twenty versions a second.
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

// positions returns where to follow weights and statistics: at their ends.
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
	if first == nil { // the last run, which may have come and gone since the last look
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

// readRun reads what a run has published so far.
func (r *reader) readRun(ctx context.Context, f *followed) error {
	add := func(weights bool) func(m protocol.Message) error {
		return func(m protocol.Message) error {
			f.add(weights, m)
			return nil
		}
	}
	to, err := r.client.Now(ctx)
	if err != nil {
		return err
	}
	if err := r.client.Remaining(ctx, r.client.Topics.Weights, 0, f.plan.Since.Weights, to.Weights, add(true)); err != nil {
		return fmt.Errorf("read what run %s has published: %w", f.chain.Run, err)
	}
	if f.end != nil {
		return nil
	}
	for p, end := range to.Statistics {
		from := int64(0)
		if p < len(f.plan.Since.Statistics) {
			from = f.plan.Since.Statistics[p]
		}
		if err := r.client.Remaining(ctx, r.client.Topics.Statistics, p, from, end, add(false)); err != nil {
			return fmt.Errorf("read what run %s has published: %w", f.chain.Run, err)
		}
	}
	return nil
}

func newFollowed(plan *schemas.Plan, client *protocol.Client) *followed {
	f := &followed{
		plan: plan, chain: protocol.NewOutline(plan, client.Codec), codec: client.Codec, of: map[int]bool{}, shares: map[int][]int{},
		reports: map[int]*schemas.StageReport{}, parts: map[place]*part{}, records: wire.Collector[float64]{MaxBytes: maxIncomplete},
	}
	for _, share := range plan.Shares(plan.Partitions()) {
		f.shares[share.First] = share.Partitions
		for _, p := range share.Partitions {
			f.of[p] = true
		}
	}
	return f
}

// add takes a message of the weights topic, or of the statistics topic.
func (f *following) add(weights bool, m protocol.Message) {
	if f.now != nil && f.now.end == nil {
		f.now.add(weights, m)
	}
}

// add takes a message of the weights topic, or of the statistics topic. Messages that are damaged, of other runs, or
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
			maps.DeleteFunc(f.parts, func(at place, _ *part) bool { return at.stage == report.Stage && at.visit != residuals })
		}
	case weights:
		_, _ = f.chain.Add(m.Message) // who follows a run ignores damaged messages
	case kind == statistics.KindVisit:
		f.addVisit(m.Message)
	case kind == statistics.KindSeal:
		if id, err := wire.IdentityOf(m.Message); err == nil {
			f.publish(place{id.Stage, residuals}, "", f.shares[id.Partition])
		}
	case kind == schemas.KindFailure:
		if failure, err := schemas.DecodeJSON[schemas.Failure](m.Message); err == nil {
			f.failure, f.failed = failure.Reason, failure.Parent
		}
	}
}

// addVisit takes a part of a visit.
func (f *followed) addVisit(m wire.Message) {
	id, err := wire.IdentityOf(m)
	of := f.shares[id.Partition]
	if err != nil || len(of) == 0 {
		return
	}
	if id.Stage == wire.Survey {
		f.publish(place{wire.Survey, 0}, "", of)
		return
	}
	at := place{id.Stage, id.Visit}
	if id.Stage < 0 || id.Stage >= len(f.plan.Stages) || id.Visit < 0 || f.reports[id.Stage] != nil || f.parts[at].has(id.Parent, of[0]) {
		return
	}
	record, err := f.codec.CollectDouble(&f.records, m)
	if err != nil || record == nil {
		return
	}
	if p := f.publish(at, id.Parent, of); p != nil {
		for split, sums := range statistics.LossesOf(record.Tensors) {
			l := &p.losses[split]
			l.Weight, l.Rows, l.Errors, l.Loss = l.Weight+sums.Weight, l.Rows+sums.Rows, l.Errors+sums.Errors, l.Loss+sums.Loss
		}
	}
}

// has reports whether a partition of a visit with this parent is published.
func (p *part) has(parent wire.Digest, partition int) bool {
	return p != nil && p.parent == parent && p.have[partition]
}

// publish adds partitions to a place; it returns nil if there are too many places already. Parts of another solver's visit, with another
// parent, replace those of an earlier one.
func (f *followed) publish(at place, parent wire.Digest, partitions []int) *part {
	p := f.parts[at]
	if p == nil && len(f.parts) >= maxMeasures+len(f.plan.Stages) {
		return nil
	}
	if p == nil || p.parent != parent {
		p = &part{parent: parent, have: map[int]bool{}}
		f.parts[at] = p
	}
	for _, number := range partitions {
		p.have[number] = true
	}
	if len(p.have) == len(f.of) {
		p.have = f.of
	}
	return p
}

// passes returns what the whole visits of a stage have measured, in their order, and whether any part of one is published.
func (f *followed) passes(stage int) (list []Measure, begun bool) {
	for at, p := range f.parts {
		if at.stage != stage || at.visit == residuals {
			continue
		}
		if begun = true; len(p.have) == len(f.of) && p.losses[examples.Train].Rows > 0 {
			list = append(list, p.measure(at.visit))
		}
	}
	slices.SortFunc(list, func(a, b Measure) int { return a.Visit - b.Visit })
	return list, begun
}

// underWay reports whether the run goes on.
func (r *Run) underWay() bool { return r.State == stateWaiting || r.State == stateRunning }

// States of a run that has not ended.
const (
	stateWaiting = "waiting"
	stateRunning = "running"
)

// kindTrain is the kind of a run of no chain.
const kindTrain = "train"

// kindOf returns the kind of the run of a plan.
func kindOf(plan *schemas.Plan) string {
	switch {
	case plan.Chain == nil:
		return kindTrain
	case plan.Update() != nil:
		return schemas.RunUpdate
	}
	return schemas.RunFull
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
	} else if f.chain.Survey != nil || f.parts[place{wire.Survey, 0}] != nil {
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
		step := Step{Stage: t, Link: stage.Link, Block: blockOf(stage.Features), Most: stage.Passes, Done: f.reports[t]}
		if f.plan.Members() > 1 {
			step.Member = f.plan.Member(t) + 1
		}
		if u := f.plan.Update(); u != nil {
			step.Most = u.Passes
		}
		var begun bool
		step.Passes, begun = f.passes(t)
		step.Planned = step.Done == nil && !begun && f.end == nil && t > due.Stage
		s.Stages = append(s.Stages, step)
	}
	return s
}

// due returns which visit is due, and the stage whose residuals must be sealed before it, or [protocol.NoStage]. An
// update publishes no residuals.
func (f *followed) due() (v protocol.Visit, seal int) {
	if v, seal = f.chain.Due(); f.plan.Update() != nil {
		seal = protocol.NoStage
	}
	return v, seal
}

// have returns the partitions whose part of what is due is published. The solver of a small update needs none.
func (f *followed) have(due protocol.Visit, seal int) map[int]bool {
	switch {
	case f.end != nil, due.Stage >= len(f.plan.Stages) && seal == protocol.NoStage, f.plan.Update().IsLocal():
		return f.of
	case seal != protocol.NoStage:
		due = protocol.Visit{Stage: seal, Number: residuals}
	case due.Stage == wire.Survey:
		due = protocol.Visit{Stage: wire.Survey}
	}
	if p := f.parts[place{due.Stage, due.Number}]; p != nil && p.parent == due.Parent {
		return p.have
	}
	return nil
}

// measure returns what the visit has measured.
func (p *part) measure(visit int) Measure {
	of := func(split examples.Split) (err, loss *float64) {
		l := p.losses[split]
		if l.Rows == 0 {
			return nil, nil
		}
		e, o := wire.Finite(l.ErrorPercent()), wire.Finite(l.MeanLoss())
		return &e, &o
	}
	m := Measure{Visit: visit}
	m.TrainError, m.TrainLoss = of(examples.Train)
	m.TestError, m.TestLoss = of(examples.Test)
	m.HoldoutError, m.HoldoutLoss = of(examples.Holdout)
	return m
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

// pollStaff asks the brokers which processes work on the runs.
func (r *reader) pollStaff(ctx context.Context) error {
	var s Staff
	embedded, err := r.log.IsEmbedded(ctx)
	if err != nil {
		return err
	}
	s.Embedded = embedded
	s.Hidden = []string{}
	for _, group := range s.groups(r.client.Topics) {
		*group.members = []Worker{}
		owners, err := r.log.Owners(ctx, group.name)
		switch {
		case err == nil:
		case group.runs:
			s.Unknown = err.Error() // the rest of the page needs no such right
			continue
		default:
			s.Hidden = append(s.Hidden, group.role)
			continue
		}
		for _, o := range owners {
			*group.members = append(*group.members, worker(o))
		}
	}
	now := r.now()
	r.change(func() {
		r.staff, r.polled = s, true
		for _, group := range s.groups(r.client.Topics) {
			if len(*group.members) > 0 {
				r.last[group.role] = now
			}
		}
	})
	return nil
}

// group is the processes of a role.
type group struct {
	role, name string // name is that of its consumer group
	members    *[]Worker
	runs       bool   // its members take part in runs
	does       string // what a member without a part in runs does
}

// groups returns the processes by their roles.
func (s *Staff) groups(t protocol.Topics) []group {
	return []group{
		{protocol.RoleIngest, t.Ingesters(), &s.Ingesters, false, "ingests"}, {protocol.RoleWork, t.Workers(), &s.Workers, true, ""},
		{protocol.RoleSolve, t.Solvers(), &s.Solvers, true, ""}, {protocol.RoleRun, t.Runners(), &s.Runners, true, ""},
		{protocol.RoleScore, t.Scorers(), &s.Scorers, false, "predicts"}, {protocol.RoleServe, t.Servers(), &s.Servers, false, "answers"},
	}
}

// knows reports whether the processes are known.
func (r *reader) knows(staff *Staff) bool { return r.polled && staff.Unknown == "" && !staff.Embedded }

func worker(o kafkalog.Owner) Worker {
	// The coordinator puts the name of the client before a UUID: a few digits tell members of one host apart.
	_, id, _ := strings.Cut(o.ID, "-")
	return Worker{ID: id[:min(len(id), 8)], Host: o.Host, Partitions: append([]int{}, o.Partitions...)}
}

// working returns the processes that work on runs, and what they do in a run, or wait for. The page names no more than
// a few of what is missing.
func (r *reader) working(now *Run) Staff {
	s := r.staff
	s.Hidden = append([]string{}, s.Hidden...)
	idle := now == nil || !now.underWay()
	for _, group := range s.groups(r.client.Topics) {
		*group.members = append([]Worker{}, *group.members...)
		for i := range *group.members {
			switch w := &(*group.members)[i]; {
			case group.runs && idle:
				w.Waits = "waits for a run"
			case group.runs:
			case len(w.Partitions) == 0 && group.role != protocol.RoleServe:
				w.Waits = "stands by"
			case group.role == protocol.RoleIngest:
				w.Waits = group.does + " " + r.options.Source
			default:
				w.Waits = group.does
			}
		}
	}
	if idle {
		return s
	}
	f := r.follows.now
	due, seal := f.due()
	have := f.have(due, seal)
	what := event.VisitOf(due.Stage, due.Number, len(f.plan.Stages))
	if seal != protocol.NoStage {
		what = "the residuals of " + event.StageOf(seal, len(f.plan.Stages))
	}
	var behind []string // hosts of workers that have not published all of theirs
	for i := range s.Workers {
		w := &s.Workers[i]
		mine := 0
		for _, p := range w.Partitions {
			if f.of[p] {
				if mine++; have[p] {
					w.Have++
				}
			}
		}
		switch {
		case len(w.Partitions) == 0:
			w.Waits = "stands by: others own all partitions"
		case mine == 0:
			w.Waits = "waits: the run has nothing of its partitions"
		case w.Have < mine:
			w.Waits = fmt.Sprintf("works on %s: %d of %d partitions are published", what, w.Have, mine)
			behind = append(behind, w.Host)
		case now.Have == now.Of:
			w.Waits = "waits for the solver"
		default:
			w.Waits = "waits for other workers"
		}
	}
	for i := range s.Solvers {
		switch w := &s.Solvers[i]; {
		case len(w.Partitions) == 0:
			w.Waits = "stands by"
		case now.Have == now.Of:
			w.Waits = "solves"
		case len(behind) > 0:
			behind = slices.Compact(behind)
			w.Waits = "waits for " + english.OxfordWordSeries(behind[:min(len(behind), 3)], "and")
		default:
			w.Waits = "waits for workers"
		}
	}
	for i := range s.Runners {
		s.Runners[i].Waits = "waits for the run"
		if len(s.Runners[i].Partitions) == 0 {
			s.Runners[i].Waits = "stands by"
		}
	}
	return s
}

// waits says what the run waits for.
func (r *reader) waits(s *State) {
	now := s.Run
	if now == nil || !now.underWay() {
		return
	}
	partitions := func(do string) string {
		return fmt.Sprintf("%s of %s %s", english.Plural(now.Of-now.Have, "partition", ""), fmt.Sprint(now.Of), do)
	}
	staff := &s.Staff
	known := r.knows(staff)
	switch {
	case known && len(staff.Workers) == 0:
		now.Waits = "for a worker: no process runs stagewise work"
	case known && len(staff.Solvers) == 0:
		now.Waits = "for a solver: no process runs stagewise solve"
	case now.Sealing && now.Have < now.Of:
		now.Waits = "for residuals of " + partitions("")
	case now.Stage < 0 && now.Have < now.Of:
		now.Waits = "for workers to survey " + partitions("")
	case now.Stage >= len(now.Stages):
		now.Waits = "for its version to be written"
	case now.Have < now.Of:
		now.Waits = "for workers to visit " + partitions("")
	default:
		now.Waits = "for the solver"
	}
	now.Waits = strings.TrimSpace(now.Waits)
}
