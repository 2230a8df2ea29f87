package codec

import (
	"cmp"
	"fmt"

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

// Codec encodes and decodes the messages of the roles. A simulation decodes the same contents
// millions of times: its codec does the work once for each content. A codec is safe for concurrent use.
type Codec interface {
	// EncodeSingle returns the messages of a record in float32. Nobody may change its values afterwards: those who read
	// the record may have them.
	EncodeSingle(r *wire.Record[float32]) ([]wire.Message, error)
	// EncodeDouble returns the messages of a record in float64.
	EncodeDouble(r *wire.Record[float64]) ([]wire.Message, error)
	// Give is EncodeDouble for a writer that uses the record's tensors no more. If it is awaited, the first who reads the
	// record has them. They stay in memory until then, or until the writer gives another record of the partition.
	Give(r *wire.Record[float64], awaited bool) ([]wire.Message, error)
	// CollectSingle takes a message of a record in float32. It returns the record if this message completes it, or else nil. Other callers may
	// get the same values, so nobody may change them.
	CollectSingle(c *wire.Collector[float32], m wire.Message) (*wire.Record[float32], error)
	// CollectDouble is CollectSingle for float64. The caller may change the values of the record that it returns.
	CollectDouble(c *wire.Collector[float64], m wire.Message) (*wire.Record[float64], error)
	// EncodeResiduals returns the residuals messages of one examples message.
	EncodeResiduals(id wire.Identity, attempt string, offset int64, f sink.Finished) ([]wire.Message, error)
	// DecodeResiduals decodes a residuals message, whose rows must have this many classes.
	DecodeResiduals(m wire.Message, classes int) (*residuals.Message, error)
	// DecodeExamples reads an examples message. The caller releases it.
	DecodeExamples(value []byte) (*examples.Batch, error)
	// SurveyResult returns what the record of a survey's result says. Nobody may change that.
	SurveyResult(r *wire.Record[float32]) (*statistics.SurveyResult, error)
	// Document takes a message of a document. It returns the whole if this message completes it: see [wire.Documents.Add].
	Document(d *wire.Documents, m wire.Message) (whole wire.Message, ok bool, err error)
	// Once returns what decode makes of a message that is JSON. Nobody may change that: others may have it too.
	Once(m wire.Message, decode func(wire.Message) (any, error)) (any, error)
}

// New returns the codec of the topics: Arrow, and JSON. Arrow allocates from mem; nil is Go's memory. Each message of a
// record has about chunk bytes at most; 0 is as many as brokers take.
func New(mem memory.Allocator, chunk int) Codec {
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	return arrowCodec{mem, cmp.Or(chunk, wire.MaxMessage), new(recent), new(remembered)}
}

type arrowCodec struct {
	mem    memory.Allocator
	chunk  int
	recent *recent
	json   *remembered
}

func (a arrowCodec) EncodeSingle(r *wire.Record[float32]) ([]wire.Message, error) {
	messages, err := r.EncodeWithin(a.chunk, a.mem)
	if err == nil {
		record := written(a.recent, r, messages)
		record.single = r.Tensors
		a.recent.add(record)
	}
	return messages, err
}

func (a arrowCodec) EncodeDouble(r *wire.Record[float64]) ([]wire.Message, error) {
	messages, err := r.EncodeWithin(a.chunk, a.mem)
	if err == nil {
		a.recent.add(written(a.recent, r, messages))
	}
	return messages, err
}

func (a arrowCodec) Give(r *wire.Record[float64], awaited bool) ([]wire.Message, error) {
	if !awaited {
		return a.EncodeDouble(r)
	}
	messages, err := r.EncodeWithin(a.chunk, a.mem)
	if err == nil {
		record := written(a.recent, r, messages)
		record.given = r.Tensors
		a.recent.give(record)
	}
	return messages, err
}

func (a arrowCodec) CollectSingle(c *wire.Collector[float32], m wire.Message) (*wire.Record[float32], error) {
	whole, err := c.Collect(m)
	if err != nil || whole == nil {
		return nil, err
	}
	return a.recent.readSingle(whole, a.mem)
}

func (a arrowCodec) CollectDouble(c *wire.Collector[float64], m wire.Message) (*wire.Record[float64], error) {
	whole, err := c.Collect(m)
	if err != nil || whole == nil {
		return nil, err
	}
	r, err := a.recent.readDouble(whole, a.mem)
	if err == nil {
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
func DecodeJSON[T schemas.JSON](c Codec, m wire.Message) (*T, error) {
	return once(c, m, schemas.DecodeJSON[T])
}

// once calls the codec's method of that name for a type.
func once[T any](c Codec, m wire.Message, decode func(wire.Message) (*T, error)) (*T, error) {
	value, err := c.Once(m, func(m wire.Message) (any, error) { return decode(m) })
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

// DecodeManifest reads a manifest whose plan can be followed. Nobody may change it.
func DecodeManifest(c Codec, m wire.Message) (*schemas.Manifest, error) {
	return once(c, m, func(m wire.Message) (*schemas.Manifest, error) {
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
			return fmt.Errorf("%w: plan: %w", wire.ErrDamaged, problems[0])
		}
	}
	return nil
}

// EncodeRecord returns the messages of a record of either precision.
func EncodeRecord[T wire.Number](c Codec, r *wire.Record[T]) ([]wire.Message, error) {
	switch r := any(r).(type) {
	case *wire.Record[float32]:
		return c.EncodeSingle(r)
	case *wire.Record[float64]:
		return c.EncodeDouble(r)
	}
	panic(fmt.Sprintf("run: no messages for a %T", r))
}
