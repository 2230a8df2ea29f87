package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/sink"
)

// residualsOf is the residuals that a stage published, as its successor reads
// them.
type residualsOf struct {
	run      string
	stage    int
	parent   schemas.Digest // of the stage's final weights
	from, to link.Link      // of the stage and of its successor
	classes  int
}

// errUnsealed says that sealed residuals are not what their seal says, or are
// gone: they are computed and published again.
var errUnsealed = errors.New("the residuals are not as they were sealed")

// residualsReader reads the parts of a share's residuals in the order of its
// examples, whatever repetitions, and writers that thought they owned the
// partition, have left between them.
type residualsReader struct {
	*residualsOf
	messages reader
	attempt  string
	ahead    *schemas.Residuals // read, and not yet asked for
	at       int64              // offset on the residuals topic of the last part
	offset   int64              // of its examples message
	row      int                // first row that is not yet read of it
	scratch  link.Scratch
	codec    codec
}

// reader begins at an offset of the residuals topic, at the least where the
// seal does.
func (r *residualsOf) reader(d desk, s *share, from int64) *residualsReader {
	seal := s.seals[r.stage]
	return &residualsReader{
		residualsOf: r, attempt: seal.Attempt, offset: -1, codec: d.codec,
		messages: d.log.Range(d.residuals, s.span.Partition, max(from, seal.From), seal.To),
	}
}

func (r *residualsReader) close() { r.messages.Close() }

// next is the next part; io.EOF at the end of the sealed range.
func (r *residualsReader) next(ctx context.Context) (*schemas.Residuals, error) {
	if part := r.ahead; part != nil {
		r.ahead = nil
		return part, nil
	}
	for {
		m, err := r.messages.Next(ctx)
		if deleted := (*kafkalog.DeletedError)(nil); errors.As(err, &deleted) {
			return nil, fmt.Errorf("%w: %w", errUnsealed, err)
		}
		if err != nil {
			return nil, err
		}
		head, err := schemas.ResidualsHeader(m.Message)
		if err != nil || head.Run != r.run || head.Stage != r.stage || head.Parent != r.parent || head.Attempt != r.attempt {
			continue // not ours, or of weights that were not accepted
		}
		if head.Offset < r.offset || head.Offset == r.offset && head.Row < r.row {
			continue // a repetition
		}
		part, err := r.codec.residuals(m.Message, r.classes)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errUnsealed, err)
		}
		if part.Offset != r.offset {
			r.row = 0
		}
		if part.Row != r.row {
			return nil, fmt.Errorf("%w: row %d of offset %d follows row %d", errUnsealed, part.Row, part.Offset, r.row)
		}
		r.at, r.offset = m.offset, part.Offset
		r.row += len(part.Score) / r.classes
		return part, nil
	}
}

// fill reads the scores of the messages of a load, in the unit of the
// successor's link.
func (r *residualsReader) fill(ctx context.Context, l *load) error {
	l.scores = make([]kernel.Dense, len(l.raw))
	for i := range l.scores {
		l.scores[i].Cols = r.classes
	}
	for at := 0; ; {
		part, err := r.next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if part.Offset >= l.segment().span.To {
			r.ahead = part
			break
		}
		for at < len(l.raw) && l.raw[at].offset < part.Offset {
			at++
		}
		if at < len(l.raw) && l.raw[at].offset == part.Offset {
			score := &l.scores[at]
			score.Data = append(score.Data, part.Score...)
			score.Rows = len(score.Data) / r.classes
		}
	}
	for _, score := range l.scores {
		link.Convert(score, r.from, r.to, &r.scratch)
	}
	return nil
}

// advance makes the scores after the stage those before its successor.
func (r *residualsOf) advance(s *share) {
	scratch := new(link.Scratch)
	for _, segment := range s.segments {
		for _, b := range segment.batches {
			b.score, b.after = b.after, b.score
			link.Convert(b.score, r.from, r.to, scratch)
		}
	}
	s.sealed = unknown
}

// restore reads all that a share's seal vouches for, checks it, hands the
// scores to the batches that are in memory and notes where those of the other
// segments begin. The error is errUnsealed if they have to be made again.
func (r *residualsOf) restore(ctx context.Context, d desk, s *share) error {
	seal := s.seals[r.stage]
	if seal == nil || seal.Parent != r.parent {
		return errUnsealed
	}
	if s.sealed == r.stage { // by this worker, of what is in its memory
		r.advance(s)
		return nil
	}
	reader := r.reader(d, s, 0)
	defer reader.close()
	var digester sink.Digester
	rows, at := int64(0), 0
	for _, segment := range s.segments {
		segment.residuals = seal.To
	}
	for {
		part, err := reader.next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		digester.Add(part.Offset, part.Row, part.Score)
		rows += int64(len(part.Score) / r.classes)
		for at < len(s.segments) && s.segments[at].span.To <= part.Offset {
			at++
		}
		if at == len(s.segments) {
			return fmt.Errorf("%w: offset %d is not of the run", errUnsealed, part.Offset)
		}
		segment := s.segments[at]
		segment.residuals = min(segment.residuals, reader.at)
		for _, b := range segment.batches {
			if b.offset == part.Offset && (part.Row+len(part.Score)/r.classes)*r.classes <= len(b.score.Data) {
				copy(b.score.Data[part.Row*r.classes:], part.Score)
			}
		}
	}
	for i := len(s.segments) - 2; i >= 0; i-- {
		s.segments[i].residuals = min(s.segments[i].residuals, s.segments[i+1].residuals)
	}
	if digest := digester.Digest(); rows != seal.Rows || digest != seal.Scores {
		return fmt.Errorf("%w: %d rows with digest %s, sealed %d with %s", errUnsealed, rows, digest.Short(), seal.Rows, seal.Scores.Short())
	}
	for _, segment := range s.segments {
		for _, b := range segment.batches {
			link.Convert(b.score, r.from, r.to, &reader.scratch)
		}
	}
	return nil
}
