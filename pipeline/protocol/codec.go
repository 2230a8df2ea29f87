package protocol

import (
	"cmp"
	"fmt"
	"iter"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/residuals"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/solve"
)

// Codec encodes and decodes the messages of the roles. The codec of a simulation, which decodes the same content millions
// of times, caches the results. A codec is safe for concurrent use.
type Codec interface {
	// EncodeSingle returns the messages of a record in float32.
	EncodeSingle(r *wire.Record[float32]) ([]wire.Message, error)
	// EncodeDouble returns the messages of a record in float64.
	EncodeDouble(r *wire.Record[float64]) ([]wire.Message, error)
	// EachSingle is EncodeSingle for a large record. It yields one message at a time.
	EachSingle(r *wire.Record[float32]) iter.Seq2[wire.Message, error]
	// EachDouble is EncodeDouble for a large record. It yields one message at a time.
	EachDouble(r *wire.Record[float64]) iter.Seq2[wire.Message, error]
	// CollectSingle adds a message of a record in float32. It returns the record if the message completes it, and nil
	// otherwise. The values are shared between callers and must not be modified.
	CollectSingle(c *wire.Collector[float32], m wire.Message) (*wire.Record[float32], error)
	// CollectDouble is CollectSingle for float64. The caller may modify the values of the record.
	CollectDouble(c *wire.Collector[float64], m wire.Message) (*wire.Record[float64], error)
	// EncodeResiduals returns the residuals messages of an examples message.
	EncodeResiduals(id wire.Identity, attempt string, offset int64, f sink.Finished) ([]wire.Message, error)
	// DecodeResiduals decodes a residuals message, whose rows must have the given number of classes.
	DecodeResiduals(m wire.Message, classes int) (*residuals.Message, error)
	// DecodeExamples decodes an examples message. The caller releases the batch.
	DecodeExamples(value []byte) (*examples.Batch, error)
	// SurveyResult decodes the record of a survey's result. The result must not be modified.
	SurveyResult(r *wire.Record[float32]) (*statistics.SurveyResult, error)
	// Document adds a message of a document. It returns the whole document if the message completes it: see
	// [wire.Documents.Add].
	Document(d *wire.Documents, m wire.Message) (whole wire.Message, ok bool, err error)
	// Once decodes a JSON message. The result may be shared and must not be modified.
	Once(m wire.Message, decode func(wire.Message) (any, error)) (any, error)
}

// NewCodec returns the codec for Arrow and JSON messages. Arrow allocates from mem; nil means the Go heap. Each message of a
// record has at most about chunk bytes; 0 means the brokers' limit.
func NewCodec(mem memory.Allocator, chunk int) Codec {
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	return arrowCodec{mem, cmp.Or(chunk, wire.MaxMessage)}
}

type arrowCodec struct {
	mem   memory.Allocator
	chunk int
}

func (a arrowCodec) EncodeSingle(r *wire.Record[float32]) ([]wire.Message, error) {
	return r.EncodeWithin(a.chunk, a.mem)
}

func (a arrowCodec) EncodeDouble(r *wire.Record[float64]) ([]wire.Message, error) {
	return r.EncodeWithin(a.chunk, a.mem)
}

func (a arrowCodec) EachSingle(r *wire.Record[float32]) iter.Seq2[wire.Message, error] {
	return r.EachWithin(a.chunk, a.mem)
}

func (a arrowCodec) EachDouble(r *wire.Record[float64]) iter.Seq2[wire.Message, error] {
	return r.EachWithin(a.chunk, a.mem)
}

func (a arrowCodec) CollectSingle(c *wire.Collector[float32], m wire.Message) (*wire.Record[float32], error) {
	return c.Add(m, a.mem)
}

func (a arrowCodec) CollectDouble(c *wire.Collector[float64], m wire.Message) (*wire.Record[float64], error) {
	r, err := c.Add(m, a.mem)
	if err == nil && r != nil {
		err = statistics.CheckCounts(r)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (a arrowCodec) EncodeResiduals(id wire.Identity, attempt string, offset int64, f sink.Finished) ([]wire.Message, error) {
	return sink.Messages(id, attempt, offset, f, a.mem)
}

func (a arrowCodec) DecodeResiduals(m wire.Message, classes int) (*residuals.Message, error) {
	return residuals.Decode(m, classes, a.mem)
}

func (a arrowCodec) DecodeExamples(value []byte) (*examples.Batch, error) {
	return examples.Decode(value, a.mem)
}

func (a arrowCodec) SurveyResult(r *wire.Record[float32]) (*statistics.SurveyResult, error) {
	return statistics.SurveyResultOf(r)
}

func (a arrowCodec) Document(d *wire.Documents, m wire.Message) (whole wire.Message, ok bool, err error) {
	return d.Add(m)
}

func (a arrowCodec) Once(m wire.Message, decode func(wire.Message) (any, error)) (any, error) {
	return decode(m)
}

// decodeJSON is [schemas.DecodeJSON] through a codec. The result is shared and must not be modified.
func decodeJSON[T schemas.JSON](c Codec, m wire.Message) (*T, error) {
	return once(c, m, schemas.DecodeJSON[T])
}

// once is the typed form of [Codec.Once].
func once[T any](c Codec, m wire.Message, decode func(wire.Message) (*T, error)) (*T, error) {
	value, err := c.Once(m, func(m wire.Message) (any, error) { return decode(m) })
	if err != nil {
		return nil, err
	}
	return value.(*T), nil
}

// identified is a plan with its run id, which is expensive to compute.
type identified struct {
	plan *schemas.Plan
	run  string
}

// DecodePlan decodes a valid plan, and returns it with its run id. The plan must not be modified.
func DecodePlan(c Codec, m wire.Message) (p *schemas.Plan, run string, err error) {
	decoded, err := once(c, m, func(m wire.Message) (*identified, error) {
		p, err := schemas.DecodeJSON[schemas.Plan](m)
		if err == nil {
			err = checkPlan(p)
		}
		if err != nil {
			return nil, err
		}
		return &identified{p, p.Run()}, nil
	})
	if err != nil {
		return nil, "", err
	}
	return decoded.plan, decoded.run, nil
}

// DecodeManifest decodes a manifest with a valid plan. The manifest must not be modified.
func DecodeManifest(c Codec, m wire.Message) (*schemas.Manifest, error) {
	return once(c, m, func(m wire.Message) (*schemas.Manifest, error) {
		manifest, err := schemas.DecodeJSON[schemas.Manifest](m)
		if err == nil {
			err = checkPlan(manifest.Plan)
		}
		return manifest, err
	})
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

// largeRecord is the size of a record in bytes above which only a few of its messages are in memory at the same time: encodedBatch.
const largeRecord, encodedBatch = 32 << 20, 9

// encodeBatches yields the messages of a record in either precision, those of a large record a few at a time.
func encodeBatches[T wire.Number](c Codec, r *wire.Record[T]) iter.Seq2[[]wire.Message, error] {
	var (
		bytes int
		whole func() ([]wire.Message, error)
		each  iter.Seq2[wire.Message, error]
	)
	switch r := any(r).(type) {
	case *wire.Record[float32]:
		bytes, each = 4, c.EachSingle(r)
		whole = func() ([]wire.Message, error) { return c.EncodeSingle(r) }
	case *wire.Record[float64]:
		bytes, each = 8, c.EachDouble(r)
		whole = func() ([]wire.Message, error) { return c.EncodeDouble(r) }
	}
	values := 0
	for _, t := range r.Tensors {
		values += len(t.Data)
	}
	return func(yield func([]wire.Message, error) bool) {
		if bytes*values <= largeRecord {
			yield(whole())
			return
		}
		var messages []wire.Message
		for m, err := range each {
			if err != nil {
				yield(nil, err)
				return
			}
			if messages = append(messages, m); len(messages) == encodedBatch {
				if !yield(messages, nil) {
					return
				}
				messages = nil
			}
		}
		if len(messages) > 0 {
			yield(messages, nil)
		}
	}
}
