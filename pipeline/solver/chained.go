package solver

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
)

// Store is what a solver's process keeps in memory from one run of a chain to the next: the sums that the next run goes on from, which are
// also on the state topic, and memory of the same sizes as the next run needs. The zero value is empty. A store is safe for concurrent use.
type Store struct {
	mutex   sync.Mutex
	head    *head
	scratch *scratch
}

// scratch is memory of megabytes, which would otherwise be mapped and cleared in each run.
type scratch struct {
	grams   accumulate.BufferPool
	factors [2]solve.Buffer // of the stages in turn: those of the stage before may still be in use
}

// lend returns memory that nobody else uses, until it is given back.
func (s *Store) lend() *scratch {
	if s == nil {
		return &scratch{}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	lent := s.scratch
	if s.scratch = nil; lent == nil {
		lent = &scratch{}
	}
	return lent
}

// giveBack takes memory that was lent.
func (s *Store) giveBack(lent *scratch) {
	if s == nil {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.scratch = lent
}

// head is the end of a chain.
type head struct {
	window  *schemas.Window
	moments []*solve.Moments // of each stage
}

// take returns the sums after a run, and empties the store: who goes on from them changes them.
func (s *Store) take(run string) *head {
	if s == nil {
		return nil
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	h := s.head
	if h == nil || h.window.Run != run {
		return nil
	}
	s.head = nil
	return h
}

func (s *Store) put(h *head) {
	if s == nil {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.head = h
}

// chained is what a solver keeps of a run of a chain, beside what it keeps of any run.
type chained struct {
	before      *head                 // what an update goes on from
	beforeAt    *schemas.StatePlace   // where its window is
	refreshed   [][]solve.Terms       // of each increment that is visited again, by stage
	loaded      map[int][]solve.Terms // of increments that an update merges and does not visit, by number and stage
	plansFrom   int64                 // of the version before: see schemas.Manifest
	after       head
	terms       [][]solve.Terms // of each stage, by visited increment; those that the run merges have none
	merged      [][]solve.Terms // of each stage, by group of increments that the run merges
	encodings   []*encoding     // of an update, by stage
	fitted      []float64       // Σw of the training rows of each visited increment
	grams       [][]float64     // of each stage of a full run
	updates     map[int]*solve.Update
	messages    []partitionMessage
	increments  []schemas.Increment // of a full run
	termsPlaces []int               // of a full run: see [schemas.Chain.TermsPlaces]
	covered     []schemas.Coverage  // of the new increment, by partition
	skipped     schemas.Spans
	progress    []schemas.SourceProgress
	unknown     []schemas.LabelRows
	mostlyBad   *schemas.BadMessages // the messages with the new rows, if most of them can't be used
	sum         *accumulate.Sum      // of the survey
	judged      schemas.Losses       // of the rows that the gate is about, with the weights of the version
}

// partitionMessage is how a message was predicted before it was learnt.
type partitionMessage struct {
	partition int
	schemas.MessageLosses
}

// visitedSpans returns of each partition that visits to stages read the hull of the plan's spans, which is empty if an update has nothing
// new there.
func visitedSpans(plan *schemas.Plan) (spans schemas.Spans) {
	for _, number := range plan.Partitions() {
		span := schemas.Span{Partition: number}
		if hulls := plan.Spans.On(number).Hulls(); len(hulls) > 0 {
			span = hulls[0]
		}
		spans = append(spans, span)
	}
	return spans
}

// addChained adds what the survey of a run of a chain found in a partition.
func (f *findings) addChained(plan *schemas.Plan, partition int, visit *schemas.SurveyVisit) {
	if plan.Chain == nil {
		return
	}
	f.skipped = append(f.skipped, visit.Skipped...)
	f.unknown = schemas.AddLabelRows(f.unknown, visit.Unknown)
	f.bad.Merge(visit.Bad)
	for _, p := range visit.Progress {
		f.progress = advance(f.progress, partition, p)
	}
	for _, m := range visit.Messages {
		f.messages = append(f.messages, partitionMessage{partition, m})
	}
	if plan.Update() != nil {
		return
	}
	if f.increments == nil {
		f.increments = slices.Clone(plan.Chain.Increments)
		if len(f.increments) == 0 {
			f.increments = []schemas.Increment{{Number: plan.Chain.Number, Weight: 1}}
		}
		for i := range f.increments {
			f.increments[i].Covered, f.increments[i].Skipped, f.increments[i].Uncounted = nil, nil, false
		}
	}
	for i, covered := range visit.Increments {
		if len(covered.Spans) > 0 && i < len(f.increments) {
			f.increments[i].Covered = append(f.increments[i].Covered, covered)
		}
	}
}

// advance notes how far a source is counted in a partition.
func advance(progress []schemas.SourceProgress, partition int, p schemas.PartitionProgress) []schemas.SourceProgress {
	i := slices.IndexFunc(progress, func(s schemas.SourceProgress) bool { return s.Source == p.Source && s.Attempt == p.Attempt })
	if i < 0 {
		progress, i = append(progress, schemas.SourceProgress{Source: p.Source, Attempt: p.Attempt}), len(progress)
	}
	next := slices.Clone(progress[i].Next)
	for len(next) <= partition {
		next = append(next, 0)
	}
	next[partition] = max(next[partition], p.Next)
	progress[i].Next = next
	return progress
}

// survey keeps what the survey of a run of a chain has found.
func (c *chained) survey(plan *schemas.Plan, sum *accumulate.Sum, found *findings) {
	if plan.Chain == nil {
		return
	}
	if plan.Update() == nil {
		c.termsPlaces = plan.Chain.TermsPlaces()
	}
	c.progress, c.unknown, c.mostlyBad = found.progress, found.unknown, nil
	if found.bad.Most() && len(plan.Added()) > 0 {
		c.mostlyBad = &found.bad
	}
	c.sum, c.messages, c.skipped, c.increments = sum, found.messages, found.skipped, found.increments
	for _, span := range plan.Spans.Hulls() {
		c.covered = append(c.covered, found.covered[span.Partition])
	}
	for i := range c.increments {
		for _, s := range c.skipped {
			covered, _ := c.increments[i].On(s.Partition)
			if slices.ContainsFunc(covered.Spans, func(span schemas.Span) bool { return span.From <= s.From && s.To <= span.To }) {
				c.increments[i].Skipped = append(c.increments[i].Skipped, s)
			}
		}
	}
}

// keepGram keeps the Gram matrix of a stage of a full run of a chain.
func (s *Solver) keepGram(stage int, sums schemas.Tensors[float64]) {
	if s.plan.Chain == nil || s.plan.Update() != nil {
		return
	}
	gram, _ := sums.Find(schemas.FieldGram)
	s.chained.grams = append(s.chained.grams[:min(stage, len(s.chained.grams))], slices.Clone(gram.Data))
}

// update returns the fit of a stage of an update.
func (s *Solver) update(number int, shape solve.Shape) (solve.Fit, error) {
	c, u := &s.chained, s.plan.Update()
	if u.Restart {
		visited := make([]solve.Visited, 1, 1+len(u.Refresh))
		visited[0].Weight = 1
		for i := range u.Refresh {
			visited = append(visited, solve.Visited{Weight: 1, Rows: c.fittedOf(u.Refresh[i].Number)})
		}
		return s.keepUpdate(number, solve.NewRestart(s.withRidges(number)[number], shape, visited, u.Passes, s.factorsOf(number))), nil
	}
	moments := c.before.moments[number]
	moments.Decay(u.Decay)
	weight := 0.0
	for i := range c.before.window.Increments {
		increment := &c.before.window.Increments[i]
		if leaving(u, increment.Increment.Number) < 0 {
			weight += increment.Increment.Weight * u.Decay * increment.Fitted
		}
	}
	for i := range u.Leave {
		moments.AddTerms(-u.Leave[i].Weight, c.leaving(i, number, u))
	}
	visited := []solve.Visited{{Weight: 1}}
	for i := range u.Refresh {
		visited = append(visited, solve.Visited{Weight: u.Refresh[i].Weight, Rows: c.fittedOf(u.Refresh[i].Number), Terms: c.refreshed[i][number]})
	}
	return s.keepUpdate(number, solve.NewUpdate(s.withRidges(number)[number], shape, moments, weight, visited, u.Passes, s.factorsOf(number))), nil
}

// keepUpdate keeps the update of a stage, for what it leaves to the next run.
func (s *Solver) keepUpdate(number int, fit *solve.Update) *solve.Update {
	if number == len(s.plan.Stages)-1 && s.hasGateRows() {
		fit.EndVisited()
	}
	if s.chained.updates == nil {
		s.chained.updates = map[int]*solve.Update{}
	}
	s.chained.updates[number] = fit
	return fit
}

// fittedOf returns Σw of the training rows of an increment.
func (c *chained) fittedOf(number int) float64 {
	for i := range c.before.window.Increments {
		if increment := &c.before.window.Increments[i]; increment.Increment.Number == number {
			return increment.Fitted
		}
	}
	return 0
}

// leaving returns the terms of an increment that leaves. They come after those of increments that are visited again.
func (c *chained) leaving(i, stage int, u *schemas.Update) solve.Terms {
	return c.refreshed[len(u.Refresh)+i][stage]
}

// leaving returns the place of an increment among those that leave, or −1.
func leaving(u *schemas.Update, number int) int {
	return slices.IndexFunc(u.Leave, func(c schemas.Increment) bool { return c.Number == number })
}

// endChained keeps what a stage of a run of a chain leaves to the next run. sum is the last visit's, or for a full run that of the seals.
func (s *Solver) endChained(f *fitting, sum *accumulate.Sum) error {
	c := &s.chained
	switch {
	case s.plan.Chain == nil:
		return nil
	case s.plan.Update() != nil:
		moments, terms, fitted := c.updates[f.number].After()
		c.after.moments, c.terms, c.fitted = append(c.after.moments, moments), append(c.terms, terms), fitted
		s.mergeTerms()
		s.beginEncoding(f.number)
		if f.number == len(s.plan.Stages)-1 {
			s.last = c.sum // how the rows were predicted before they were learnt
		}
		return nil
	case f.stage.Link.Learnt:
		return nil // every version is full
	}
	p, k, m := f.shape.Columns, f.shape.Classes, len(c.increments)
	moments := &solve.Moments{Gram: c.grams[f.number], Scores: make([]float64, p*k), Gradient: make([]float64, p*k)}
	terms := make([]solve.Terms, m)
	c.fitted = make([]float64, m)
	for i := range m {
		// The rows were fitted with the weights of their increments, and terms are kept at weight 1.
		w := c.increments[i].Weight
		if visited := s.takeVisited(sum, i); visited != nil {
			c.fitted[i] = visited[0] / w
		}
		if c.termsPlaces[i] != i {
			continue // those of the increment that it is merged with have them
		}
		at, any := sum.Take(termsOf(i))
		if !any {
			at.Data = make([]float64, 2*p*k)
		}
		for j := range at.Data {
			at.Data[j] /= w
		}
		terms[i] = solve.TermsOf(at.Data[:p*k], at.Data[p*k:])
		moments.AddTerms(w, terms[i])
	}
	c.after.moments, c.terms = append(c.after.moments, moments), append(c.terms, terms)
	s.mergeTerms()
	return nil
}

// publishWindow writes to the state topic what the next run of the chain goes on from, and returns where its window is; nil if the run is of
// no chain, or the next run can only be full.
func (s *Solver) publishWindow(ctx context.Context, report *schemas.Report) (*schemas.StatePlace, error) {
	c := &s.chained
	if s.plan.Chain == nil {
		return nil, nil
	}
	w := s.window()
	switch judged, good := s.judged(); {
	case judged && !good:
		if report.Retrain.Offered, w.Rejected = false, 1; s.plan.Update() != nil {
			w.Rejected += c.before.window.Rejected
		} else {
			w.Rejected = rejectedByFull
		}
	case !judged && w.Rows() < s.plan.Chain.AtLeast:
		report.Retrain.Offered, w.AtLeast = false, s.plan.Chain.AtLeast
	}
	c.after.window = w
	state, visited := &stateWriter{Solver: s}, s.visitedIncrements(w)
	for _, increment := range visited {
		increment.Visited = s.plan.Chain.Number
	}
	merged, err := s.writeTerms(ctx, state, visited)
	if err != nil {
		return nil, err
	}
	var messages []schemas.Message
	for t := range c.after.moments {
		encoded, err := s.encodedMoments(t)
		if err != nil {
			return nil, err
		}
		messages = append(messages, encoded...)
	}
	w.Moments = schemas.StatePlace{Run: s.run}
	if err := state.add(ctx, messages, &w.Moments); err != nil {
		return nil, err
	}
	if err := state.flush(ctx); err != nil {
		return nil, err
	}
	if err := w.Merge(s.plan.Chain.Merged(), merged); err != nil {
		return nil, err
	}
	if err := w.Join(s.plan.Chain.Join); err != nil {
		return nil, err
	}
	if s.snapshots() {
		w.Snapshot, w.Since = w.Moments, nil
	}
	stored := w
	if s.plan.Update() != nil {
		stored = w.ChangesOf(c.before.window, *c.beforeAt)
	}
	if messages, err = stored.Messages(); err != nil {
		return nil, err
	}
	at, err := s.Log.Append(ctx, s.Topics.State, 0, messages...)
	if err != nil {
		return nil, err
	}
	report.Retrain.WindowRows, report.Retrain.Drift = w.Rows(), w.Changed > 0
	report.Retrain.Gone = max(s.plan.Chain.Had-rowsBefore(w), 0)
	return &schemas.StatePlace{Run: s.run, From: at, To: at + int64(len(messages))}, nil
}

// rowsBefore returns how many rows a window has of the runs before the last.
func rowsBefore(w *schemas.Window) (rows int64) {
	for i := range w.Increments {
		if c := &w.Increments[i].Increment; c.Number != w.Chain.Number {
			rows += c.Rows()
		}
	}
	return rows
}

// writeTerms writes the terms of the increments that the run has visited, and of those that it merges. It returns where those of a group
// of merged increments are, once all is written.
func (s *Solver) writeTerms(ctx context.Context, state *stateWriter, visited []*schemas.WindowIncrement) (merged func(group int) schemas.StatePlace, err error) {
	c, groups := &s.chained, s.plan.Chain.Merged()
	places := make([]*schemas.StatePlace, 0, len(visited)+len(groups))
	for _, increment := range visited {
		increment.Terms = schemas.StatePlace{}
		places = append(places, &increment.Terms)
	}
	for range groups {
		places = append(places, &schemas.StatePlace{})
	}
	for i, place := range places {
		if len(c.terms) < len(s.plan.Stages) || i < len(visited) && c.terms[0][i].Scores == nil {
			continue // a learnt link, so every version is full; or the terms of a group have them
		}
		var messages []schemas.Message
		for t := range c.terms {
			encoded, err := s.encodedTerms(t, i)
			if err != nil {
				return nil, err
			}
			messages = append(messages, encoded...)
		}
		*place = schemas.StatePlace{Run: s.run, Index: i}
		if err := state.add(ctx, messages, place); err != nil {
			return nil, err
		}
	}
	return func(group int) schemas.StatePlace { return *places[len(visited)+group] }, nil
}

// mergeTerms adds up the terms of increments that the run merges, at the stage that has ended last.
func (s *Solver) mergeTerms() {
	c, t := &s.chained, len(s.chained.terms)-1
	at := map[int]solve.Terms{}
	for number, terms := range c.loaded {
		at[number] = terms[t]
	}
	place := map[int]int{}
	for i, number := range s.visitedNumbers() {
		at[number], place[number] = c.terms[t][i], i
	}
	var merged []solve.Terms
	for _, group := range s.plan.Chain.Merged() {
		sum := solve.Terms{}
		for _, number := range group {
			if terms := at[number]; terms.Scores != nil { // of increments that workers have merged the first has them
				sum.Add(terms)
			}
			if i, visited := place[number]; visited {
				c.terms[t][i] = solve.Terms{}
			}
		}
		merged = append(merged, sum)
	}
	c.merged = append(c.merged, merged)
}

// visitedNumbers returns the numbers of the increments that the run visits, in the order of its visits.
func (s *Solver) visitedNumbers() (numbers []int) {
	chain := s.plan.Chain
	if chain.Update == nil {
		for i := range s.chained.increments {
			numbers = append(numbers, s.chained.increments[i].Number)
		}
		return numbers
	}
	numbers = append(numbers, chain.Number)
	for i := range chain.Update.Refresh {
		numbers = append(numbers, chain.Update.Refresh[i].Number)
	}
	return numbers
}

// rejectedByFull is Window.Rejected after a full run that was withheld: rejections cause one full run, and no other until a version is
// offered.
const rejectedByFull = 2

// shape returns the columns and classes of a stage.
func (s *Solver) shape(stage int) (p, k int) {
	of, err := s.chain.Stage(stage)
	if err != nil {
		panic(fmt.Sprintf("solver: a stage that was fitted: %v", err))
	}
	return of.Features.Size(), of.Classes
}

// window returns the window after the run, without the places of its records.
func (s *Solver) window() *schemas.Window {
	c, chain := &s.chained, s.plan.Chain
	w := &schemas.Window{Run: s.run, Chain: chain, Full: chain.Number, Stages: len(s.plan.Stages)}
	for t := range w.Stages {
		p, k := s.shape(t)
		w.TermsSize += 2 * 8 * int64(p) * int64(k)
		w.GramsSize += 8 * int64(p) * int64(p+1) / 2
	}
	if u := chain.Update; u != nil {
		before := c.before.window
		w.Full, w.FullRows, w.Snapshot = before.Full, before.FullRows, before.Snapshot
		w.Since = append(slices.Clone(before.Since), schemas.StatePlace{Run: s.run, Since: &s.plan.Since, Decay: u.Decay, Partitions: s.plan.Partitions()})
		w.Ends = slices.Clone(before.Ends)
		w.Progress = slices.Clone(before.Progress)
		for _, increment := range before.Without(s.plan.Spans).Increments {
			if leaving(u, increment.Increment.Number) < 0 {
				if increment.Increment.Weight *= u.Decay; u.Restart {
					increment.Increment.Weight = 1
				}
				if u.Forgets(increment.Increment.Number) >= 0 {
					at := slices.IndexFunc(u.Refresh, func(c schemas.Increment) bool { return c.Number == increment.Increment.Number })
					increment.Fitted = c.fitted[1+at]
				}
				w.Increments = append(w.Increments, increment)
			}
		}
		added := schemas.Increment{Number: chain.Number, Weight: 1, Covered: c.covered, Skipped: c.skipped}
		w.Increments = append(w.Increments, schemas.WindowIncrement{Increment: added, Fitted: c.fitted[0], Messages: int64(len(c.messages)), Until: chain.Until})
		if !u.Restart {
			w.Errors = before.Errors
		}
		if u.Restart {
			w.FullRows = w.Rows()
		}
		c.detect(w)
	} else {
		w.Ends, w.Progress = slices.Clone(chain.Ends), slices.Clone(chain.Progress)
		for i, increment := range c.increments {
			wi := schemas.WindowIncrement{Increment: increment, Until: untilOf(chain, increment.Number)}
			if i < len(c.fitted) {
				wi.Fitted = c.fitted[i]
			}
			w.Increments = append(w.Increments, wi)
		}
		w.FullRows = w.Rows()
	}
	w.MostlyBad, w.Unknown = c.mostlyBad, c.unknown
	if c.before != nil {
		w.Unknown = schemas.AddLabelRows(c.before.window.Unknown, c.unknown)
	}
	for _, p := range c.progress {
		for partition, next := range p.Next {
			if next > 0 {
				w.Progress = advance(w.Progress, partition, schemas.PartitionProgress{Source: p.Source, Attempt: p.Attempt, Next: next})
			}
		}
	}
	w.Advance(s.plan)
	return w
}

// untilOf returns when the newest message of an increment of a full run was written.
func untilOf(chain *schemas.Chain, number int) int64 {
	if number == chain.Number {
		return chain.Until
	}
	for _, t := range chain.Times {
		if t.Number == number {
			return t.Until
		}
	}
	return 0
}

// visitedIncrements returns the increments of a window that the run has visited, in the order of its visits.
func (s *Solver) visitedIncrements(w *schemas.Window) (visited []*schemas.WindowIncrement) {
	u := s.plan.Update()
	if u == nil {
		for i := range w.Increments {
			visited = append(visited, &w.Increments[i])
		}
		return visited
	}
	visited = append(visited, &w.Increments[len(w.Increments)-1])
	for i := range u.Refresh {
		for j := range w.Increments {
			if w.Increments[j].Increment.Number == u.Refresh[i].Number {
				visited = append(visited, &w.Increments[j])
			}
		}
	}
	return visited
}

// hasGateRows reports whether the newest increment has rows that the gate is about.
func (s *Solver) hasGateRows() bool {
	if s.plan.Chain.Gate == nil {
		return false
	}
	offered, ok := s.chained.sum.Tensors().Find(schemas.FieldOffered)
	return ok && offered.Data[0] > 0
}

// judged reports whether the gate has rows to judge the version by, and whether it finds it good enough for subscribers.
func (s *Solver) judged() (judged, good bool) {
	c := &s.chained
	if s.plan.Chain == nil || s.plan.Chain.Gate == nil || c.judged.Weight == 0 {
		return false, false
	}
	scale := s.chain.Prepared.TargetScale
	offered, err := c.sum.Tensors().Shaped(schemas.FieldOffered, 1+max(len(scale), 1))
	if err != nil || offered[0] == 0 {
		return false, false
	}
	loss := offered[1]
	if scale != nil { // in the units of the run
		loss = 0
		for i, unit := range scale {
			loss += offered[1+i] / (float64(unit) * float64(unit))
		}
	}
	highest := loss/offered[0] + s.plan.Chain.Gate.Margin
	return true, c.judged.MeanLoss() <= highest || math.IsNaN(highest)
}

// leave keeps in memory what the next run of the chain goes on from.
func (s *Solver) leave(m *model.Model) {
	if s.plan.Chain == nil {
		return
	}
	s.Remember(m)
	after := s.chained.after // a copy: a pointer into the solver would keep the solvers of all runs before in memory
	s.options.Store.put(&after)
}

// report adds what a run of a chain says.
func (c *chained) report(plan *schemas.Plan, r *schemas.Report) {
	if plan.Chain == nil {
		return
	}
	retrain := &schemas.RetrainReport{Version: r.Version, Kind: schemas.RunFull, Rows: r.Rows, Forgotten: r.PassedOver[schemas.ForgottenRow], Overflow: r.PassedOver[schemas.Overflowing], Offered: true}
	for _, lost := range plan.Chain.Lost {
		retrain.Lost += lost.Len()
	}
	retrain.Spans, retrain.From, retrain.Until = plan.Added().Hulls(), plan.Chain.From, plan.Chain.Until
	if plan.Update() != nil {
		retrain.Kind = schemas.RunUpdate
		if losses := schemas.LossesOf(c.sum.Tensors())[schemas.Train]; losses.Weight > 0 {
			e, l := losses.ErrorPercent(), losses.MeanLoss()
			retrain.PrequentialError, retrain.PrequentialLoss, retrain.Curve = &e, &l, c.curve(plan.Chain)
			split := r.Splits[schemas.Train.String()]
			retrain.PrequentialLogLoss, retrain.PrequentialBrier, retrain.PrequentialECE, retrain.PrequentialRMSE = split.LogLoss, split.Brier, split.ECE, split.RMSE
		}
	} else if plan.Chain.Number > 1 { // it adds rows only if no update could
		retrain.Rows = 0
		if last := len(c.increments) - 1; last >= 0 && c.increments[last].Number == plan.Chain.Number {
			retrain.Rows = c.increments[last].Rows()
		}
	}
	retrain.MostlyBad = c.mostlyBad
	if len(plan.Added()) > 0 { // else those of the window, which reports of earlier versions have
		for _, u := range c.unknown {
			retrain.UnknownRows += u.Rows
		}
	}
	if n := len(r.Stages); n > 0 {
		retrain.HoldoutError = r.Stages[n-1].HoldoutError
	}
	r.Retrain = retrain
}
