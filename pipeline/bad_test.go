package pipeline

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// checked is an allocator that has to have everything back when the test ends.
func checked(t *testing.T) memory.Allocator {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	return mem
}

// Messages that can't be used are put into quarantine once, with the reason,
// and the run goes on as if they were not there; or it stops, if it is to.
func TestBadMessages(t *testing.T) {
	data := rings(300, 2, 3, 1)
	good := schemas.ExampleRows{Rows: 300, Cols: 2, Words: data.labels}
	for _, row := range data.rows {
		good.Floats = append(good.Floats, row...)
	}
	whole := encoded(t, good)
	flipped := append([]byte(nil), whole.Value...)
	flipped[40] ^= 0xff
	bad := map[string]kafkalog.Message{
		"text":            {Value: []byte("hello")},
		"nothing":         {Value: []byte{}},
		"cut short":       {Value: whole.Value[:len(whole.Value)/2]},
		"flipped":         {Value: flipped},
		"other width":     encoded(t, schemas.ExampleRows{Rows: 1, Cols: 3, Floats: []float32{1, 2, 3}, Words: []string{"ring0"}}),
		"not finite":      encoded(t, schemas.ExampleRows{Rows: 1, Cols: 2, Floats: []float32{1, inf}, Words: []string{"ring0"}}),
		"negative weight": encoded(t, schemas.ExampleRows{Rows: 1, Cols: 2, Floats: []float32{1, 2}, Words: []string{"ring0"}, Weights: []float32{-1}}),
		"unknown label":   encoded(t, schemas.ExampleRows{Rows: 1, Cols: 2, Floats: []float32{1, 2}, Words: []string{"square"}}),
		"missing feature": encoded(t, schemas.ExampleRows{Rows: 1, Cols: 2, Floats: []float32{1, nan}, Words: []string{"ring0"}}),
	}
	job := jobOn(t, data, table{}, stage(link.Softmax, 20, 3), stage(link.Softmax, 20, 3))
	job.Examples.Train, job.Examples.Classes, job.Examples.Partitions = nil, []string{"ring0", "ring1", "ring2"}, 2

	log := openEmbedded(t)
	accept(t, log, job, 1, whole)
	for _, m := range bad {
		accept(t, log, job, 1, m)
	}
	accept(t, log, job, 1, whole)
	for range 2 {
		recorder := &events{}
		report, _, err := Train(t.Context(), log, openBLAS(t), job, TrainOptions{Allocator: checked(t)}, recorder)
		if err != nil {
			t.Fatal(err)
		}
		if report.Rows != 600 || report.Quarantined != int64(len(bad)) || len(of[event.Quarantined](recorder)) != len(bad) {
			t.Errorf("%d rows, %d in quarantine", report.Rows, report.Quarantined)
		}
		if there := read(t, log, run.TopicsOf(job.Name).Quarantine); len(there) != len(bad) {
			t.Errorf("%d messages on the quarantine topic, expected %d", len(there), len(bad))
		}
	}
	for _, m := range read(t, log, run.TopicsOf(job.Name).Quarantine) {
		if header(m, "reason") == "" || header(m, "offset") == "" || header(m, "partition") != "1" {
			t.Errorf("headers %v", m.Headers)
		}
	}
	for name, m := range bad {
		t.Run("stop at "+name, func(t *testing.T) {
			stopping, log := job, openEmbedded(t)
			stopping.OnBadMessage = schemas.StopOnBadMessage
			accept(t, log, job, 1, whole, m, whole)
			if err := failing(t, log, stopping); !errors.As(err, new(*RunError)) || !strings.Contains(err.Error(), "test.examples[1]@1") {
				t.Errorf("%v", err)
			}
		})
	}
}

// What this version can't do with sound data ends the run, and says so.
func TestUnsupportedExamples(t *testing.T) {
	job := jobOn(t, rings(1, 2, 2, 1), table{}, stage(link.Softmax, 5, 1))
	job.Examples.Train = nil
	list := arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32)
	pair := arrow.StructOf(arrow.Field{Name: "index", Type: arrow.PrimitiveTypes.Int32}, arrow.Field{Name: "value", Type: arrow.PrimitiveTypes.Float32})
	for name, c := range map[string]struct{ schema, row, want string }{
		"several labels": {row: `[{"features":[1,2],"label":["a","b"]}]`, want: "expected one label"},
		"sparse":         {row: `[{"features":[{"index":3,"value":1}],"label":["a"]}]`, want: "sparse features can't be trained on yet"},
	} {
		t.Run(name, func(t *testing.T) {
			mem := checked(t)
			features, label := arrow.DataType(list), arrow.DataType(arrow.ListOf(arrow.BinaryTypes.String))
			row := c.row
			if name == "sparse" {
				features, label, row = arrow.ListOf(pair), arrow.BinaryTypes.String, strings.Replace(c.row, `["a"]`, `"a"`, 1)
			}
			schema := arrow.NewSchema([]arrow.Field{{Name: "features", Type: features}, {Name: "label", Type: label, Nullable: true}}, nil)
			record, _, err := array.RecordFromJSON(mem, schema, strings.NewReader(row))
			if err != nil {
				t.Fatal(err)
			}
			defer record.Release()
			value, err := schemas.EncodeExamples(record, mem)
			if err != nil {
				t.Fatal(err)
			}
			log := openEmbedded(t)
			accept(t, log, job, 0, kafkalog.Message{Value: value})
			if err := failing(t, log, job); !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// Nothing half-ingested is ever trained on: after an ingest that failed, or was
// interrupted, the next one begins again and the row count is exact.
func TestHalfAnIngestIsNeverTrainedOn(t *testing.T) {
	data := rings(6000, 2, 2, 1)
	job := jobOn(t, data, table{}, stage(link.Identity, 10, 1))
	log := openEmbedded(t)

	path := filepath.Join(t.TempDir(), "bad.csv")
	text, err := os.ReadFile(job.Examples.Train[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, "ring0,1,two\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := job
	wrong.Examples.Train = []string{path}
	var fileError *ingest.FileError
	if err := failing(t, log, wrong); !errors.As(err, &fileError) || fileError.Line != 6001 || !strings.Contains(err.Error(), `"two" is not a number`) {
		t.Errorf("%v", err)
	}
	for rows := int64(1000); rows < 6000; rows += 1000 {
		ctx, cancel := cancelled(t)
		_, _, err := Train(ctx, log, openBLAS(t), job, TrainOptions{Allocator: checked(t)}, &events{on: func(e event.Event) {
			if i, ok := e.(event.Ingested); ok && i.Rows >= rows {
				cancel()
			}
		}})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if n := len(read(t, log, run.TopicsOf(job.Name).Examples)); n <= 94 {
		t.Fatalf("%d messages on the topic: nothing was left behind", n)
	}
	if report, _ := train(t, log, job); report.Rows != 6000 {
		t.Errorf("%d rows, expected 6000", report.Rows)
	}
	// whoever names no files gets all that is sealed, and that is the same
	job.Examples.Train = nil
	if report, _ := train(t, log, job); report.Rows != 6000 {
		t.Errorf("%d rows, expected 6000", report.Rows)
	}
}

// Repeated writes, as a broker that applied a write and reported an error
// makes them, count once; a message that is gone ends the run.
func TestRepeatedAndMissingMessages(t *testing.T) {
	job := jobOn(t, rings(600, 2, 2, 1), table{}, stage(link.Identity, 10, 1))
	clean := openEmbedded(t)
	want, _ := train(t, clean, job)
	topic := run.TopicsOf(job.Name)
	replay := func(t *testing.T, change func([]kafkalog.Message) []kafkalog.Message) (*schemas.Report, error) {
		log := openEmbedded(t)
		if err := log.Create(t.Context(), Topics(job)...); err != nil {
			t.Fatal(err)
		}
		d, seals := open(log, job.Name, checked(t)), []*schemas.SourceSeal{}
		for _, m := range read(t, clean, topic.Plans) {
			if header(m, "kind") == string(schemas.KindSource) {
				seal, err := schemas.DecodeJSON[schemas.SourceSeal](run.FromKafka(m))
				if err != nil {
					t.Fatal(err)
				}
				seals = append(seals, seal)
			}
		}
		byPartition := map[int][]kafkalog.Message{}
		for _, m := range read(t, clean, topic.Examples) {
			byPartition[m.Partition] = append(byPartition[m.Partition], m)
		}
		for p := range 4 {
			if _, err := log.Append(t.Context(), topic.Examples, p, change(byPartition[p])...); err != nil {
				t.Fatal(err)
			}
			_, end, err := log.Bounds(t.Context(), topic.Examples, p)
			if err != nil {
				t.Fatal(err)
			}
			for i := range seals[0].Spans {
				if seals[0].Spans[i].Partition == p {
					seals[0].Spans[i].To = end
				}
			}
		}
		if _, err := d.Log.Append(t.Context(), topic.Plans, 0, seals[0].Message()); err != nil {
			t.Fatal(err)
		}
		report, _, err := Train(t.Context(), log, openBLAS(t), job, TrainOptions{Allocator: checked(t)}, &events{})
		return report, err
	}
	report, err := replay(t, func(m []kafkalog.Message) []kafkalog.Message {
		var twice []kafkalog.Message
		for i := range m {
			twice = append(append(twice, m[max(0, i-1):i+1]...), m[i])
		}
		return twice
	})
	if err != nil || report.Rows != want.Rows {
		t.Errorf("%+v, %v", report, err)
	}
	_, err = replay(t, func(m []kafkalog.Message) []kafkalog.Message { return append(m[:1:1], m[2:]...) })
	if err == nil || !strings.Contains(err.Error(), "messages in partition") {
		t.Errorf("%v", err)
	}
}
