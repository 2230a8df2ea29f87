package pipeline

import (
	"cmp"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/sink"
)

// codec is how what the roles say becomes messages, and messages become it again.
// A simulation, in which the same is said millions of times, has one that does the
// same work once for each content.
type codec interface {
	// single and double make the messages of a record.
	single(r *schemas.Record[float32]) ([]schemas.Message, error)
	double(r *schemas.Record[float64]) ([]schemas.Message, error)
	// collectSingle and collectDouble take a message of a record, and answer with the
	// record when it completes one. A double's values are the caller's to change.
	collectSingle(c *schemas.Collector[float32], m schemas.Message) (*schemas.Record[float32], error)
	collectDouble(c *schemas.Collector[float64], m schemas.Message) (*schemas.Record[float64], error)
	// leftOver makes the residuals messages of one examples message.
	leftOver(id schemas.Identity, attempt string, offset int64, score, residual kernel.Dense) ([]schemas.Message, error)
	residuals(m schemas.Message, classes int) (*schemas.Residuals, error)
	// examples reads an examples message; the caller releases what it has.
	examples(value []byte) (*schemas.Examples, error)
	// plan reads a plan that can be followed, and the id of its run.
	plan(m schemas.Message) (p *schemas.Plan, run string, err error)
	// manifest reads a manifest whose plan can be.
	manifest(m schemas.Message) (*schemas.Manifest, error)
}

// formats are the codec of the topics: Arrow, and JSON for plans.
type formats struct {
	mem   memory.Allocator
	chunk int // bytes of the messages of a record; 0: as many as there may be
}

func (f formats) bytes() int { return cmp.Or(f.chunk, schemas.MaxMessage) }

func (f formats) single(r *schemas.Record[float32]) ([]schemas.Message, error) {
	return r.EncodeWithin(f.bytes(), f.mem)
}

func (f formats) double(r *schemas.Record[float64]) ([]schemas.Message, error) {
	return r.EncodeWithin(f.bytes(), f.mem)
}

func (f formats) collectSingle(c *schemas.Collector[float32], m schemas.Message) (*schemas.Record[float32], error) {
	return c.Add(m, f.mem)
}

func (f formats) collectDouble(c *schemas.Collector[float64], m schemas.Message) (*schemas.Record[float64], error) {
	return c.Add(m, f.mem)
}

func (f formats) leftOver(id schemas.Identity, attempt string, offset int64, score, residual kernel.Dense) ([]schemas.Message, error) {
	return sink.Messages(id, attempt, offset, score, residual, f.mem)
}

func (f formats) residuals(m schemas.Message, classes int) (*schemas.Residuals, error) {
	return schemas.DecodeResiduals(m, classes, f.mem)
}

func (f formats) examples(value []byte) (*schemas.Examples, error) {
	return schemas.DecodeExamples(value, f.mem)
}

func (f formats) plan(m schemas.Message) (p *schemas.Plan, run string, err error) {
	if p, err = schemas.DecodeJSON[schemas.Plan](m); err == nil {
		err = sound(p)
	}
	if err != nil {
		return nil, "", err
	}
	return p, p.Run(), nil
}

func (f formats) manifest(m schemas.Message) (*schemas.Manifest, error) {
	manifest, err := schemas.DecodeJSON[schemas.Manifest](m)
	if err == nil {
		err = sound(manifest.Plan)
	}
	return manifest, err
}

// messagesOf is a record of either precision as messages.
func messagesOf[T schemas.Number](c codec, r *schemas.Record[T]) ([]schemas.Message, error) {
	switch r := any(r).(type) {
	case *schemas.Record[float32]:
		return c.single(r)
	case *schemas.Record[float64]:
		return c.double(r)
	}
	panic(fmt.Sprintf("pipeline: no messages for a %T", r))
}
