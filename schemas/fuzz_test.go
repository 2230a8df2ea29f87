package schemas

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

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
	for _, name := range arrowtest.Must(filepath.Glob("stream/testdata/hostile/*.arrow"))(f) {
		f.Add(arrowtest.Must(os.ReadFile(name))(f))
	}
	rows := &examples.Rows{Rows: 2, Cols: 2, Floats: []float32{1, 2, 3, 4}, Columns: examples.Columns{{Name: "time",
		Offset: 1764000038912}, {Name: "size"}}}
	record := rows.Record(memory.DefaultAllocator)
	defer record.Release()
	f.Add(arrowtest.Must(examples.Encode(record, memory.DefaultAllocator))(f))
	f.Fuzz(func(t *testing.T, value []byte) {
		mem := arrowtest.NewMeter()
		e, err := examples.Decode(value, mem)
		if err == nil {
			for _, columns := range []examples.Columns{nil, {{Name: "time", Offset: 7}, {Name: "size"}}} {
				if err := e.Align(columns); err != nil && !errors.Is(err, wire.ErrDamaged) {
					t.Error(err)
				}
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
			if err := e.Classes(make([]int32, e.Rows), examples.NewLabels(nil), examples.UnknownLabel); err != nil && !errors.Is(err, wire.ErrDamaged) {
				t.Error(err)
			}
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
		mem := arrowtest.NewMeter()
		r, err := DecodeResiduals(wire.Message{Headers: append(headers, wire.Header{Key: "offset", Value: offset}, wire.Header{Key: "row",
			Value: row}), Value: value}, classes, mem)
		if err == nil && (len(r.Score) != len(r.Residual) || len(r.Score)%classes != 0) {
			t.Errorf("%d scores, %d residuals", len(r.Score), len(r.Residual))
		}
		mem.Check(t, len(value), err, wire.ErrDamaged)
	})
}

func FuzzDecodePrediction(f *testing.F) {
	seeds(f, func(m wire.Message) {
		f.Add(m.Get("offset"), m.Get("after"), m.Get("row"), m.Get("until"), m.Get("rows"), m.Value)
	}, "prediction", "prediction-none", "prediction-several", "prediction-numbers", "prediction-contributions", "residuals")
	f.Fuzz(func(t *testing.T, offset, after, row, until, rows string, value []byte) {
		mem := arrowtest.NewMeter()
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
			if len(p.Probabilities) != probabilities || len(p.Numbers) != numbers || p.Task == examples.SeveralLabels &&
				len(p.Given) != probabilities {
				t.Errorf("%d probabilities, %d numbers and %d given labels of %d rows and %d classes", len(p.Probabilities), len(p.Numbers),
					len(p.Given), p.Until-p.Row, len(p.Labels))
			}
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
	mem := arrowtest.NewMeter()
	chunks := max(1, min(8, orZero(strconv.Atoi(m.Get("chunks")))))
	for i := range chunks {
		m.Headers = append([]wire.Header{{Key: "chunk", Value: strconv.Itoa(i)}}, m.Headers...)
		r, err := c.Add(m, mem)
		if r != nil {
			if err := r.Tensors.Complete(); err != nil {
				t.Error(err)
			}
			if again := arrowtest.Must(r.EncodeWithin(wire.MaxMessage, mem))(t); again[0].Get("digest") != m.Get("digest") {
				t.Error("the record is encoded with another digest")
			}
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
	tensors[2] = wire.Matrix(statistics.TensorW, 2, 2, arrowtest.Numbered[float32](4))
	var file bytes.Buffer
	arrowtest.Must(WriteModel(&file, manifest, tensors, memory.NewGoAllocator()))(f)
	for i := range 40 {
		f.Add(file.Bytes()[:file.Len()*i/40])
		flipped := bytes.Clone(file.Bytes())
		flipped[len(flipped)*i/40] ^= 1 << (i % 8)
		f.Add(flipped)
	}
	f.Add(file.Bytes())
	f.Fuzz(func(t *testing.T, value []byte) {
		mem := arrowtest.NewMeter()
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
	for _, m := range arrowtest.Must(messages())(t) {
		var err error
		if whole, ok, err = documents.Add(m); err != nil {
			t.Fatal(err)
		}
	}
	if !ok {
		t.Fatal("the document is not complete")
	}
	return whole
}

// survives checks that a decoded value can be encoded, decoded and encoded again, with the same bytes.
func survives[T Plan | End | Claim | Failure | SourceSeal | Manifest | Report | Removal | SourceRemoval | Division | Pin | Forget |
	Origins](
	t *testing.T, m wire.Message, message func(*T) wire.Message) {
	value, err := DecodeJSON[T](m)
	if err != nil {
		if !errors.Is(err, wire.ErrDamaged) {
			t.Error(err)
		}
		return
	}
	once := message(value)
	value, err = DecodeJSON[T](once)
	if err != nil {
		t.Fatalf("%T is not read again: %v", value, err)
	}
	if twice := message(value); twice.Key != once.Key || !bytes.Equal(twice.Value, once.Value) {
		t.Errorf("%s\nbecame\n%s", once.Value, twice.Value)
	}
}
