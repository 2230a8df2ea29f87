package run

import (
	"cmp"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/solve"
)

// Codec encodes what the roles write to topics as messages, and decodes messages. A simulation decodes the same contents
// millions of times: its codec does the work once for each content. A codec is safe for concurrent use.
type Codec interface {
	// EncodeSingle returns the messages of a record in float32. Nobody may change its values afterwards: those who read the record may have them.
	EncodeSingle(r *schemas.Record[float32]) ([]schemas.Message, error)
	// EncodeDouble returns the messages of a record in float64.
	EncodeDouble(r *schemas.Record[float64]) ([]schemas.Message, error)
	// Give is EncodeDouble for a writer that uses the record's tensors no more. If it is awaited, the first who reads the record has them. They stay in
	// memory until then, or until the writer gives another record of the partition.
	Give(r *schemas.Record[float64], awaited bool) ([]schemas.Message, error)
	// CollectSingle takes a message of a record in float32. It returns the record if this message completes it, or else nil. Other callers may
	// get the same values, so nobody may change them.
	CollectSingle(c *schemas.Collector[float32], m schemas.Message) (*schemas.Record[float32], error)
	// CollectDouble is CollectSingle for float64. The caller may change the values of the record that it returns.
	CollectDouble(c *schemas.Collector[float64], m schemas.Message) (*schemas.Record[float64], error)
	// EncodeResiduals returns the residuals messages of one examples message.
	EncodeResiduals(id schemas.Identity, attempt string, offset int64, f sink.Finished) ([]schemas.Message, error)
	// DecodeResiduals decodes a residuals message, whose rows must have this many classes.
	DecodeResiduals(m schemas.Message, classes int) (*schemas.Residuals, error)
	// DecodeExamples reads an examples message. The caller releases it.
	DecodeExamples(value []byte) (*schemas.Examples, error)
	// SurveyResult returns what the record of a survey's result says. Nobody may change that.
	SurveyResult(r *schemas.Record[float32]) (*schemas.SurveyResult, error)
	// Document takes a message of a document. It returns the whole if this message completes it: see [schemas.Documents.Add].
	Document(d *schemas.Documents, m schemas.Message) (whole schemas.Message, ok bool, err error)
	// Once returns what decode makes of a message that is JSON. Nobody may change that: others may have it too.
	Once(m schemas.Message, decode func(schemas.Message) (any, error)) (any, error)
}

// NewCodec returns the codec of the topics: Arrow, and JSON. Arrow allocates from mem; nil is Go's memory. Each message of a
// record has about chunk bytes at most; 0 is as many as brokers take.
func NewCodec(mem memory.Allocator, chunk int) Codec {
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	return arrowCodec{mem, cmp.Or(chunk, schemas.MaxMessage), new(recent), new(remembered)}
}

type arrowCodec struct {
	mem    memory.Allocator
	chunk  int
	recent *recent
	json   *remembered
}

func (a arrowCodec) EncodeSingle(r *schemas.Record[float32]) ([]schemas.Message, error) {
	messages, err := r.EncodeWithin(a.chunk, a.mem)
	if err == nil {
		record := written(r, messages)
		record.single = r.Tensors
		a.recent.add(record)
	}
	return messages, err
}

func (a arrowCodec) EncodeDouble(r *schemas.Record[float64]) ([]schemas.Message, error) {
	messages, err := r.EncodeWithin(a.chunk, a.mem)
	if err == nil {
		a.recent.add(written(r, messages))
	}
	return messages, err
}

func (a arrowCodec) Give(r *schemas.Record[float64], awaited bool) ([]schemas.Message, error) {
	if !awaited {
		return a.EncodeDouble(r)
	}
	messages, err := r.EncodeWithin(a.chunk, a.mem)
	if err == nil {
		record := written(r, messages)
		record.given = r.Tensors
		a.recent.give(record)
	}
	return messages, err
}

func (a arrowCodec) CollectSingle(c *schemas.Collector[float32], m schemas.Message) (*schemas.Record[float32], error) {
	whole, err := c.Collect(m)
	if err != nil || whole == nil {
		return nil, err
	}
	return a.recent.readSingle(whole, a.mem)
}

func (a arrowCodec) CollectDouble(c *schemas.Collector[float64], m schemas.Message) (*schemas.Record[float64], error) {
	whole, err := c.Collect(m)
	if err != nil || whole == nil {
		return nil, err
	}
	return a.recent.readDouble(whole, a.mem)
}

func (a arrowCodec) EncodeResiduals(id schemas.Identity, attempt string, offset int64, f sink.Finished) ([]schemas.Message, error) {
	return sink.Messages(id, attempt, offset, f, a.mem)
}

func (a arrowCodec) DecodeResiduals(m schemas.Message, classes int) (*schemas.Residuals, error) {
	return schemas.DecodeResiduals(m, classes, a.mem)
}

func (a arrowCodec) DecodeExamples(value []byte) (*schemas.Examples, error) {
	return schemas.DecodeExamples(value, a.mem)
}

func (a arrowCodec) SurveyResult(r *schemas.Record[float32]) (*schemas.SurveyResult, error) {
	return schemas.SurveyResultOf(r)
}

func (a arrowCodec) Document(d *schemas.Documents, m schemas.Message) (whole schemas.Message, ok bool, err error) {
	return d.Add(m)
}

func (a arrowCodec) Once(m schemas.Message, decode func(schemas.Message) (any, error)) (any, error) {
	if value, known := a.json.find(m); known {
		return value, nil
	}
	value, err := decode(m)
	if err == nil {
		a.json.remember(m, value)
	}
	return value, err
}

// DecodeJSON is [schemas.DecodeJSON] by a codec. Nobody may change what it returns.
func DecodeJSON[T schemas.JSON](c Codec, m schemas.Message) (*T, error) {
	return once(c, m, schemas.DecodeJSON[T])
}

// once calls the codec's method of that name for a type.
func once[T any](c Codec, m schemas.Message, decode func(schemas.Message) (*T, error)) (*T, error) {
	value, err := c.Once(m, func(m schemas.Message) (any, error) { return decode(m) })
	if err != nil {
		return nil, err
	}
	return value.(*T), nil
}

// identified is a plan and the id of its run, which takes long to find.
type identified struct {
	plan *schemas.Plan
	run  string
}

// DecodePlan reads a plan that can be followed, and returns the id of its run with it. Nobody may change the plan.
func DecodePlan(c Codec, m schemas.Message) (p *schemas.Plan, run string, err error) {
	decoded, err := once(c, m, func(m schemas.Message) (*identified, error) {
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

// DecodeManifest reads a manifest whose plan can be followed. Nobody may change it.
func DecodeManifest(c Codec, m schemas.Message) (*schemas.Manifest, error) {
	return once(c, m, func(m schemas.Message) (*schemas.Manifest, error) {
		manifest, err := schemas.DecodeJSON[schemas.Manifest](m)
		if err == nil {
			err = checkPlan(manifest.Plan)
		}
		return manifest, err
	})
}

// CheckPlan returns an error for a plan that [DecodePlan] would not return: nobody would work on its run. Too many segments are a
// *[schemas.SegmentsError].
func CheckPlan(p *schemas.Plan) error {
	if err := p.Check(); err != nil {
		return err
	}
	return checkPlan(p)
}

// checkPlan returns an error if the plan can't have been submitted. Whoever follows a plan relies on its options.
func checkPlan(p *schemas.Plan) error {
	if err := model.CheckPlan(p); err != nil {
		return err
	}
	for _, s := range p.Stages {
		if problems := solve.Check(s); len(problems) > 0 {
			return fmt.Errorf("%w: plan: %w", schemas.ErrDamaged, problems[0])
		}
	}
	return nil
}

// encode returns the messages of a record of either precision.
func encode[T schemas.Number](c Codec, r *schemas.Record[T]) ([]schemas.Message, error) {
	switch r := any(r).(type) {
	case *schemas.Record[float32]:
		return c.EncodeSingle(r)
	case *schemas.Record[float64]:
		return c.EncodeDouble(r)
	}
	panic(fmt.Sprintf("run: no messages for a %T", r))
}
