package worker

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/sink"
)

// residualsOf reads the residuals that a stage published, for the next stage.
type residualsOf struct {
	client   *run.Client
	run      string
	stage    int
	parent   schemas.Digest // of the stage's final weights
	classes  int
	seal     func(partition int) *schemas.Seal // returns nil if the partition is not sealed
	from, to link.Link                         // of the stage and of the next one
	begins   bool                              // the next stage is the first of a member, whose scores begin at 0
	votes    bool                              // members are finished after the stage
}

// errUnsealed says that residuals are not what their seal says, are gone, or have no seal. Then they are computed and published
// again.
var errUnsealed = errors.New("the residuals do not match their seal")

// residualsReader reads the parts of a partition's residuals in the order of its examples. It skips repetitions, and
// residuals that other workers have written between them.
type residualsReader struct {
	*residualsOf
	messages run.Reader
	attempt  string
	ahead    *schemas.Residuals // a part that was read too early
	at       int64              // offset on the residuals topic of the last part
	offset   int64              // of the last part's examples message
	row      int                // first row of that message that is not yet read
	scratch  link.Scratch
}

// reader returns a reader of a partition's residuals, which must be sealed. It begins at offset from of the residuals topic, or at
// the beginning of the sealed range if that is later.
func (r *residualsOf) reader(partition int, from int64) *residualsReader {
	seal := r.seal(partition)
	return &residualsReader{
		residualsOf: r, attempt: seal.Attempt, offset: -1,
		messages: r.client.Log.Range(r.client.Topics.Residuals, partition, max(from, seal.From), seal.To),
	}
}

func (r *residualsReader) close() { r.messages.Close() }

// next returns the next part; io.EOF at the end of the sealed range.
func (r *residualsReader) next(ctx context.Context) (*schemas.Residuals, error) {
	if part := r.ahead; part != nil {
		r.ahead = nil
		return part, nil
	}
	for {
		m, err := r.messages.Next(ctx)
		if errors.As(err, new(*kafkalog.DeletedError)) {
			return nil, fmt.Errorf("%w: %w", errUnsealed, err)
		}
		if err != nil {
			return nil, err
		}
		head, err := schemas.ResidualsHeader(m.Message)
		if err != nil || head.Run != r.run || head.Stage != r.stage || head.Parent != r.parent || head.Attempt != r.attempt {
			continue // of another worker, or of weights that were not accepted
		}
		if head.Offset < r.offset || head.Offset == r.offset && head.Row < r.row {
			continue // a repetition
		}
		part, err := r.client.Codec.DecodeResiduals(m.Message, r.classes)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errUnsealed, err)
		}
		if r.votes != (part.Votes != nil) && len(part.Score) > 0 {
			return nil, fmt.Errorf("%w: votes at offset %d: %v, expected %v", errUnsealed, part.Offset, part.Votes != nil, r.votes)
		}
		if part.Offset != r.offset {
			r.row = 0
		}
		if part.Row != r.row {
			return nil, fmt.Errorf("%w: row %d of offset %d follows row %d", errUnsealed, part.Row, part.Offset, r.row)
		}
		r.at, r.offset = m.Offset, part.Offset
		r.row += len(part.Score) / r.classes
		return part, nil
	}
}

// load reads the scores of a load's messages, in the unit of the next stage's link, and their votes.
func (r *residualsReader) load(ctx context.Context, l *load) error {
	l.scores, l.votes = make([]kernel.Dense, len(l.messages)), make([]kernel.Dense, len(l.messages))
	for i := range l.scores {
		l.scores[i].Cols, l.votes[i].Cols = r.classes, r.classes
	}
	for i := 0; ; {
		part, err := r.next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if part.Offset >= l.segment().Span.To {
			r.ahead = part
			break
		}
		for i < len(l.messages) && l.messages[i].Offset < part.Offset {
			i++
		}
		if i < len(l.messages) && l.messages[i].Offset == part.Offset {
			score, votes := &l.scores[i], &l.votes[i]
			score.Data, votes.Data = append(score.Data, part.Score...), append(votes.Data, part.Votes...)
			score.Rows, votes.Rows = len(score.Data)/r.classes, len(votes.Data)/r.classes
		}
	}
	for _, score := range l.scores {
		if r.begins {
			clear(score.Data)
		} else {
			link.Convert(score, r.from, r.to, &r.scratch)
		}
	}
	return nil
}

// restore reads the sealed residuals of a partition and checks them against the seal. It copies the scores to the batches that are
// in memory, and notes where those of the other segments begin. The error wraps errUnsealed if the residuals must be computed
// again. Some batches then have wrong scores.
func (r *residualsOf) restore(ctx context.Context, p *partition.State) error {
	seal := r.seal(p.Partition())
	if seal == nil || seal.Parent != r.parent {
		return errUnsealed
	}
	if p.HasScoresAfter(r.stage) { // this worker has published them, and still has them
		p.Advance(r.from, r.to)
		return nil
	}
	reader := r.reader(p.Partition(), 0)
	defer reader.close()
	var digester sink.Digester
	rows := int64(0)
	p.BeginResiduals(seal.To)
	for {
		part, err := reader.next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		digester.Add(part.Offset, part.Row, part.Score, part.Votes)
		rows += int64(len(part.Score) / r.classes)
		if !p.AddResiduals(part, reader.at) {
			return fmt.Errorf("%w: offset %d is not of the run", errUnsealed, part.Offset)
		}
	}
	p.EndResiduals()
	if digest := digester.Digest(); rows != seal.Rows || digest != seal.Scores {
		return fmt.Errorf("%w: %d rows with digest %s, sealed %d with %s", errUnsealed, rows, digest.Short(), seal.Rows, seal.Scores.Short())
	}
	if r.begins {
		p.ClearScores()
	} else {
		p.ConvertScores(r.from, r.to)
	}
	return nil
}
