package protocol

import (
	"cmp"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/solve"
)

// Codec encodes and decodes messages in Arrow. It is safe for concurrent use. Create one with [NewCodec].
type Codec struct {
	mem   memory.Allocator
	chunk int // size of the messages of a record in bytes
}

// NewCodec returns a codec that allocates from mem; nil means the Go heap. Each message of a record has at most about chunk bytes;
// 0 means the brokers' limit.
func NewCodec(mem memory.Allocator, chunk int) Codec {
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	return Codec{mem, cmp.Or(chunk, wire.MaxMessage)}
}

// EncodeSingle returns the messages of a record in float32.
func (c Codec) EncodeSingle(r *wire.Record[float32]) ([]wire.Message, error) {
	return r.EncodeWithin(c.chunk, c.mem)
}

// EncodeDouble returns the messages of a record in float64.
func (c Codec) EncodeDouble(r *wire.Record[float64]) ([]wire.Message, error) {
	return r.EncodeWithin(c.chunk, c.mem)
}

// CollectSingle adds a message of a record in float32. It returns the record if the message completes it, and nil otherwise.
func (c Codec) CollectSingle(of *wire.Collector[float32], m wire.Message) (*wire.Record[float32], error) {
	return of.Add(m, c.mem)
}

// CollectDouble is CollectSingle for float64.
func (c Codec) CollectDouble(of *wire.Collector[float64], m wire.Message) (*wire.Record[float64], error) {
	r, err := of.Add(m, c.mem)
	if err == nil && r != nil {
		err = statistics.CheckCounts(r)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// EncodeResiduals returns the residuals messages of an examples message.
func (c Codec) EncodeResiduals(id wire.Identity, attempt string, offset int64, f sink.Finished) ([]wire.Message, error) {
	return sink.Messages(id, attempt, offset, f, c.mem)
}

// DecodeResiduals decodes a residuals message, whose rows must have the given number of classes.
func (c Codec) DecodeResiduals(m wire.Message, classes int) (*schemas.Residuals, error) {
	return schemas.DecodeResiduals(m, classes, c.mem)
}

// DecodeExamples decodes an examples message. The caller releases the batch.
func (c Codec) DecodeExamples(value []byte) (*examples.Batch, error) {
	return examples.Decode(value, c.mem)
}

// DecodePlan decodes a valid plan, and returns it with its run id.
func DecodePlan(m wire.Message) (p *schemas.Plan, run string, err error) {
	if p, err = schemas.DecodeJSON[schemas.Plan](m); err == nil {
		err = checkPlan(p)
	}
	if err != nil {
		return nil, "", err
	}
	return p, p.Run(), nil
}

// DecodeManifest decodes a manifest with a valid plan.
func DecodeManifest(m wire.Message) (*schemas.Manifest, error) {
	manifest, err := schemas.DecodeJSON[schemas.Manifest](m)
	if err == nil {
		err = checkPlan(manifest.Plan)
	}
	return manifest, err
}

// CheckPlan returns an error for a plan that [DecodePlan] would reject, so that no role would process its run. The error
// for too many segments is a *[schemas.SegmentsError].
func CheckPlan(p *schemas.Plan) error {
	if err := p.Check(); err != nil {
		return err
	}
	return checkPlan(p)
}

// checkPlan returns an error if a plan is invalid. The roles rely on its options.
func checkPlan(p *schemas.Plan) error {
	if err := model.CheckPlan(p); err != nil {
		return err
	}
	for _, s := range p.Stages {
		if problems := solve.Check(s); len(problems) > 0 {
			return fmt.Errorf("%w: plan: %w", wire.ErrDamaged, problems[0])
		}
	}
	return nil
}

// Records are the statistics of a visit of which nothing is sent: see [schemas.Update].
type Records struct {
	Doubles []*wire.Record[float64]
	Singles []*wire.Record[float32]
}
