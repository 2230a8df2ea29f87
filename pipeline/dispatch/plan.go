// Package dispatch plans and submits runs, and executes them in the order of the plans topic with the roles of this process.
//
//	Job, sealed sources, Forgotten ──Plan──▶ schemas.Plan ──SubmitJob──▶ plans topic
//	plans topic ──Work, Solve, Members.Execute──▶ worker, solver ──Follow──▶ Report
package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/stages"
)

// Plan returns the plan of a run of the job. The plan fixes the current spans of the examples topic, and which messages in
// them count: those of the job's files, given by their seals, or, if the job has no training files, all sealed sources and
// all messages without a source. here is the arithmetic of the process.
func Plan(ctx context.Context, p *topics.Pipeline, job topics.Job, here schemas.Arithmetic, sources []schemas.SourceSeal,
	l *protocol.Ledger, r topics.ExamplesRetention) (*schemas.Plan, error) {
	plan := OfJob(p, job, here)
	all, err := p.Log.Spans(ctx, p.Topics.Examples)
	if err != nil {
		return nil, err
	}
	bounds := all
	if plan.Foreign {
		sealed, err := topics.SealedBy(ctx, p, l)
		if err != nil {
			return nil, err
		}
		if bounds, err = topics.Staying(ctx, p, r, all); err != nil {
			return nil, err
		}
		for n := range all {
			if cut := (coverage.Span{Partition: n, From: all[n].From, To: bounds[n].From}); !cut.Empty() {
				plan.Expiring = append(plan.Expiring, cut)
			}
		}
		held := bounds
		if bounds, plan.Outside, err = topics.Within(ctx, p, job.Examples, held); err != nil {
			return nil, err
		}
		for _, seal := range Remaining(sealed, held) {
			if topics.Overlaps(&seal, bounds) {
				sources = append(sources, seal)
			}
		}
		for _, seal := range sealed.Removed() {
			if seal.Held(held) != schemas.HeldNot && topics.Overlaps(seal, bounds) {
				plan.Removed = append(plan.Removed, seal.Name())
			}
		}
	}
	for _, seal := range sources {
		plan.Sources = append(plan.Sources, seal.InPlan())
	}
	plan.Spans = slices.DeleteFunc(coverage.Spans(slices.Clone(bounds)), coverage.Span.Empty)
	if !plan.Foreign {
		plan.Spans = Narrow(plan.Spans, plan.Sources)
	}
	if len(plan.Spans) == 0 {
		none := &protocol.NoExamplesError{Topic: p.Topics.Examples, Other: p.Foreign != "", From: job.Examples.FromTopic}
		if none.From != "" {
			if _, none.Unusable, err = source.Unusable(ctx, p, none.From); err != nil {
				return nil, err
			}
		}
		return nil, none
	}
	f, err := source.ReadForgotten(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := source.CheckNewest(ctx, p, l, f); err != nil {
		return nil, err
	}
	plan.Forgotten, plan.Heeded = f.Rows.Within(plan.Spans), f.Heeded()
	if err := plan.Check(); err != nil {
		return nil, fmt.Errorf("plan a run over %s: %w", p.Topics.Examples, err)
	}
	earlier, err := warmStart(ctx, p, job.Warm, f)
	if err != nil {
		return nil, err
	}
	var from *schemas.Plan
	if earlier != nil {
		from = earlier.Plan
	}
	plan.Stages = stages.Placed(plan.Stages, from)
	if plan.Prepare, err = PrepareOf(ctx, p, job, plan, from); err != nil {
		return nil, err
	}
	if earlier != nil {
		if err := CheckFeatures(plan, from); err != nil {
			return nil, fmt.Errorf("warm start from version %d: %w", earlier.Version, err)
		}
		plan.Warm = &schemas.Warm{Run: earlier.Run, Manifest: earlier.Digest()}
	}
	plan.Group = schemas.ShareSize(job.Group, len(all), sharesOf(plan))
	plan.Submission = p.Fresh()
	if plan.Since, err = p.Now(ctx); err != nil {
		return nil, err
	}
	plan.Since.Plans = l.Next
	return plan, nil
}

// OfJob returns the part of a plan that a job and the arithmetic of the process determine.
func OfJob(p *topics.Pipeline, job topics.Job, here schemas.Arithmetic) *schemas.Plan {
	o := job.Examples
	plan := &schemas.Plan{
		Name: job.Name, Input: o.Input(), Classes: o.Classes, ClassWeight: o.ClassWeight, Targets: o.Targets, Labels: o.PlanLabels(),
		Augment: o.Augment, Missing: o.Missing.Mode, Holdout: o.Holdout, OnBadMessage: job.OnBadMessage, Outcomes: o.Outcome.Topic != "",
		Prepare: job.Prepare, Stages: job.Members(), Intercept: job.Intercept, Threshold: job.Threshold,
		Arithmetic: here, Seed: job.Seed, Segment: job.Segment, Foreign: len(o.Train) == 0, Topic: p.Foreign,
	}
	plan.Arithmetic.Any = job.Arithmetic == topics.ArithmeticAny
	if job.Average > 1 {
		plan.Average = job.Average
	}
	return plan
}

// Remaining returns a seal of each source that a topic with those bounds still has: the latest of the complete ones, or
// else the latest of the partial ones.
func Remaining(l *protocol.Ledger, bounds []coverage.Span) (seals []schemas.SourceSeal) {
	for id := range l.Sources() {
		if best := source.Largest(l.Seals(id), bounds); best != nil && best.Held(bounds) > schemas.HeldNot {
			seals = append(seals, *best)
		}
	}
	return seals
}

// Narrow reduces each span to the range between the first and the last message of the sources. Spans without such messages
// are dropped.
func Narrow(spans coverage.Spans, sources []schemas.SourceSeal) (narrowed coverage.Spans) {
	used := map[int]coverage.Span{}
	for _, s := range sources {
		for _, span := range s.Spans {
			if all, known := used[span.Partition]; known {
				span.From, span.To = min(all.From, span.From), max(all.To, span.To)
			}
			used[span.Partition] = span
		}
	}
	for _, span := range spans {
		cut := used[span.Partition]
		cut = coverage.Span{Partition: span.Partition, From: max(cut.From, span.From), To: min(cut.To, span.To)}
		if !cut.Empty() {
			narrowed = append(narrowed, cut)
		}
	}
	return narrowed
}

// warmStart returns the version that a plan starts from, by number, run, or protocol.Latest. If version is empty,
// warmStart returns nil. The version must not be trained on forgotten rows.
func warmStart(ctx context.Context, p *topics.Pipeline, version string, f *source.Forgotten) (*schemas.Manifest, error) {
	if version == "" {
		return nil, nil
	}
	earlier, err := p.Model(ctx, version) // the complete version: the run can't start if a part is missing
	if err != nil {
		return nil, fmt.Errorf("warm start: %w", err)
	}
	m := earlier.Manifest
	learnt, err := source.HaveLearnt(ctx, p, f)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(learnt, func(place schemas.Place) bool { return place.Run == m.Run }) {
		return nil, fmt.Errorf("warm start: version %d was trained on forgotten rows: train once without warm", m.Version)
	}
	return m, nil
}

// CheckWords returns an error if the words of rows would have other columns than in an earlier plan: such rows can't be
// combined. It does not compare counted vocabularies, which are known only after ingest.
func CheckWords(input, earlier schemas.Input) error {
	switch {
	case input.WordColumns != earlier.WordColumns || input.WordPhrases != earlier.WordPhrases:
		return errors.New("other words under examples.words")
	case !reflect.DeepEqual(input.Hash, earlier.Hash):
		return errors.New("other hashes of words under prepare.hash")
	}
	return nil
}

// CheckFeatures returns an error unless a run has the features and links of an earlier run, as a start from the earlier
// weights requires.
func CheckFeatures(plan, earlier *schemas.Plan) error {
	switch {
	case plan.Seed != earlier.Seed:
		return fmt.Errorf("seed %d, this run has %d: a warm start needs the same seed", earlier.Seed, plan.Seed)
	case plan.Prepare != earlier.Prepare:
		return fmt.Errorf("prepare: %s: a warm start needs the same preparation", Differences(earlier.Prepare, plan.Prepare, "this run"))
	case plan.Task() != earlier.Task() || !slices.Equal(plan.Targets, earlier.Targets):
		return fmt.Errorf("targets %q, this run has %q: a warm start needs the same targets", earlier.Targets, plan.Targets)
	case !plan.ClassWeight.Equal(earlier.ClassWeight):
		return fmt.Errorf("examples.class_weight %v, this run has %v: a warm start needs the same weights of classes",
			earlier.ClassWeight, plan.ClassWeight)
	case plan.Input.WordColumns != earlier.Input.WordColumns || plan.Input.WordPhrases != earlier.Input.WordPhrases ||
		!slices.Equal(plan.Input.Vocabulary, earlier.Input.Vocabulary):
		return errors.New("other words than this run's: a warm start needs the same words, which examples.words.vocabulary: hashed always has")
	case !reflect.DeepEqual(plan.Input.Hash, earlier.Input.Hash):
		return errors.New("other hashes of words than this run's: a warm start needs the same keys under prepare.hash")
	case (plan.Members() > 1 || earlier.Members() > 1) && plan.MemberStages() != earlier.MemberStages():
		return fmt.Errorf("%d members of %d stages each, this run has %d of %d: a warm start needs members with as many stages",
			earlier.Members(), earlier.MemberStages(), plan.Members(), plan.MemberStages())
	case plan.Intercept != earlier.Intercept:
		return fmt.Errorf("intercept %v, this run has %v: a warm start needs the same intercept", earlier.Intercept, plan.Intercept)
	}
	for t := range min(len(plan.Stages), len(earlier.Stages)) {
		here, there := plan.Stages[t], earlier.Stages[t]
		switch {
		case here.Features != there.Features:
			return fmt.Errorf("stage %d: features: %s: a warm start needs the same features", t, Differences(there.Features, here.Features,
				"this run"))
		case here.Scores != there.Scores:
			return fmt.Errorf("stage %d: scores %v, this run has %v: a warm start needs the same scores", t, there.Scores, here.Scores)
		case here.Link != there.Link:
			return fmt.Errorf("stage %d: link %s, this run has %s: a warm start needs the same link", t, there.Link, here.Link)
		}
	}
	for t := len(earlier.Stages); t < len(plan.Stages); t++ {
		if f := plan.Stages[t].Features; stages.KindOf(f).Learns() {
			return fmt.Errorf("stage %d: features of kind %s need a survey, but a warm start uses the version's survey: such stages "+
				"can't be added", t, f.Kind)
		}
	}
	return nil
}

// PrepareOf returns the job's preparation for a plan that lists its messages, with `auto` scale resolved: to the scale of the
// plan from which the run starts or continues, if there is one, and otherwise by the first message and the stages.
func PrepareOf(ctx context.Context, p *topics.Pipeline, job topics.Job, plan, earlier *schemas.Plan) (schemas.Prepare, error) {
	how := job.Prepare
	if how.Scale != stages.ScaleAuto {
		return how, nil
	}
	if earlier != nil {
		how.Scale = earlier.Prepare.Scale
		return how, nil
	}
	how.Scale = stages.ScaleNone
	first, err := LookAt(ctx, p, job, plan)
	if errors.As(err, new(*protocol.NoExamplesError)) {
		return how, nil // the survey reports errors in the messages
	}
	if err != nil {
		return how, err
	}
	scaled := func(s schemas.Stage) bool { return stages.KindOf(s.Features).Scaled }
	if first.Named && !first.Sparse && first.Image == (examples.Image{}) && slices.ContainsFunc(job.Stages, scaled) {
		how.Scale = stages.ScaleStandard
	}
	return how, nil
}

// Look is the properties of the examples, from their first message and the job.
type Look struct {
	Named, Sparse bool
	Image         examples.Image // zero: not images
}

// LookAt reads the first message that counts in a plan of the job.
func LookAt(ctx context.Context, p *topics.Pipeline, job topics.Job, plan *schemas.Plan) (l Look, err error) {
	none, damaged := true, error(nil)
	err = EachCounted(ctx, p, plan, true, func(_ int, _ int64, batch *examples.Rows) bool {
		none, l = false, Look{Named: batch.ColumnsText() != "", Sparse: batch.Sparse != nil}
		l.Image, damaged = examples.ParseImage(batch.ImageText())
		l.Image = cmp.Or(job.Examples.Shape(), l.Image)
		return false
	})
	if err = cmp.Or(err, damaged); err == nil && none {
		err = &protocol.NoExamplesError{Topic: p.Topics.Examples}
	}
	return l, err
}

// EachCounted calls do with the examples of each message that counts in a plan's spans, by partition and offset, with forgotten rows
// blanked, until do returns false. It passes over messages that retention has deleted if expired, and otherwise returns a
// *[kafkalog.DeletedError] for them.
func EachCounted(ctx context.Context, p *topics.Pipeline, plan *schemas.Plan, expired bool,
	do func(partition int, offset int64, batch *examples.Rows) (more bool)) error {
	topic, read := plan.Topic, p.Between
	if topic == "" {
		topic = p.Topics.Examples
	}
	if expired {
		read = p.Remaining
	}
	counting, noLabels := protocol.NewCounting(plan), layout.MissingLabels(plan)
	for _, hull := range plan.Spans.Hulls() {
		replay := counting.Replay(hull)
		for _, span := range plan.Spans.On(hull.Partition) {
			for m, err := range read(ctx, topic, span.Partition, span.From, span.To) {
				if err != nil {
					return fmt.Errorf("read examples %s[%d]: %w", topic, span.Partition, err)
				}
				if replay.AcceptAt(m.Offset, m.Message) != "" {
					continue
				}
				batch, err := examples.Decode(m.Value, p.Memory)
				if err != nil {
					continue // quarantined by the run
				}
				if !do(span.Partition, m.Offset, batch.MissLabels(noLabels).Without(plan.Forgotten, span.Partition, m.Offset)) {
					return nil
				}
			}
		}
	}
	return nil
}

// A share has at least shareRows rows, or shareProducts products of its rows in Gram matrices: a few seconds of a core. Sending and
// adding the matrix of 1,024 columns takes as long as summing 1,000 rows, and longer than counting the pairs of leaves of all rows.
const (
	shareRows     = 1 << 16
	shareProducts = 1 << 37
)

// sharesOf returns the maximum number of shares of a plan, in proportion to its work. It is [schemas.DefaultShares] if the plan does not
// determine the number of rows or of columns.
func sharesOf(plan *schemas.Plan) int {
	if plan.Foreign {
		return schemas.DefaultShares
	}
	rows, products := 0.0, 0.0
	for _, source := range plan.Sources {
		rows += float64(source.Rows)
	}
	rows *= float64(plan.Augment.Rows())
	for _, stage := range plan.Stages {
		columns := float64(stage.Features.Size) // of a row that are not 0
		if stage.Features.Leaves > 0 {
			columns /= float64(stage.Features.Leaves)
		}
		if columns == 0 {
			return schemas.DefaultShares
		}
		products += rows * columns * columns / 2
	}
	return int(max(1, min(schemas.DefaultShares, max(rows/shareRows, products/shareProducts))))
}

// NumericsRevision is incremented by changes of this program that may change the bits of a run, or the messages on internal topics.
// Processes with the same revision can work on a run together. TestNumericsRevision says when to increment it. Revision 10: a window on the
// state topic lists all increments, with their times.
const NumericsRevision = 10

// Arithmetic returns the arithmetic of this process, which, together with the terms, determines the bits of a sum.
func Arithmetic(blas *kernel.BLAS) schemas.Arithmetic {
	return schemas.Arithmetic{
		Numerics: strconv.Itoa(NumericsRevision), Processor: runtime.GOARCH, BLAS: blas.Name(), Vector: blas.Vector(),
	}
}

// Differences lists the fields in which two structs of the same type differ, by JSON name, with both values: "scale unit,
// this run has none". who describes the struct here. The fields must be comparable.
func Differences[S any](there, here S, who string) string {
	var list []string
	a, b := reflect.ValueOf(there), reflect.ValueOf(here)
	for i := range a.NumField() {
		if x, y := a.Field(i).Interface(), b.Field(i).Interface(); x != y {
			name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
			list = append(list, fmt.Sprintf("%s %v, %s has %v", name, x, who, y))
		}
	}
	return strings.Join(list, "; ")
}
