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
)

// metered is an allocator that counts all bytes that it ever allocates.
type metered struct {
	*memory.CheckedAllocator
	total int
}

func meter() *metered {
	return &metered{CheckedAllocator: memory.NewCheckedAllocator(memory.NewGoAllocator())}
}

func (m *metered) Allocate(size int) []byte {
	m.total += size
	return m.CheckedAllocator.Allocate(size)
}

func (m *metered) Reallocate(size int, b []byte) []byte {
	m.total += size
	return m.CheckedAllocator.Reallocate(size, b)
}

// check checks what must hold after any bytes were decoded, of which there are size.
func (m *metered) check(t *testing.T, size int, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, ErrDamaged) {
		t.Errorf("%v is not ErrDamaged", err)
	}
	if m.total > 4*size+64 {
		t.Errorf("%d bytes of memory for %d bytes", m.total, size)
	}
	m.AssertSize(t, 0)
}

// seeds adds goldens: whole, cut short, and with a flipped bit.
func seeds(f *testing.F, add func(Message), names ...string) {
	all := samples(f)
	for _, name := range names {
		m := readGolden(f, name, all[name])
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
	seeds(f, func(m Message) { f.Add(m.Value) }, "examples", "examples-bytes", "examples-sparse", "examples-frame")
	for _, name := range must(filepath.Glob("stream/testdata/hostile/*.arrow"))(f) {
		f.Add(must(os.ReadFile(name))(f))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		mem := meter()
		e, err := DecodeExamples(value, mem)
		if err == nil {
			if e.Rows*e.Width <= 1<<20 {
				e.Features(make([]float32, e.Rows*e.Width), e.Width)
			}
			for row := range e.Rows {
				e.Weight(row)
				e.Split(row)
				if e.Labelled(row) {
					e.Label(row)
				}
			}
			if err := e.Classes(make([]int32, e.Rows), NewLabels(nil)); err != nil && !errors.Is(err, ErrDamaged) {
				t.Error(err)
			}
			e.Release()
		}
		mem.check(t, len(value), err)
	})
}

func FuzzDecodeResiduals(f *testing.F) {
	headers := residuals(2, 3).headers()
	seeds(f, func(m Message) { f.Add(m.Get("offset"), m.Get("row"), 3, m.Value) }, "residuals")
	f.Fuzz(func(t *testing.T, offset, row string, classes int, value []byte) {
		if classes < 1 || classes > 1<<20 {
			return
		}
		mem := meter()
		r, err := DecodeResiduals(Message{Headers: append(headers, Header{"offset", offset}, Header{"row", row}), Value: value}, classes, mem)
		if err == nil && (len(r.Score) != len(r.Residual) || len(r.Score)%classes != 0) {
			t.Errorf("%d scores, %d residuals", len(r.Score), len(r.Residual))
		}
		mem.check(t, len(value), err)
	})
}

func FuzzDecodePrediction(f *testing.F) {
	seeds(f, func(m Message) {
		f.Add(m.Get("offset"), m.Get("after"), m.Get("row"), m.Get("until"), m.Get("rows"), m.Value)
	}, "prediction", "prediction-none", "prediction-several", "prediction-numbers", "residuals")
	f.Fuzz(func(t *testing.T, offset, after, row, until, rows string, value []byte) {
		mem := meter()
		p, err := DecodePrediction(Message{Headers: []Header{
			{"kind", string(KindPrediction)}, {"partition", "3"}, {"version", "7"}, {"offset", offset}, {"after", after}, {"row", row}, {"until", until}, {"rows", rows}, {"seen", "4"},
		}, Value: value}, mem)
		if err == nil {
			for _, class := range p.Classes {
				_ = p.Labels[class]
			}
			if len(p.Probabilities) != (p.Until-p.Row)*len(p.Labels) || p.Task == SeveralLabels && len(p.Given) != len(p.Probabilities) {
				t.Errorf("%d probabilities and %d given labels of %d rows and %d classes", len(p.Probabilities), len(p.Given), p.Until-p.Row, len(p.Labels))
			}
		}
		mem.check(t, len(value), err)
	})
}

// A Collector survives any message. Its headers are lines of key=value.
func FuzzCollector(f *testing.F) {
	seeds(f, func(m Message) {
		var lines []string
		for _, h := range m.Headers {
			lines = append(lines, h.Key+"="+h.Value)
		}
		f.Add(strings.Join(lines, "\n"), m.Value, m.Kind() != KindVisit && m.Kind() != KindSeal)
	}, "visit", "gram", "seal", "sample", "prepare", "weights")
	f.Fuzz(func(t *testing.T, headers string, value []byte, single bool) {
		m := Message{Value: value}
		for line := range strings.SplitSeq(headers, "\n") {
			key, text, _ := strings.Cut(line, "=")
			m.Headers = append(m.Headers, Header{key, text})
		}
		if single {
			collectAny(t, &Collector[float32]{}, m)
		} else {
			collectAny(t, &Collector[float64]{}, m)
		}
	})
}

func collectAny[T Number](t *testing.T, c *Collector[T], m Message) {
	mem := meter()
	chunks := max(1, min(8, orZero(strconv.Atoi(m.Get("chunks")))))
	for i := range chunks {
		m.Headers = append([]Header{{"chunk", strconv.Itoa(i)}}, m.Headers...)
		r, err := c.Add(m, mem)
		if r != nil {
			if err := r.Tensors.complete(); err != nil {
				t.Error(err)
			}
			if again := must(r.Encode(mem))(t); again[0].Get("digest") != m.Get("digest") {
				t.Error("the record is encoded with another digest")
			}
			mem.AssertSize(t, 0)
			return
		}
		mem.check(t, chunks*len(m.Value), err)
	}
}

// The memory of a Collector is bounded, and it returns only records that were written, whatever messages come. Every
// three bytes are a message: which chunk of which record, and what is wrong with it.
func FuzzCollectorSequence(f *testing.F) {
	const records, chunks, maxBytes = 8, 3, 4 << 10
	schema, mem := formatOf[float64]().schema, checked(f)
	var messages [records][chunks]Message
	whole, largest := map[Digest]bool{}, 0
	for i := range messages {
		x := Vector("x", numbered[float64](chunks*(i+1)))
		r := statistics(x)
		r.Partition, r.Visit = i/4, i%2 // some share an identity
		whole[r.Digest()] = true
		size := recordOverhead
		for j := range chunks {
			n := i + 1
			value := must(encodeSegments(schema, []segment[float64]{{&x, j * n, x.Data[j*n : (j+1)*n], nil}}, mem))(f)
			headers := append(r.headers(), Header{"chunk", strconv.Itoa(j)}, Header{"chunks", strconv.Itoa(chunks)},
				Header{"digest", string(r.Digest())}, Header{"notes", strconv.Itoa(len(r.Notes))})
			messages[i][j] = Message{Headers: append(headers, r.Notes...), Value: value}
			size += chunkOverhead + len(value)
		}
		largest = max(largest, size)
	}
	f.Add([]byte{0, 0, 0, 0, 1, 0, 0, 2, 0})
	f.Add([]byte{3, 2, 0, 4, 0, 0, 3, 1, 0, 4, 2, 0, 4, 1, 0, 3, 0, 0})
	f.Add(bytes.Repeat([]byte{0, 0, 0, 1, 0, 0, 2, 0, 0, 3, 0, 0, 4, 0, 0, 5, 0, 0, 6, 1, 0, 7, 1, 9}, 20))
	f.Fuzz(func(t *testing.T, sequence []byte) {
		mem, c := checked(t), &Collector[float64]{MaxBytes: maxBytes}
		for ; len(sequence) >= 3; sequence = sequence[3:] {
			i, j, wrong := sequence[0], sequence[1], int(sequence[2])
			m := messages[i%records][j%chunks]
			switch wrong % 4 {
			case 1:
				m.Value = bytes.Clone(m.Value)
				m.Value[wrong*len(m.Value)/256] ^= 1 << (wrong >> 2 % 8)
			case 2:
				m.Headers = append([]Header{{"digest", strconv.Itoa(int(j))}}, m.Headers...)
			case 3:
				m.Headers = append([]Header{{"chunk", strconv.Itoa(wrong >> 2 % chunks)}}, m.Headers...)
			}
			r, err := c.Add(m, mem)
			if err != nil && !errors.Is(err, ErrDamaged) || r != nil && !whole[r.Digest()] {
				t.Fatalf("%v, %v", r, err)
			}
			if kept := c.kept(); kept != c.bytes || kept > maxBytes+largest || c.waiting.Len() != len(c.open) {
				t.Fatalf("%d bytes are kept, %d counted, of %d incomplete records", kept, c.bytes, len(c.open))
			}
		}
	})
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
	tensors[2] = Matrix(TensorW, 2, 2, numbered[float32](4))
	var file bytes.Buffer
	must(WriteModel(&file, manifest, tensors, memory.NewGoAllocator()))(f)
	for i := range 40 {
		f.Add(file.Bytes()[:file.Len()*i/40])
		flipped := bytes.Clone(file.Bytes())
		flipped[len(flipped)*i/40] ^= 1 << (i % 8)
		f.Add(flipped)
	}
	f.Add(file.Bytes())
	f.Fuzz(func(t *testing.T, value []byte) {
		mem := meter()
		m, tensors, err := ReadModel(bytes.NewReader(value), mem)
		if err == nil {
			m.Plan.Run()
			(&Record[float32]{Tensors: tensors}).Digest()
		}
		mem.check(t, len(value), err)
	})
}

func FuzzDecodeJSON(f *testing.F) {
	seeds(f, func(m Message) { f.Add(m.Value) }, "plan", "end", "failure", "source", "manifest", "report", "ledger", "removal", "source-removal", "pin", "forget")
	f.Fuzz(func(t *testing.T, value []byte) {
		m := Message{Value: value}
		survives(t, m, func(p *Plan) Message { p.Content(); return whole(t, p.Messages) })
		survives(t, m, (*End).Message)
		survives(t, m, (*Claim).Message)
		survives(t, m, (*Failure).Message)
		survives(t, m, (*SourceSeal).Message)
		survives(t, m, (*Removal).Message)
		survives(t, m, (*SourceRemoval).Message)
		survives(t, m, (*Pin).Message)
		survives(t, m, (*Forget).Message)
		survives(t, m, func(v *Manifest) Message { return whole(t, v.Messages) })
		survives(t, m, func(v *Report) Message { return whole(t, v.Messages) })
		survives(t, m, func(v *Ledger) Message { return whole(t, v.Messages) })
	})
}

// whole returns what [Documents] makes of a document's messages.
func whole(t *testing.T, messages func() ([]Message, error)) (whole Message) {
	documents, ok := Documents{}, false
	for _, m := range must(messages())(t) {
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
func survives[T Plan | End | Claim | Failure | SourceSeal | Manifest | Report | Ledger | Removal | SourceRemoval | Pin | Forget](t *testing.T, m Message, message func(*T) Message) {
	value, err := DecodeJSON[T](m)
	if err != nil {
		if !errors.Is(err, ErrDamaged) {
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
