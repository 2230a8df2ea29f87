package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// isBeside reports whether a topic is beside those of the pipeline: of a version that is made again, or of a search.
func isBeside(topic string) bool {
	return strings.HasPrefix(topic, simName+".verify-") || strings.HasPrefix(topic, simName+".search-")
}

// verifyOne makes a version again while others work, and checks what it finds: the same weights, or what the log has lost of it.
func (s *simulation) verifyOne(ctx context.Context, p *topics.Pipeline) error {
	a := actorOf(p)
	a.awaited = true
	return s.verify(ctx, p, s.process(a), s.drawVersion())
}

// verify makes a version again, and checks what it finds.
func (s *simulation) verify(ctx context.Context, p *topics.Pipeline, by dispatch.Process, version string) error {
	job := s.job
	job.Name, job.Memory = simName, max(job.Memory, 1)
	same, err := replay.Verify(ctx, p, by, job, version, event.Ignore{})
	if err == nil {
		s.log.happen(verification, "version %s is made again: %+v", version, same)
	}
	s.checkVerified(same, err)
	return err
}

// verifyAfter makes a version again once the faults are over. Nothing has been lost of it, unless it was before.
func (s *simulation) verifyAfter() {
	s.log.calm, s.faultsLeft = true, 0
	version := s.drawVersion()
	if s.random.IntN(2) == 0 {
		p, log := s.shared()
		by := dispatch.Process{BLAS: s.blas, Arithmetic: simArithmetic}
		if err := s.verify(context.Background(), p, by, version); !s.explained(err) {
			s.fail("after the faults version %s can't be made again: %v", version, err)
		}
		log.close()
		return
	}
	s.start("auditor", func() {}, func(a *actor) error {
		a.awaited = true
		p := s.pipeline(a)
		err := s.verify(context.Background(), p, s.process(a), version)
		if !s.explained(err) {
			s.fail("after the faults version %s can't be made again: %v", version, err)
		}
		return err
	})
	s.awaitRuns()
}

// explained reports whether an error says what was lost, or that there is no version.
func (s *simulation) explained(err error) bool {
	return err == nil || s.said(err) && !errors.As(err, new(*kafkalog.AccessError))
}

// checkVerified checks what came of making a version again.
func (s *simulation) checkVerified(same []replay.Verified, err error) {
	differs, isOther := errors.AsType[*replay.DigestError](err)
	missing, isMissing := errors.AsType[*replay.MissingExamplesError](err)
	plan, isMissingPlan := errors.AsType[*source.MissingPlanError](err)
	ended, isEnded := errors.AsType[*dispatch.RunError](err)
	lost := s.examplesReused || s.dataLost && s.examplesChanged
	switch {
	case err == nil && len(same) == 0:
		s.fail("a version was made again, and nobody knows which")
	case isOther && differs.Uncompared != nil && !s.explained(differs.Uncompared): // such as that the version was removed meanwhile
		s.fail("nothing is lost of the version: %v", err)
	case isOther && (len(differs.Changed) == 0 && differs.Uncompared == nil || !s.examplesReused):
		s.fail("no example was replaced: %v", err)
	case isOther:
		s.log.happen(unverified, "%v", err)
		s.checkGone(differs.Changed, err)
	case isMissing && !lost:
		s.fail("no example is lost: %v", err)
	case isMissing:
		s.log.happen(unverified, "%v", err)
		s.checkGone(missing.Spans, err)
	// The plan of a warm start is in the manifest of its version, and for a day on plans. Chains keep theirs for longer.
	case isMissingPlan && !s.historyLost && (!s.removed[plan.Run] || s.chained[plan.Run] != ""):
		s.fail("no plan is lost: %v", err)
	case isEnded && (ended.State != schemas.Failed || !lost || !slices.ContainsFunc(aboutTheLog, func(text string) bool {
		return strings.Contains(ended.Reason, text)
	})):
		s.fail("a version can't be made again, and no example is lost: %v", err)
	case isEnded:
		s.log.happen(unverified, "%v", err)
	}
}

// checkGone checks of each span that the examples topic does not have all of it as it was.
func (s *simulation) checkGone(spans coverage.Spans, err error) {
	for _, span := range spans {
		partitions := s.log.topics[s.topics.Examples]
		if span.Partition >= len(partitions) {
			s.fail("there is no partition %d: %v", span.Partition, err)
			continue
		}
		if p := partitions[span.Partition]; span.From >= p.first && span.To <= p.end && (!p.reuses || span.To <= p.reused) {
			s.fail("the examples of %v are all there: %v", span, err)
		}
	}
}

// searchSome trains jobs beside the pipeline while others work. The weights are those of runs of the pipeline.
func (s *simulation) searchSome(ctx context.Context, p *topics.Pipeline) error {
	if s.chain != nil || s.files || s.chooses {
		return nil
	}
	a := actorOf(p)
	a.awaited = true
	jobs := []topics.Job{s.job, s.job}
	jobs[1].Seed, jobs[0].Name, jobs[1].Name = 2, simName, simName
	jobs[0].Memory = max(s.job.Memory, 1)
	folds := []int{0, 0, 2}[s.random.IntN(3)]
	check := func(i int, c *replay.Candidate) error {
		s.log.happen(searching, "a run of a search with the seed %d ends: %v", jobs[i].Seed, c.Err)
		lost := s.dataLost || s.examplesChanged || s.examplesReused
		switch want := s.versionsOf[fmt.Sprint("seed ", jobs[i].Seed)]; {
		case c.Report == nil && !lost && folds == 0:
			s.fail("a run of a search has failed, and nothing is lost: %v", c.Err)
		case c.Report != nil && !lost && folds == 0 && want != c.Report.WeightsDigest:
			s.fail("a run of a search has the weights %s, without faults %s", c.Report.WeightsDigest, want)
		}
		return nil
	}
	return replay.SearchIngested(ctx, p, s.process(a), jobs, &source.Ingested{}, folds, event.Ignore{}, check)
}

// choosing makes of a scenario one whose stages are chosen, of a chain by its first version, or one whose runs choose how sparse rows are
// prepared.
func (sc *scenario) choosing() *scenario {
	sc.chooses = true
	return sc
}

// ending returns a stage that a run may leave out, by the loss of held-out rows.
func ending(s schemas.Stage) schemas.Stage {
	s.Stop = &schemas.Stop{Split: examples.Holdout.String(), Patience: 1, Stages: true}
	return s
}

// heldOutExamples are messages of which rows are held out.
func heldOutExamples() *simExamples {
	e := manyExamples(6)
	e.holdout = 0.3
	return e
}
