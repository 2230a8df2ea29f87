package schemas

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

var update = flag.Bool("update", false, "write the goldens again")

// samples is one message of each kind: a chunk of a record stands for all.
func samples(t testing.TB) map[string]Message {
	mem := checked(t)
	examples := func(rows *ExampleRows) Message {
		record := rows.Record(mem)
		defer record.Release()
		return Message{Key: "source/1/5", Value: must(EncodeExamples(record, mem))(t), Headers: []Header{
			{"kind", string(KindExamples)}, {"schema", ExamplesFingerprint(record.Schema())}, {"source", "source/1"}, {"sequence", "5"}}}
	}
	sparse := Message{Value: fromJSON(t, mem, `[{"features":[{"index":1,"value":2},{"index":4,"value":-1}],"label":"a"},{"features":[],"label":null}]`,
		sparse(arrow.PrimitiveTypes.Int32), field("label", arrow.BinaryTypes.String))}
	kinds := somewhat(3)
	manifest, _ := model()
	p := plan()
	all := map[string]Message{
		"examples":          examples(kinds["all"]),
		"examples-bytes":    examples(kinds["bytes"]),
		"examples-sparse":   sparse,
		string(KindPlan):    p.Message(),
		string(KindEnd):     (&End{Run: p.Run(), Content: p.Content(), State: Done}).Message(),
		string(KindFailure): (&Failure{Run: p.Run(), Partition: 1, Reason: "offsets 0 to 9 are gone"}).Message(),
		string(KindSource):  p.Sources[0].Message(), string(KindManifest): manifest.Message(),
	}
	all[string(KindResiduals)] = must(residuals(2, 3).Encode(mem))(t)
	covered := Header{"covered", `{"spans":[{"partition":1,"from":0,"to":9}],"messages":9,"rows":90,"checksum":7}`}
	for _, r := range []*Statistics{
		{Identity{KindVisit, p.Run(), 0, 1, 1, p.Digest()}, []Header{covered}, Tensors[float64]{
			Matrix(FieldSplits, 3, LossFields, numbered[float64](12)), Matrix(FieldCross, 2, 2, numbered[float64](4))}},
		{Identity{KindSeal, p.Run(), 0, 0, 1, p.Digest()}, []Header{covered, {"from", "0"}, {"to", "9"}, {"rows", "90"}, {"scores", "digest"}}, nil},
	} {
		all[string(r.Kind)] = must(r.Encode(mem))(t)[0]
	}
	for _, r := range []*Record[float32]{
		{Identity{KindGram, p.Run(), 0, 0, 1, p.Digest()}, []Header{{"weight", "90"}}, Tensors[float32]{Vector(FieldGram, numbered[float32](3))}},
		{Identity{KindSample, p.Run(), Survey, 0, 1, p.Digest()}, nil, Tensors[float32]{
			Matrix(FieldSample, 2, 2, numbered[float32](4)), Words[float32](FieldDraws, []string{"00000000000000ff", "0000000000000fff"})}},
		{Identity{KindPrepare, p.Run(), Survey, 0, 0, p.Digest()}, nil, Tensors[float32]{
			Vector(TensorCenter, numbered[float32](2)), Vector(TensorSpread, []float32{2}), Words[float32](TensorLabels, []string{"a", "b"})}},
		{Identity{KindWeights, p.Run(), 0, 2, 0, "parent"}, []Header{{"final", "1"}, {"links", "0"}}, Tensors[float32]{
			Matrix(TensorW, 3, 2, numbered[float32](6))}},
	} {
		all[string(r.Kind)] = must(r.Encode(mem))(t)[0]
	}
	return all
}

// golden is the files of a message: key and headers to be read by people, and
// the value as it is on the topic.
func golden(name string, m Message) (headers, value string) {
	value = filepath.Join("testdata", name+".arrow")
	if strings.HasPrefix(string(m.Value), "{") {
		value = filepath.Join("testdata", name+".json")
	}
	return filepath.Join("testdata", name+".headers.json"), value
}

func readGolden(t testing.TB, name string, like Message) (m Message) {
	headers, value := golden(name, like)
	if err := json.Unmarshal(must(os.ReadFile(headers))(t), &m); err != nil {
		t.Fatal(err)
	}
	m.Value = must(os.ReadFile(value))(t)
	return m
}

func TestGoldens(t *testing.T) {
	for name, m := range samples(t) {
		if *update {
			headers, value := golden(name, m)
			described := must(json.MarshalIndent(struct {
				Key     string
				Headers []Header
			}{m.Key, m.Headers}, "", "  "))(t)
			for path, content := range map[string][]byte{headers: append(described, '\n'), value: m.Value} {
				if err := os.WriteFile(path, content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		want := readGolden(t, name, m)
		if m.Key != want.Key || !slices.Equal(m.Headers, want.Headers) || !bytes.Equal(m.Value, want.Value) {
			t.Errorf("%s is not what it was: is the change meant, can what is on topics be read, and does FORMAT.md say so? Then test with -update.\nkey %s, was %s\n%v\n%v",
				name, m.Key, want.Key, m.Headers, want.Headers)
		}
	}
}

// What was written yesterday is read today.
func TestGoldensAreRead(t *testing.T) {
	mem := checked(t)
	for name, like := range samples(t) {
		m := readGolden(t, name, like)
		var err error
		var got any
		switch m.Kind() {
		case KindExamples, "":
			var e *Examples
			if e, err = DecodeExamples(m.Value, mem); err == nil {
				got = fmt.Sprint(e.Rows, " × ", e.Width, " ", e.Sparse, e.Missing(), " ", e.Label(0), " ", e.Weight(0), " ", e.Split(0))
				e.Release()
			}
		case KindResiduals:
			var r *Residuals
			if r, err = DecodeResiduals(m, 3, mem); err == nil {
				got = fmt.Sprint(r.Offset, " ", r.Row, " ", len(r.Score))
			}
		case KindVisit, KindSeal:
			got, err = tensorsOf(&Collector[float64]{}, m, mem)
		case KindGram, KindSample, KindPrepare, KindWeights:
			got, err = tensorsOf(&Collector[float32]{}, m, mem)
		case KindPlan:
			got, err = again[Plan](m)
		case KindEnd:
			got, err = again[End](m)
		case KindFailure:
			got, err = again[Failure](m)
		case KindSource:
			got, err = again[SourceSeal](m)
		case KindManifest:
			got, err = again[Manifest](m)
		}
		want := map[string]any{
			"examples": "3 × 3 false true klasse 0 é 0 train", "examples-bytes": "3 × 3 false false -2 1 train", "examples-sparse": "2 × 5 true false a 1 train",
			"residuals": "1099511627776 128 6", "visit": "splits[3 4] cross[2 2] ", "gram": "gram[3] ", "seal": "", "sample": "sample[2 2] draws[2] ",
			"prepare": "center[2] spread[1] labels[2] ", "weights": "W[3 2] ",
		}[name]
		if want == nil {
			want = string(m.Value)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v\nexpected %v", name, got, err, want)
		}
	}
}

func tensorsOf[T Number](c *Collector[T], m Message, mem memory.Allocator) (string, error) {
	r, err := c.Add(m, mem)
	if err != nil {
		return "", err
	}
	text := ""
	for _, tensor := range r.Tensors {
		text += fmt.Sprint(tensor.Name, tensor.Shape, " ")
	}
	return text, nil
}

func again[T Plan | End | Failure | SourceSeal | Manifest](m Message) (string, error) {
	value, err := DecodeJSON[T](m)
	if err != nil {
		return "", err
	}
	content, err := json.Marshal(value)
	return string(content), err
}
