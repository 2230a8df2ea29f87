package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// operated makes of a scenario one in which operators give commands that change something, at any time: they forget
// rows, remove sources and versions, cancel runs and pin versions.
func (sc *scenario) operated() *scenario {
	sc.operators = true
	return sc
}

// givingUp makes of a scenario one whose runs end if nobody takes them up, as those that operators submit: no process has their arithmetic.
func (sc *scenario) givingUp() *scenario {
	sc.giveUp = 2 * time.Hour
	return sc
}

// operate starts an operator, who gives one command.
func (s *simulation) operate() {
	commands := []func(context.Context, *topics.Pipeline) error{s.listRuns, s.listSources, s.attachTo, s.checkTopics, s.countWaiting,
		s.verifyOne, s.verifyOne, s.searchSome}
	if s.operators {
		commands = append(commands, s.submitOne, s.pinOne, s.removeOne, s.cancelOne, s.forgetSome, s.forgetSome, s.removeSource)
	}
	n := s.random.IntN(len(commands))
	s.start(fmt.Sprint("operator ", n), func() {}, func(a *actor) error {
		p := s.pipeline(a)
		err := commands[n](context.Background(), p)
		if err != nil && (!s.said(err) || err.Error() == "") {
			s.fail("an operator's command %d has failed: %v", n, err)
		}
		return err
	})
	s.log.count(command)
}

// said reports whether an error says what is wrong with a command, or with the log.
func (s *simulation) said(err error) bool {
	for _, kind := range []any{
		new(*protocol.NoVersionError), new(*protocol.GoneError), new(*dispatch.UnknownRunError), new(*dispatch.EndedError),
		new(*dispatch.RunError), new(*dispatch.ReportGoneError), new(*topics.VersionsError), new(*source.NoRowsError),
		new(*source.UnknownSourcesError), new(*source.MissingPlanError), new(*replay.MissingExamplesError),
		new(*replay.DigestError), new(*kafkalog.DeletedError), new(*kafkalog.AccessError), new(*source.ForgetLostError),
	} {
		if errors.As(err, kind) {
			return true
		}
	}
	return errors.Is(err, errKilled) || errors.Is(err, source.ErrNothingLost)
}

// changes notes that the versions may be others than without faults, as operators wanted it.
func (s *simulation) changes(format string, values ...any) {
	s.log.happen(order, format, values...)
	s.noteLoss(s.topics.Examples)
	s.ordered, s.lessIsSaid, s.differs = true, true, true
}

func (s *simulation) drawVersion() string {
	if n := len(s.versions); n > 0 && s.random.IntN(3) > 0 {
		return strconv.Itoa(s.versions[s.random.IntN(n)].Version)
	}
	return []string{protocol.Latest, strconv.Itoa(1 + s.random.IntN(8))}[s.random.IntN(2)]
}

func (s *simulation) drawRun() string {
	if len(s.runs) == 0 {
		return "none"
	}
	return s.runs[s.random.IntN(len(s.runs))]
}

func (s *simulation) listRuns(ctx context.Context, p *topics.Pipeline) error {
	d, err := dispatch.Described(ctx, p)
	if err != nil {
		return err
	}
	if _, err = d.Run(ctx, s.drawVersion()); err != nil && !s.said(err) {
		return err
	}
	if _, err = d.Run(ctx, s.drawRun()); err != nil && !s.said(err) {
		return err
	}
	model, err := p.Model(ctx, s.drawVersion())
	if err != nil {
		return err
	}
	if _, err = replay.Mistakes(ctx, p, s.blas, model, 2); err != nil || model.Sparse() || model.Task() == examples.SeveralLabels {
		return err
	}
	rows, split, err := replay.HeldOutRows(ctx, p, model, 3, 1)
	if len(rows) > 3 || len(rows) > 0 && split == examples.Train {
		s.fail("version %d has %d held-out rows, which are %v rows", model.Manifest.Version, len(rows), split)
	}
	return err
}

func (s *simulation) listSources(ctx context.Context, p *topics.Pipeline) error {
	_, err := source.Sources(ctx, p)
	return err
}

// countWaiting counts the messages of the topic that is followed twice, as whoever ingests it does.
func (s *simulation) countWaiting(ctx context.Context, p *topics.Pipeline) error {
	if s.log.topics[simSource] == nil {
		return nil
	}
	waiting := protocol.NewWaiting(p.Log, simSource)
	for range 2 {
		messages, partitions, err := waiting.Count(ctx, func(int) int64 { return 0 })
		if err != nil {
			return err
		}
		if partitions != sourcePartitions || messages < 0 {
			s.fail("%d messages wait on %d partitions", messages, partitions)
		}
	}
	return nil
}

func (s *simulation) attachTo(ctx context.Context, p *topics.Pipeline) error {
	_, _, err := dispatch.Attach(ctx, p, s.drawRun(), event.Ignore{})
	return err
}

func (s *simulation) checkTopics(ctx context.Context, p *topics.Pipeline) error {
	job := s.job
	job.Name, job.Examples.Partitions = simName, simPartitions
	if err := topics.CreateTopics(ctx, p, job, event.Ignore{}); err != nil {
		return err
	}
	settings, err := topics.ReadSettings(ctx, p, job)
	if err != nil || s.retention > 0 { // else it would end the changes
		return err
	}
	_, err = topics.Apply(ctx, p.Admin, settings.Differences)
	return err
}

func (s *simulation) submitOne(ctx context.Context, p *topics.Pipeline) error {
	if s.chain != nil || s.files {
		return nil
	}
	s.changes("a run is submitted")
	_, err := dispatch.SubmitJob(ctx, p, s.blas, s.job, &source.Ingested{}, dispatch.TrainOptions{Trigger: s.random.IntN(2) == 0},
		event.Ignore{})
	return err
}

func (s *simulation) pinOne(ctx context.Context, p *topics.Pipeline) error {
	s.changes("a version is pinned, or none")
	if s.random.IntN(2) == 0 {
		_, _, err := topics.Unpin(ctx, p)
		return err
	}
	_, err := topics.Pin(ctx, p, s.drawVersion())
	return err
}

func (s *simulation) removeOne(ctx context.Context, p *topics.Pipeline) error {
	s.changes("versions are removed")
	_, err := topics.RemoveVersions(ctx, p, []string{s.drawVersion(), s.drawVersion()}, s.random.IntN(2) == 0)
	return err
}

func (s *simulation) cancelOne(ctx context.Context, p *topics.Pipeline) error {
	s.changes("runs are cancelled")
	id := ""
	if s.random.IntN(2) == 0 {
		id = s.drawRun()
	}
	_, err := dispatch.Cancel(ctx, p, id)
	return err
}

func (s *simulation) forgetSome(ctx context.Context, p *topics.Pipeline) error {
	_, n, examples := s.drawPartition(s.topics.Examples)
	what := source.ToForget{Now: s.random.IntN(2) == 0, Lost: []string{"", "", "", source.RestoreLost, source.DropLost}[s.random.IntN(5)]}
	at := s.drawOffset(examples)
	switch s.random.IntN(4) {
	case 0:
		what.Keys = []string{"shop"}
	case 1:
		if s.seal != nil {
			what.Sources = []string{s.seal.ID[:6]}
		} else {
			rows, err := source.ParseRows(s.topics.Examples, fmt.Sprintf("%s/%d/%d/1", s.topics.Examples, n, at))
			if err != nil {
				return err
			}
			what.Rows = coverage.Forgotten{rows}
		}
	case 2:
		if partitions := s.log.topics[simSource]; partitions != nil {
			n = s.random.IntN(len(partitions))
			at = s.drawOffset(partitions[n])
		}
		read, ok := source.ParseSourceRows(simSource, fmt.Sprintf("%s/%d/%d-%d", simSource, n, at, at+s.random.Int64N(3)))
		if !ok {
			return errors.New("what was read can't be parsed")
		}
		what.Read = []source.SourceRows{read}
		if s.random.IntN(2) == 0 {
			what.Keys = []string{"customer 1"}
		}
	case 3:
		what.Rows = coverage.Forgotten{{Partition: n, From: at, To: at + 1 + s.random.Int64N(2)}}
	}
	s.changes("rows are forgotten: %+v", what)
	_, err := source.Forget(ctx, p, s.job, what)
	return err
}

// drawOffset returns an offset that a partition has, or its end.
func (s *simulation) drawOffset(p *simPartition) int64 {
	if n := len(p.messages); n > 0 && s.random.IntN(8) > 0 {
		return p.messages[s.random.IntN(n)].Offset
	}
	return p.end
}

func (s *simulation) removeSource(ctx context.Context, p *topics.Pipeline) error {
	id := "none"
	if s.seal != nil {
		id = s.seal.ID
	}
	s.changes("a source is removed")
	_, err := source.RemoveSources(ctx, p, []string{id})
	return err
}
