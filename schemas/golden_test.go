package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

var update = flag.Bool("update", false, "write the goldens as they are encoded now, and the tables of FORMAT.md")

// kindExamples names the messages of examples here. No header says it, as other producers write to the same topic.
const kindExamples wire.Kind = "examples"

// again decodes a message and encodes the result.
type again func(m wire.Message, mem memory.Allocator) (wire.Message, error)

// kinds returns how the messages of each kind are decoded and encoded again.
func kinds() map[wire.Kind]again {
	return map[wire.Kind]again{
		kindExamples: func(m wire.Message, mem memory.Allocator) (wire.Message, error) {
			_, err := examples.Decode(m.Value, mem)
			return m, err // package examples tests the values
		},
		KindResiduals: func(m wire.Message, mem memory.Allocator) (wire.Message, error) {
			r, err := DecodeResiduals(m, 3, mem)
			if err != nil {
				return m, err
			}
			return r.Encode(mem)
		},
		KindPrediction: func(m wire.Message, mem memory.Allocator) (wire.Message, error) {
			p, err := DecodePrediction(m, mem)
			if err != nil {
				return m, err
			}
			return p.Encode(mem)
		},
		KindQuarantine: func(m wire.Message, _ memory.Allocator) (wire.Message, error) {
			q, err := QuarantinedOf(m)
			if err != nil {
				return m, err
			}
			return q.Message(), nil
		},
		KindPlan: document((*Plan).Messages), KindReport: document((*Report).Messages),
		KindManifest: document((*Manifest).Messages), KindWindow: document((*Window).Messages),
		KindEnd: single((*End).Message), KindClaim: single((*Claim).Message), KindFailure: single((*Failure).Message),
		KindSource: single((*SourceSeal).Message), KindRemoval: single((*Removal).Message), KindPin: single((*Pin).Message),
		KindSourceRemoval: single((*SourceRemoval).Message), KindDivision: single((*Division).Message), KindForget: single((*Forget).Message),
		KindOrigins: single((*Origins).Message),
		KindStage: func(m wire.Message, _ memory.Allocator) (wire.Message, error) {
			s, err := DecodeJSON[StageReport](m)
			if err != nil {
				return m, err
			}
			return s.Message(m.Run()), nil
		},
		statistics.KindVisit: record(func(r *wire.Record[float64]) (*wire.Record[float64], error) {
			if r.Stage != wire.Survey {
				return same[statistics.Visit](r)
			}
			v, err := statistics.SurveyVisitOf(r)
			return v.Record(), err
		}),
		statistics.KindSeal: record(same[statistics.Seal, float64]), statistics.KindPrepare: record(same[statistics.SurveyResult, float32]),
		statistics.KindSample: record(func(r *wire.Record[float32]) (*wire.Record[float32], error) {
			s, err := statistics.SampleOf(wire.Widened(r))
			return s.Record(), err
		}),
		KindWeights: record(same[Weights, float32]), KindStructure: record(same[Weights, float32]),
		statistics.KindLeave: record(same[statistics.Gram, float64]),
		statistics.KindGram: func(m wire.Message, mem memory.Allocator) (wire.Message, error) {
			if !wire.IsSingle(m) {
				return record(same[statistics.Gram, float64])(m, mem)
			}
			return record(same[statistics.Gram, float32])(m, mem)
		},
		statistics.KindMoments: record(func(r *wire.Record[float64]) (*wire.Record[float64], error) {
			if r.Tensors[0].Name == statistics.FieldSummed {
				return same[statistics.OccurringSums](r)
			}
			m, err := statistics.MomentsOf(r, 2, 2)
			return m.Record(r.Identity, 2), err
		}),
		statistics.KindTerms: func(m wire.Message, mem memory.Allocator) (wire.Message, error) {
			if !wire.IsSingle(m) {
				return record(terms)(m, mem)
			}
			return record(func(r *wire.Record[float32]) (*wire.Record[float32], error) {
				terms, err := statistics.OccurringTermsOf(wire.Widened(r), 5, 2)
				return terms.SingleRecord(r.Identity, 2), err
			})(m, mem)
		},
	}
}

// same returns the record of the struct with tags that a record has.
func same[S any, T wire.Number](r *wire.Record[T]) (*wire.Record[T], error) {
	v, err := wire.Read[S](r)
	return wire.RecordOf[T](v), err
}

func terms(r *wire.Record[float64]) (*wire.Record[float64], error) {
	if r.Tensors[0].Name == statistics.FieldOccurring {
		t, err := statistics.OccurringTermsOf(r, 5, 2)
		return t.Record(r.Identity, 2), err
	}
	t, err := statistics.TermsOf(r, 2, 2)
	return t.Record(r.Identity, 2), err
}

func record[T wire.Number](again func(*wire.Record[T]) (*wire.Record[T], error)) again {
	return func(m wire.Message, mem memory.Allocator) (wire.Message, error) {
		r, err := (&wire.Collector[T]{}).Add(m, mem)
		if err != nil {
			return m, err
		}
		if r, err = again(r); err != nil {
			return m, err
		}
		messages, err := r.EncodeWithin(wire.MaxMessage, mem)
		if err != nil {
			return m, err
		}
		return messages[0], nil
	}
}

func document[T JSON](encode func(*T) ([]wire.Message, error)) again {
	return func(m wire.Message, _ memory.Allocator) (wire.Message, error) {
		whole, ok, err := (&wire.Documents{}).Add(m)
		if err != nil || !ok {
			return m, fmt.Errorf("complete: %v, %w", ok, err)
		}
		value, err := DecodeJSON[T](whole)
		if err != nil {
			return m, err
		}
		messages, err := encode(value)
		if err != nil {
			return m, err
		}
		return messages[0], nil
	}
}

func single[T JSON](encode func(*T) wire.Message) again {
	return func(m wire.Message, _ memory.Allocator) (wire.Message, error) {
		value, err := DecodeJSON[T](m)
		if err != nil {
			return m, err
		}
		return encode(value), nil
	}
}

// goldens returns the messages in testdata by name. A message is two files: its key and headers as JSON, and its value.
func goldens(t testing.TB) map[string]wire.Message {
	all := map[string]wire.Message{}
	const suffix = ".headers.json"
	for _, path := range assert.Must(filepath.Glob("testdata/*" + suffix))(t) {
		var m wire.Message
		assert.NoError(t, json.Unmarshal(assert.Must(os.ReadFile(path))(t), &m))
		m.Value = assert.Must(os.ReadFile(valueOf(t, path)))(t)
		all[strings.TrimSuffix(filepath.Base(path), suffix)] = m
	}
	return all
}

// valueOf returns the file with the value of a golden.
func valueOf(t testing.TB, headers string) string {
	files := assert.Must(filepath.Glob(strings.TrimSuffix(headers, "headers.json") + "*"))(t)
	return slices.DeleteFunc(files, func(file string) bool { return file == headers })[0]
}

// kindOf returns the kind of a message.
func kindOf(m wire.Message) wire.Kind {
	if m.Kind() == "" {
		return kindExamples
	}
	return m.Kind()
}

// Messages on topics are decoded, and encoded again with the same bytes. Every kind has a golden, and with -update a golden becomes what
// this program encodes.
func TestGoldens(t *testing.T) {
	mem := assert.Allocator(t)
	kinds, shown := kinds(), map[wire.Kind]bool{}
	for name, m := range goldens(t) {
		shown[kindOf(m)] = true
		if kinds[kindOf(m)] == nil {
			t.Errorf("%s is of kind %s, which kinds does not list", name, kindOf(m))
			continue
		}
		got, err := kinds[kindOf(m)](m, mem)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if *update {
			headers := "testdata/" + name + ".headers.json"
			described := assert.Must(json.MarshalIndent(struct {
				Key     string
				Headers []wire.Header
			}{got.Key, got.Headers}, "", "  "))(t)
			for path, content := range map[string][]byte{headers: append(described, '\n'), valueOf(t, headers): got.Value} {
				assert.NoError(t, os.WriteFile(path, content, 0o644))
			}
		} else if got.Key != m.Key || !slices.Equal(got.Headers, m.Headers) || !bytes.Equal(got.Value, m.Value) {
			t.Errorf("%s has changed: test with -update if this is intended, and FORMAT.md is right\n%+v\nbecame\n%+v", name, m, got)
		}
	}
	for _, kind := range append(declaredKinds(t), kindExamples) {
		assert.True(t, shown[kind], "kind %s has no golden", kind)
	}
}

// The goldens of JSON have every field of their types, so none is lost unseen.
func TestGoldensHaveAllFields(t *testing.T) {
	fields := map[wire.Kind]map[string]bool{}
	for _, m := range goldens(t) {
		var object map[string]any
		if json.Unmarshal(m.Value, &object) == nil {
			if fields[m.Kind()] == nil {
				fields[m.Kind()] = map[string]bool{}
			}
			for field := range object {
				fields[m.Kind()][field] = true
			}
		}
	}
	for kind, value := range map[wire.Kind]any{
		KindPlan: Plan{}, KindReport: Report{}, KindManifest: Manifest{}, KindWindow: Window{}, KindEnd: End{},
		KindClaim: Claim{}, KindFailure: Failure{}, KindSource: SourceSeal{}, KindRemoval: Removal{}, KindPin: Pin{}, KindDivision: Division{},
		KindSourceRemoval: SourceRemoval{}, KindForget: Forget{}, KindStage: StageReport{}, KindOrigins: Origins{},
	} {
		for _, f := range fieldsOf(reflect.TypeOf(value)) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			assert.True(t, fields[kind][name], "no golden of kind %s has the field %s", kind, name)
		}
	}
}

// updatePlan returns the plan of an update that visits one increment again while one leaves.
func updatePlan() *Plan {
	p := plan()
	covered := func(partition int, rows int64) []coverage.Coverage {
		return []coverage.Coverage{{Spans: coverage.Spans{{Partition: partition, From: 0, To: 2}}, Messages: 1, Rows: rows, Checksum: 3}}
	}
	p.Warm = &Warm{Run: "parent", Manifest: "manifest"}
	p.Chain = &Chain{
		Number: 3, Parent: p.Warm, From: 1690000000000, Until: 1700000000000, Open: true, Gate: &Gate{Split: "holdout", Margin: 0.5,
			Offered: *p.Warm}, Begins: []int64{0, 4}, Ends: []int64{2, 6}, Progress: []SourceProgress{{Source: "source", Attempt: "1", Next: []int64{4, 1}}},
		Made: 1700000000001, Marks: []coverage.Mark{{Partition: 1, Offset: 5, Checksum: "0000000f-18bcfe56800"}},
		Lost: coverage.Spans{{Partition: 0, From: 2, To: 3}}, Had: 12, AtLeast: 11, Settings: []Setting{{"seed", "5"}},
		Lacking: &Lacking{Columns: []string{"width"}, Spans: coverage.Spans{{Partition: 0, From: 1, To: 2}}},
		Update: &Update{Passes: 2, Decay: 0.5, Restart: true, Refresh: []coverage.Increment{{Number: 2, Weight: 0.5, Covered: covered(1,
			10), Skipped: coverage.Spans{{Partition: 1, From: 1, To: 2}}}},
			Leave: []coverage.Increment{{Number: 1, Weight: 0.25, Covered: covered(0, 9), Skipped: coverage.Spans{{Partition: 0, From: 1,
				To: 2}}, Uncounted: true, Until: 1600000000000}}},
	}
	p.Forgotten = coverage.Forgotten{{Partition: 1, From: 0, To: 1, First: 2, End: 5}}
	p.Submission = "update"
	return p
}

// positions are how far a topic of two partitions was read.
func positions() []TopicPosition {
	return []TopicPosition{{Partition: 0, Next: 7, Last: "0123456789ab"}, {Partition: 4, Next: 2, Last: "ba9876543210"}}
}

// A message that was ingested says where it is from, and one of another producer does not.
func TestOrigin(t *testing.T) {
	o, ok := OriginOf(goldens(t)["examples"])
	assert.True(t, ok && o == (Origin{Source: "source", Attempt: "1", Sequence: 5}) && o.Of(&SourceSeal{ID: "source", Attempt: "1"}),
		"the golden has origin %+v, %v", o, ok)
	topic := goldens(t)["examples-topic"]
	o, ok = OriginOf(topic)
	assert.True(t, ok && o == (Origin{Source: "topic:clicks", Attempt: "1", Sequence: 5, Next: 9}),
		"the golden of a topic has origin %+v, %v", o, ok)
	assert.Equal(t, assert.Must(TopicPositionsOf(topic))(t), positions(), "the golden of a topic has the positions")
	behind := Origin{Source: "topic:clicks", Attempt: "2", Partitions: 3, After: Turn(1, 9)}
	m, err := behind.TopicMessage(positions(), &examples.Rows{Rows: 1, Cols: 1, Floats: []float32{1}}, memory.DefaultAllocator)
	behind.Next = 9
	assert.NoError(t, err)
	o, ok = OriginOf(m)
	assert.True(t, ok && o == behind, "the origin %+v is read as %+v, %v", behind, o, ok)
	for _, text := range []string{"", "[", `[{"partition":-1}]`, `[{"next":-1}]`} {
		_, err := TopicPositionsOf(wire.Message{Headers: []wire.Header{{Key: headerPositions, Value: text}}})
		assert.True(t, errors.Is(err, wire.ErrDamaged), "positions %s: %v", text, err)
	}
	o, ok = OriginOf(goldens(t)["examples-sparse"])
	assert.True(t, !ok, "another producer's message has origin %+v", o)
	for _, headers := range [][]wire.Header{
		{{Key: headerSource, Value: "source"}, {Key: headerSequence, Value: "5"}}, {{Key: headerSource, Value: "source/1"}}, {{Key: headerSource, Value: "source/1"}, {Key: headerSequence, Value: "-1"}},
		{{Key: headerSource, Value: "source/1"}, {Key: headerSequence, Value: "x"}}, {{Key: "source", Value: "source/1"}, {Key: "sequence", Value: "5"}},
		{{Key: headerSource, Value: "topic:clicks/1"}, {Key: headerSequence, Value: "5"}}, {{Key: headerSource, Value: "topic:clicks/1"}, {Key: headerSequence, Value: "5"}, {Key: headerNext, Value: "5"}},
	} {
		o, ok := OriginOf(wire.Message{Headers: headers})
		assert.True(t, !ok, "%v: %+v, %v", headers, o, ok)
	}
}

// Messages with other bytes or another time have other checksums.
func TestMessageChecksum(t *testing.T) {
	seen := map[string]bool{}
	for _, value := range []string{"", "a", "b"} {
		for _, at := range []int64{0, 1, 1700000000000} {
			seen[MessageChecksum(wire.Message{Value: []byte(value)}, at)] = true
		}
	}
	assert.True(t, len(seen) == 9, "%d checksums of 9 messages", len(seen))
}

// A document of any length comes back whole, in whatever order and however often its messages come, and is never mixed with another.
func TestDocumentsRoundTrip(t *testing.T) {
	for _, length := range []int{0, 1, wire.DocumentChunk - 100, wire.DocumentChunk, wire.DocumentChunk + 1, 3 * wire.DocumentChunk} {
		long := &Manifest{Run: "run", Labels: []string{strings.Repeat("x", length)}}
		other := &Manifest{Run: "run", Labels: []string{strings.Repeat("y", length)}}
		messages := append(assert.Must(long.Messages())(t), assert.Must(other.Messages())(t)...)
		keys := map[string]bool{}
		for _, m := range messages {
			keys[m.Key] = true
			assert.True(t, len(m.Value) <= wire.MaxMessage-16<<10, "a message of %d bytes", len(m.Value))
		}
		assert.True(t, length <= 0 || len(keys) == len(messages), "%d keys for %d messages", len(keys), len(messages))
		messages = append(messages, messages...)
		rand.New(rand.NewPCG(uint64(length), 1)).Shuffle(len(messages), func(i, j int) { messages[i], messages[j] = messages[j], messages[i] })
		var documents wire.Documents
		found := map[byte]int{}
		for _, m := range messages {
			whole, ok, err := documents.Add(m)
			assert.NoError(t, err)
			if ok {
				found[whole.Value[slices.Index(whole.Value, '[')+2]]++
			}
		}
		assert.True(t, length <= 0 || found['x'] != 0 && found['y'] != 0 && len(found) == 2, "length %d: found %v", length, found)
	}
}

// A document whose bytes are not those of its digest is damaged, and one that is too long is not written.
func TestDocumentsRefuse(t *testing.T) {
	m := assert.Must((&Manifest{Run: "run"}).Messages())(t)[0]
	m.Value = append([]byte(" "), m.Value...)
	_, ok, err := (&wire.Documents{}).Add(m)
	assert.True(t, !ok && errors.Is(err, wire.ErrDamaged), "other bytes: %v, %v", ok, err)
	m.Headers = nil
	_, ok, err = (&wire.Documents{}).Add(m)
	assert.True(t, !ok && errors.Is(err, wire.ErrDamaged), "no headers: %v, %v", ok, err)
	_, err = (&Manifest{Labels: []string{strings.Repeat("x", wire.MaxDocument)}}).Messages()
	assert.True(t, err != nil && strings.HasPrefix(err.Error(), "the manifest has "), "a document of %d bytes: %v", wire.MaxDocument, err)
}

func model() (*Manifest, wire.Tensors[float32]) {
	p := plan()
	return &Manifest{
			Name: p.Name, Version: 2, Run: p.Run(), Plan: p, Labels: []string{"a", "<b>"}, Columns: examples.Columns{{Name: "size"},
				{Name: "colour", Categories: []string{"red", "<b>"}}}, Rows: map[string]int64{"train": 100, "test": 30},
			Prepare: "prepare", Blocks: []BlockDigest{{Visit: 3, Digest: "first"}, {Stage: 1, Visit: 2, Passes: 2, Ridge: 0.25, Digest: "second"}},
			Metrics: map[string]float64{"test_error": 1.5, "train_error": 0.25}, WeightsDigest: "weights",
		}, wire.Tensors[float32]{
			wire.Vector(statistics.TensorCenter, assert.Numbered[float32](65)), wire.Words[float32](statistics.TensorLabels,
				[]string{"a", "<b>"}), wire.Matrix(statistics.TensorW, 5000, 2, assert.Numbered[float32](10_000)),
		}
}

func TestModelRoundTrip(t *testing.T) {
	mem := assert.Allocator(t)
	manifest, tensors := model()
	var file bytes.Buffer
	n := assert.Must(WriteModel(&file, manifest, tensors, mem))(t)
	assert.True(t, n == int64(file.Len()), "%d bytes are written, WriteModel returns %d", file.Len(), n)
	m, w, err := ReadModel(iotest.HalfReader(&file), mem)
	assert.True(t, err == nil && reflect.DeepEqual(m, manifest) && reflect.DeepEqual(w, tensors), "%+v, %v", m, err)
}

func TestDamagedModels(t *testing.T) {
	mem := assert.Allocator(t)
	manifest, tensors := model()
	var file bytes.Buffer
	assert.Must(WriteModel(&file, manifest, tensors, mem))(t)
	whole := file.Bytes()
	// The last 8 bytes mark the end of the stream. Arrow does not need them.
	for n := 0; n < len(whole)-8; n += 97 {
		_, _, err := ReadModel(bytes.NewReader(whole[:n]), mem)
		assert.Need(t, errors.Is(err, wire.ErrDamaged), "%d of %d bytes: %v", n, len(whole), err)
	}
	for at := range whole[:min(len(whole), 4000)] {
		bad := bytes.Clone(whole)
		bad[at] ^= 0x55
		_, _, err := ReadModel(bytes.NewReader(bad), mem)
		assert.Need(t, err == nil || errors.Is(err, wire.ErrDamaged), "byte %d: %v", at, err)
	}
	record := assert.Must((&wire.Record[float32]{Tensors: tensors[:1]}).EncodeWithin(wire.MaxMessage, mem))(t)[0].Value
	_, _, err := ReadModel(bytes.NewReader(record), mem)
	assert.Equal(t, fmt.Sprint(err), "damaged or foreign bytes: an Arrow stream, but not a model", "")
	file.Reset()
	assert.Must(WriteModel(&file, &Manifest{}, nil, mem))(t)
	_, _, err = ReadModel(&file, mem)
	assert.Equal(t, fmt.Sprint(err), `damaged or foreign bytes: decode manifest "stagewise.manifest": the manifest has no plan`, "")
	_, _, err = ReadModel(iotest.ErrReader(io.ErrClosedPipe), mem)
	assert.True(t, errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, wire.ErrDamaged), "%v", err)
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 3, io.ErrShortWrite }

func TestModelThatCannotBeWritten(t *testing.T) {
	manifest, tensors := model()
	n, err := WriteModel(fullDisk{}, manifest, tensors, assert.Allocator(t))
	assert.True(t, n == 3 && errors.Is(err, io.ErrShortWrite), "%v %v", n, err)
}

// seeds adds goldens: whole, cut short, and with a flipped bit.
func seeds(f *testing.F, add func(wire.Message), names ...string) {
	all := goldens(f)
	for _, name := range names {
		m := all[name]
		add(m)
		for i := 1; i < 24; i++ {
			cut, flipped := m, m
			cut.Value = m.Value[:len(m.Value)*i/24]
			flipped.Value = bytes.Clone(m.Value)
			flipped.Value[len(m.Value)*i/24] ^= 1 << (i % 8)
			add(cut)
			add(flipped)
		}
	}
}

func FuzzDecodeExamples(f *testing.F) {
	seeds(f, func(m wire.Message) { f.Add(m.Value) }, "examples", "examples-bytes", "examples-sparse", "examples-frame")
	for _, name := range assert.Must(filepath.Glob("stream/testdata/hostile/*.arrow"))(f) {
		f.Add(assert.Must(os.ReadFile(name))(f))
	}
	rows := &examples.Rows{Rows: 2, Cols: 2, Floats: []float32{1, 2, 3, 4}, Columns: examples.Columns{{Name: "time",
		Offset: 1764000038912}, {Name: "size"}}}
	record := rows.Record(memory.DefaultAllocator)
	defer record.Release()
	f.Add(assert.Must(examples.Encode(record, memory.DefaultAllocator))(f))
	f.Fuzz(func(t *testing.T, value []byte) {
		mem := assert.NewMeter()
		e, err := examples.Decode(value, mem)
		if err == nil {
			for _, columns := range []examples.Columns{nil, {{Name: "time", Offset: 7}, {Name: "size"}}} {
				err := e.Align(columns)
				assert.True(t, err == nil || errors.Is(err, wire.ErrDamaged), "%v", err)
				if e.Rows*e.Cols <= 1<<20 {
					e.Features(make([]float32, e.Rows*e.Cols), e.Cols)
				}
			}
			for row := range e.Rows {
				e.Weight(row)
				e.Split(row)
				if e.Labelled(row) {
					e.Label(row)
				}
			}
			err := e.Classes(make([]int32, e.Rows), examples.NewLabels(nil), examples.UnknownLabel)
			assert.True(t, err == nil || errors.Is(err, wire.ErrDamaged), "%v", err)
		}
		mem.Check(t, len(value), err, wire.ErrDamaged)
	})
}

func FuzzDecodeResiduals(f *testing.F) {
	headers := residualsOf(2, 3).Headers()
	seeds(f, func(m wire.Message) { f.Add(m.Get("offset"), m.Get("row"), 3, m.Value) }, "residuals")
	f.Fuzz(func(t *testing.T, offset, row string, classes int, value []byte) {
		if classes < 1 || classes > 1<<20 {
			return
		}
		mem := assert.NewMeter()
		r, err := DecodeResiduals(wire.Message{Headers: append(headers, wire.Header{Key: "offset", Value: offset}, wire.Header{Key: "row",
			Value: row}), Value: value}, classes, mem)
		if err == nil { // otherwise there are none
			assert.True(t, len(r.Score) == len(r.Residual) && len(r.Score)%classes == 0, "%d scores, %d residuals", len(r.Score), len(r.Residual))
		}
		mem.Check(t, len(value), err, wire.ErrDamaged)
	})
}

func FuzzDecodePrediction(f *testing.F) {
	seeds(f, func(m wire.Message) {
		f.Add(m.Get("offset"), m.Get("after"), m.Get("row"), m.Get("until"), m.Get("rows"), m.Value)
	}, "prediction", "prediction-none", "prediction-several", "prediction-numbers", "prediction-contributions", "residuals")
	f.Fuzz(func(t *testing.T, offset, after, row, until, rows string, value []byte) {
		mem := assert.NewMeter()
		p, err := DecodePrediction(wire.Message{Headers: []wire.Header{
			{Key: "kind", Value: string(KindPrediction)}, {Key: "partition", Value: "3"}, {Key: "version", Value: "7"}, {Key: "offset", Value: offset}, {Key: "after", Value: after}, {Key: "row", Value: row}, {Key: "until", Value: until}, {Key: "rows", Value: rows}, {Key: "seen", Value: "4"},
		}, Value: value}, mem)
		if err == nil {
			for _, class := range p.Classes {
				_ = p.Labels[class]
			}
			probabilities, numbers := (p.Until-p.Row)*len(p.Labels), 0
			if p.Task == examples.Numbers {
				probabilities, numbers = 0, probabilities
			}
			assert.True(t, len(p.Probabilities) == probabilities && len(p.Numbers) == numbers &&
				(p.Task != examples.SeveralLabels || len(p.Given) == probabilities),
				"%d probabilities, %d numbers and %d given labels of %d rows and %d classes", len(p.Probabilities), len(p.Numbers), len(p.Given),
				p.Until-p.Row, len(p.Labels))
		}
		mem.Check(t, len(value), err, wire.ErrDamaged)
	})
}

// A Collector survives any message. Its headers are lines of key=value.
func FuzzCollector(f *testing.F) {
	seeds(f, func(m wire.Message) {
		var lines []string
		for _, h := range m.Headers {
			lines = append(lines, h.Key+"="+h.Value)
		}
		f.Add(strings.Join(lines, "\n"), m.Value, m.Kind() != statistics.KindVisit && m.Kind() != statistics.KindSeal)
	}, "visit", "gram", "seal", "sample", "prepare", "weights")
	f.Fuzz(func(t *testing.T, headers string, value []byte, single bool) {
		m := wire.Message{Value: value}
		for line := range strings.SplitSeq(headers, "\n") {
			key, text, _ := strings.Cut(line, "=")
			m.Headers = append(m.Headers, wire.Header{Key: key, Value: text})
		}
		if single {
			collectAny(t, &wire.Collector[float32]{}, m)
		} else {
			collectAny(t, &wire.Collector[float64]{}, m)
		}
	})
}

func collectAny[T wire.Number](t *testing.T, c *wire.Collector[T], m wire.Message) {
	mem := assert.NewMeter()
	chunks := max(1, min(8, orZero(strconv.Atoi(m.Get("chunks")))))
	for i := range chunks {
		m.Headers = append([]wire.Header{{Key: "chunk", Value: strconv.Itoa(i)}}, m.Headers...)
		r, err := c.Add(m, mem)
		if r != nil {
			assert.Fails(t, r.Tensors.Complete(), nil)
			assert.Equal(t, assert.Must(r.EncodeWithin(wire.MaxMessage, mem))(t)[0].Get("digest"), m.Get("digest"),
				"the record is encoded with another digest")
			mem.AssertSize(t, 0)
			return
		}
		mem.Check(t, chunks*len(m.Value), err, wire.ErrDamaged)
	}
}

// orZero returns the value, or 0 after an error.
func orZero(value int, err error) int {
	if err != nil {
		return 0
	}
	return value
}

func FuzzReadModel(f *testing.F) {
	manifest, tensors := model()
	tensors[2] = wire.Matrix(statistics.TensorW, 2, 2, assert.Numbered[float32](4))
	var file bytes.Buffer
	assert.Must(WriteModel(&file, manifest, tensors, memory.NewGoAllocator()))(f)
	for i := range 40 {
		f.Add(file.Bytes()[:file.Len()*i/40])
		flipped := bytes.Clone(file.Bytes())
		flipped[len(flipped)*i/40] ^= 1 << (i % 8)
		f.Add(flipped)
	}
	f.Add(file.Bytes())
	f.Fuzz(func(t *testing.T, value []byte) {
		mem := assert.NewMeter()
		m, tensors, err := ReadModel(bytes.NewReader(value), mem)
		if err == nil {
			m.Plan.Run()
			(&wire.Record[float32]{Tensors: tensors}).Digest()
		}
		mem.Check(t, len(value), err, wire.ErrDamaged)
	})
}

func FuzzDecodeJSON(f *testing.F) {
	seeds(f, func(m wire.Message) { f.Add(m.Value) }, "plan", "end", "failure", "source", "manifest", "report", "removal",
		"source-removal", "division", "pin", "forget", "origins")
	f.Fuzz(func(t *testing.T, value []byte) {
		m := wire.Message{Value: value}
		survives(t, m, func(p *Plan) wire.Message { p.Content(); return whole(t, p.Messages) })
		survives(t, m, (*End).Message)
		survives(t, m, (*Claim).Message)
		survives(t, m, (*Failure).Message)
		survives(t, m, (*SourceSeal).Message)
		survives(t, m, (*Removal).Message)
		survives(t, m, (*SourceRemoval).Message)
		survives(t, m, (*Pin).Message)
		survives(t, m, (*Forget).Message)
		survives(t, m, (*Origins).Message)
		survives(t, m, func(v *Manifest) wire.Message { return whole(t, v.Messages) })
		survives(t, m, func(v *Report) wire.Message { return whole(t, v.Messages) })
	})
}

// whole returns what [wire.Documents] makes of a document's messages.
func whole(t *testing.T, messages func() ([]wire.Message, error)) (whole wire.Message) {
	documents, ok := wire.Documents{}, false
	for _, m := range assert.Must(messages())(t) {
		var err error
		whole, ok, err = documents.Add(m)
		assert.NoError(t, err)
	}
	assert.Need(t, ok, "the document is not complete")
	return whole
}

// survives checks that a decoded value can be encoded, decoded and encoded again, with the same bytes.
func survives[T Plan | End | Claim | Failure | SourceSeal | Manifest | Report | Removal | SourceRemoval | Division | Pin | Forget |
	Origins](
	t *testing.T, m wire.Message, message func(*T) wire.Message) {
	value, err := DecodeJSON[T](m)
	if err != nil {
		assert.Fails(t, err, wire.ErrDamaged)
		return
	}
	once := message(value)
	value, err = DecodeJSON[T](once)
	assert.Need(t, err == nil, "%T is not read again: %v", value, err)
	twice := message(value)
	assert.True(t, twice.Key == once.Key && bytes.Equal(twice.Value, once.Value), "%s\nbecame\n%s", once.Value, twice.Value)
}
