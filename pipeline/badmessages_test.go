package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// Each message that can't be used goes into quarantine once, with the reason, and the run ignores it. With
// OnBadMessage: stop, the run fails instead.
func TestBadMessages(t *testing.T) {
	long(t)
	data := rings(300, 2, 3, 1)
	whole := exampleMessage(t, data.exampleRows())
	flipped := append([]byte(nil), whole.Value...)
	flipped[40] ^= 0xff
	bad := map[string]kafkalog.Message{
		"text":        {Value: []byte("hello")},
		"nothing":     {Value: []byte{}},
		"cut short":   {Value: whole.Value[:len(whole.Value)/2]},
		"flipped":     {Value: flipped},
		"other width": exampleMessage(t, examples.Rows{Rows: 1, Cols: 3, Floats: []float32{1, 2, 3}, Words: []string{"ring0"}}),
		"not finite":  exampleMessage(t, examples.Rows{Rows: 1, Cols: 2, Floats: []float32{1, inf}, Words: []string{"ring0"}}),
		"negative weight": exampleMessage(t, examples.Rows{Rows: 1, Cols: 2, Floats: []float32{1, 2}, Words: []string{"ring0"},
			Weights: []float32{-1}}),
		"unknown label":   exampleMessage(t, examples.Rows{Rows: 1, Cols: 2, Floats: []float32{1, 2}, Words: []string{"square"}}),
		"missing feature": exampleMessage(t, examples.Rows{Rows: 1, Cols: 2, Floats: []float32{1, nan}, Words: []string{"ring0"}}),
		"overflow":        exampleMessage(t, examples.Rows{Rows: 1, Cols: 2, Floats: []float32{1, 3e38}, Words: []string{"ring0"}}),
	}
	job := newJob(t, data, table{}, rffStage(link.Softmax, 20, 3), rffStage(link.Softmax, 20, 3))
	job.Examples.Train, job.Examples.Classes, job.Examples.Partitions = nil, []string{"ring0", "ring1", "ring2"}, 2

	log := openEmbedded(t)
	produce(t, log, job, 1, whole)
	for _, m := range bad {
		produce(t, log, job, 1, m)
	}
	produce(t, log, job, 1, whole)
	for range 2 {
		recorder := &eventRecorder{}
		report, _ := trainRecorded(t, log, job, recorder)
		events := len(eventsOf[event.Quarantined](recorder))
		assert.Equal(t, report.Rows, 600, "rows")
		assert.Equal(t, report.Quarantined, int64(len(bad)), "messages reported in quarantine")
		assert.Equal(t, events, len(bad), "events")
		assert.Equal(t, len(readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine)), len(bad), "messages on the quarantine topic")
	}
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine) {
		assert.True(t, header(m, "reason") != "" && header(m, "offset") != "" && header(m, "partition") == "1",
			"headers %v, expected a reason, an offset and partition 1", m.Headers)
	}
	for name, m := range bad {
		t.Run("stop at "+name, func(t *testing.T) {
			stopping, log := job, openEmbedded(t)
			stopping.OnBadMessage = schemas.StopOnBadMessage
			produce(t, log, job, 1, whole, m, whole)
			err := trainError(t, log, stopping)
			assert.Fails(t, err, new(*dispatch.RunError), "test.examples[1]@1")
			text := fmt.Sprint(err)
			assert.True(t, !strings.Contains(text, "square") && (name != "unknown label" || strings.Contains(text, "label …")),
				"got error %v, expected no value of a row", err)
		})
	}
}

// If no message can be used, the error says why the first can't be, where it is and how many there are. Each message is in
// quarantine, unless the run stops at a bad message.
func TestNoUsableMessage(t *testing.T) {
	infinite := exampleMessage(t, examples.Rows{Rows: 1, Cols: 2, Floats: []float32{1, inf}})
	infinities := []kafkalog.Message{infinite, {Value: []byte("hello")}, infinite}
	overflowing := []kafkalog.Message{exampleMessage(t, examples.Rows{Rows: 5, Cols: 2, Floats: slices.Repeat([]float32{3e38}, 10)})}
	for _, test := range []struct {
		policy   string
		messages []kafkalog.Message
		kept     int // in quarantine
		want     string
	}{
		{"", infinities, 3, "none of its 3 messages can be used. The first is test.examples[0]@0: row 0, feature 1: +Inf is not a finite number"},
		{schemas.StopOnBadMessage, infinities, 0, "none of its 3 messages can be used. The first is test.examples[0]@0: row 0, feature 1: +Inf"},
		{"", overflowing, 1, "none of its 1 messages can be used. The first is test.examples[0]@0: rows 0, 1, 2 and 2 more are left out: the " +
			"features overflow"},
	} {
		job := newForeignJob(t, rffStage(link.Softmax, 20, 3), rffStage(link.Softmax, 20, 3))
		job.Examples.Partitions, job.Prepare.PCA, job.Segment = 2, 2, 2
		if test.policy != "" {
			job.OnBadMessage = test.policy
		}
		log := openEmbedded(t)
		writeAll(t, log, job, test.messages)
		produce(t, log, job, 0, exampleMessage(t, examples.Rows{Rows: 0, Cols: 2, Floats: []float32{}}))
		for range 2 {
			assert.Fails(t, trainError(t, log, job), new(*dispatch.RunError), "no examples on test.examples: "+test.want)
			assert.Equal(t, len(readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine)), test.kept,
				"on_bad_message %q: messages in quarantine", test.policy)
		}
	}
}

// Valid examples that this program can't train on end the run, and the error says why.
func TestUnsupportedExamples(t *testing.T) {
	job := newJob(t, rings(1, 2, 2, 1), table{}, rffStage(link.Softmax, 5, 1))
	job.Examples.Train = nil
	list := arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32)
	pair := arrow.StructOf(arrow.Field{Name: "index", Type: arrow.PrimitiveTypes.Int32}, arrow.Field{Name: "value",
		Type: arrow.PrimitiveTypes.Float32})
	for name, c := range map[string]struct{ row, want string }{
		"several labels": {row: `[{"features":[1,2],"label":["a","b"]}]`, want: "expected one label"},
		"sparse": {row: `[{"features":[{"index":3,"value":1}],"label":"a"},{"features":[],"label":"b"}]`,
			want: "features.kind: rff: the examples are sparse"},
	} {
		t.Run(name, func(t *testing.T) {
			mem := assert.Allocator(t)
			features, label := arrow.DataType(list), arrow.DataType(arrow.ListOf(arrow.BinaryTypes.String))
			if name == "sparse" {
				features, label = arrow.ListOf(pair), arrow.BinaryTypes.String
			}
			schema := arrow.NewSchema([]arrow.Field{{Name: "features", Type: features}, {Name: "label", Type: label, Nullable: true}}, nil)
			record, _, err := array.RecordFromJSON(mem, schema, strings.NewReader(c.row))
			assert.NoError(t, err)
			defer record.Release()
			value := assert.Must(examples.Encode(record, mem))(t)
			log := openEmbedded(t)
			produce(t, log, job, 0, kafkalog.Message{Value: value})
			assert.Fails(t, trainError(t, log, job), c.want)
		})
	}
}

// Another producer's topic may have messages that are larger than the quarantine takes. They are cut there, and a header says
// how large they were.
func TestOversizedMessages(t *testing.T) {
	job, good := newForeignJob(t, rffStage(link.Softmax, 20, 3)), exampleMessage(t, rings(30, 2, 3, 1).exampleRows())
	log := openEmbedded(t)
	const size = 20 << 20
	batch := kafkalog.Topic{Name: protocol.TopicsOf(job.Name).Examples, Partitions: 1,
		Config: map[string]string{"max.message.bytes": strconv.Itoa(2 * size)}}
	assert.NoError(t, log.Create(t.Context(), batch))
	wide := exampleMessage(t, examples.Rows{Rows: 10, Cols: size / 40, Floats: make([]float32, size/4)})
	produce(t, log, job, 0, good, kafkalog.Message{Value: bytes.Repeat([]byte("x"), size)}, good, wide, good)
	report, _ := train(t, log, job)
	messages := readQuarantine(t, log, job)
	assert.Equal(t, report.Quarantined, 2, "messages in quarantine by the report")
	assert.Equal(t, len(messages), 2, "messages on the topic")
	assert.Equal(t, report.Rows, 90, "rows")
	for offset, want := range map[int64]struct {
		bytes  int
		reason string
	}{1: {size, "bytes announced"}, 3: {len(wide.Value), "524288 features, the first message of the run has 2"}} {
		m := messages[offset]
		assert.True(t, header(m, "bytes") == strconv.Itoa(want.bytes) && len(m.Value) == 891_808 &&
			strings.Contains(header(m, "reason"), want.reason), "offset %d: %d of %s bytes, reason %q; expected 891808 of %d, reason %q",
			offset, len(m.Value), header(m, "bytes"), header(m, "reason"), want.bytes, want.reason)
	}
}

// hostileMessages returns the messages, by file name, that package schemas must reject.
func hostileMessages(t *testing.T) map[string]kafkalog.Message {
	t.Helper()
	files, err := filepath.Glob("../schemas/stream/testdata/hostile/*.arrow")
	assert.Need(t, err == nil && len(files) >= 40, "%d files in ../schemas/testdata/hostile, error %v; expected at least 40", len(files), err)
	messages := map[string]kafkalog.Message{}
	for _, file := range files {
		messages[filepath.Base(file)] = kafkalog.Message{Key: []byte(file), Value: assert.Must(os.ReadFile(file))(t)}
	}
	return messages
}

// readQuarantine returns the messages in quarantine by the offset that they had. It checks that each is there once and has a reason.
func readQuarantine(t *testing.T, log *kafkalog.Log, job topics.Job) map[int64]kafkalog.Message {
	t.Helper()
	messages := map[int64]kafkalog.Message{}
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine) {
		offset, err := strconv.ParseInt(header(m, "offset"), 10, 64)
		_, twice := messages[offset]
		assert.True(t, !twice, "%s is in quarantine twice", m.Key)
		want := fmt.Sprintf("%s/%s/%d", header(m, "topic"), header(m, "partition"), offset)
		assert.True(t, err == nil && header(m, "reason") != "" && string(m.Key) == want,
			"key %s and headers %v, expected key %s and a reason", m.Key, m.Headers, want)
		messages[offset] = m
	}
	return messages
}

// If most of the messages with new rows can't be used, the version says so, with the first reason. Half of them are no alarm.
func TestMostlyBadMessages(t *testing.T) {
	whole := exampleMessage(t, rings(300, 2, 3, 1).exampleRows())
	text := kafkalog.Message{Value: []byte("hello")}
	job := newJob(t, table{}, table{}, rffStage(link.Softmax, 20, 3))
	job.Examples.Train, job.Examples.Partitions, job.Retrain = nil, 2, topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full = 1000, topics.FullOptions{}
	log := openEmbedded(t)
	for _, test := range []struct {
		first, second []kafkalog.Message // of the partitions
		want          *coverage.BadMessages
	}{
		{[]kafkalog.Message{whole, text}, []kafkalog.Message{text, whole}, nil},
		{[]kafkalog.Message{whole}, []kafkalog.Message{text, text}, &coverage.BadMessages{Messages: 2, Of: 3, Partition: 1, Offset: 2}},
		{[]kafkalog.Message{text}, []kafkalog.Message{text}, &coverage.BadMessages{Messages: 2, Of: 2, Partition: 0, Offset: 3}},
		{[]kafkalog.Message{whole}, nil, nil},
	} {
		produce(t, log, job, 0, test.first...)
		produce(t, log, job, 1, test.second...)
		recorder := &eventRecorder{}
		r := assert.Must(Retrain(t.Context(), log, openBLAS(t), job, true, recorder))(t)
		assert.Need(t, len(r.Updates) == 1 && len(eventsOf[event.Retrained](recorder)) == 1, "%+v, expected one version", r.Updates)
		got := r.Updates[0].MostlyBad
		if got != nil {
			assert.True(t, strings.Contains(got.Reason, "damaged"), "the reason is %q", got.Reason)
			got.Reason = ""
		}
		assert.True(t, (got == nil) == (test.want == nil) && (got == nil || *got == *test.want), "%+v, expected %+v", got, test.want)
	}
}

// Damaged records on the pipeline's own topics are skipped, whatever their headers claim. The weights are the same as without them.
func TestHostileRecords(t *testing.T) {
	long(t)
	job := newMultiStageJob(t)
	want, _ := train(t, openEmbedded(t), job)
	log := openEmbedded(t)
	p, plan := submitJob(t, log, job, event.Ignore{}, false)
	partitions := assert.Must(log.Partitions(t.Context(), p.Topics.Statistics))(t)
	write := func(topic string, partition int, m wire.Message) {
		t.Helper()
		assert.Must(p.Log.Append(t.Context(), topic, partition, m))(t)
	}
	bad := hostileMessages(t)
	for _, kind := range []wire.Kind{statistics.KindVisit, statistics.KindGram, statistics.KindSample, statistics.KindSeal,
		statistics.KindPrepare, schemas.KindWeights, schemas.KindReport} {
		topic, partitionOf := p.Topics.Statistics, func(p int) int { return protocol.StatisticsPartition(p, partitions) }
		switch kind {
		case statistics.KindPrepare, schemas.KindWeights:
			topic, partitionOf = p.Topics.Weights, func(int) int { return 0 }
		case schemas.KindReport:
			topic, partitionOf = p.Topics.Plans, func(int) int { return 0 }
		}
		for i, changed := range []wire.Header{
			{}, {Key: "chunks", Value: "10000"}, {Key: "chunks", Value: "9999999999999999999"}, {Key: "chunk", Value: "-1"}, {Key: "stage", Value: "-9223372036854775808"},
			{Key: "visit", Value: "9223372036854775807"}, {Key: "partition", Value: "1e9"}, {Key: "run", Value: strings.Repeat("r", 1000)}, {Key: "digest", Value: strings.Repeat("d", 1000)},
		} {
			for _, m := range bad {
				headers := []wire.Header{
					changed, {Key: "kind", Value: string(kind)}, {Key: "run", Value: plan.Run()}, {Key: "stage", Value: "-1"}, {Key: "visit", Value: "0"},
					{Key: "partition", Value: "0"}, {Key: "parent", Value: string(plan.Digest())}, {Key: "chunk", Value: "0"}, {Key: "chunks", Value: "1"}, {Key: "digest", Value: fmt.Sprint(i)},
				}
				if i > 0 && len(m.Value) > 10_000 {
					continue
				}
				write(topic, partitionOf(i%4), wire.Message{Key: fmt.Sprint(kind, i, string(m.Key)), Headers: headers, Value: m.Value})
			}
		}
	}
	for i, content := range []string{"", "null", "{", `{"segment":1,"spans":[{"to":1152921504606846976}]}`,
		`{"segment":1,"stages":[{"features":{"kind":"rff","size":1000000000}}]}`,
		`{"segment":1,"classes":["a","a"],"stages":[{}]}`, strings.Repeat("[", 100_000), `{"segment":1e999}`} {
		for _, kind := range []wire.Kind{schemas.KindPlan, schemas.KindEnd, schemas.KindSource} {
			if kind == schemas.KindEnd && content == "null" {
				continue // this would be a valid end, of a run without an id
			}
			write(p.Topics.Plans, 0, wire.Message{Key: fmt.Sprint(kind, i), Headers: []wire.Header{{Key: "kind", Value: string(kind)},
				{Key: "run", Value: "another"}}, Value: []byte(content)})
		}
		write(p.Topics.Weights, 0, wire.Message{Key: fmt.Sprint("manifest", i), Headers: []wire.Header{{Key: "kind", Value: "manifest"},
			{Key: "run", Value: fmt.Sprint(i)}}, Value: []byte(`{"plan":` + content + `}`)})
	}
	recorder := &eventRecorder{}
	report, _ := trainRecorded(t, log, job, recorder)
	assert.Equal(t, report.WeightsDigest, want.WeightsDigest, "the digest with damaged records, and without")
	topicNames := map[string]bool{}
	for _, n := range eventsOf[event.Noticed](recorder) {
		for _, topic := range []string{"statistics", "weights", "plans"} {
			if strings.HasPrefix(n.Text, "skipping a message of the "+topic+" topic: ") {
				topicNames[topic] = true
			}
		}
	}
	assert.Equal(t, len(topicNames), 3, "topics that notices name")
	assert.Equal(t, len(assert.Must(topics.Open(log, job.Name, nil).Versions(t.Context()))(t)), 1, "versions")
}

// kindStage returns a stage of a kind of features.
func kindStage(kind string, l schemas.Link) schemas.Stage {
	s := rffStage(l, 24, 3)
	s.Features, s.GramRows = stages.DefaultsOf(kind), solve.GramAll
	if kind != stages.Columns && kind != stages.ClassCounts {
		s.Features.Size = 24
	}
	return s
}

// treesStage returns a stage of four trees, grown on fewer rows than there are.
func treesStage(l schemas.Link, passes int) schemas.Stage {
	s := kindStage(stages.Trees, l)
	s.Features.Size, s.Features.Leaves, s.Features.Sample, s.Passes, s.Rate = 16, 4, 24, passes, 0.5
	if solve.WholeSteps(l) {
		s.Rate = 0
	}
	return s
}

// overflowMessages returns tables of 40 rows as messages, of which row 7 of message bad is changed.
func overflowMessages(t *testing.T, n, bad int, sparse bool, change func(rows *examples.Rows)) (messages []kafkalog.Message) {
	for i := range n {
		rows := rings(40, 4, 3, uint64(i+1)).exampleRows()
		if i == bad {
			change(&rows)
		}
		if sparse {
			rows.Sparse = &examples.SparseRows{}
			for at, v := range rows.Floats {
				if rows.Sparse.Append(int32(at%4), v); at%4 == 3 {
					rows.Sparse.End()
				}
			}
			rows.Floats, rows.Cols = nil, 0
		}
		messages = append(messages, exampleMessage(t, rows))
	}
	return messages
}

// setTo returns what makes all features of row 7 that large, and gives it a label unless that is empty.
func setTo(v float32, label string) func(*examples.Rows) {
	return func(rows *examples.Rows) {
		for j := range 4 {
			rows.Floats[7*4+j] = v
		}
		if label != "" {
			rows.Words[7] = label
		}
	}
}

// weightless makes row 7 one that no run learns from.
func weightless(rows *examples.Rows) {
	setTo(0, "")(rows)
	rows.Weights = slices.Repeat([]float32{1}, rows.Rows)
	rows.Weights[7] = 0
}

// writeAll writes messages to the partitions of a job without files.
func writeAll(t *testing.T, log *kafkalog.Log, job topics.Job, messages []kafkalog.Message) {
	for i, m := range messages {
		produce(t, log, job, i%job.Examples.Partitions, m)
	}
}

// A row that overflows costs a run nothing but itself: the run ends, with the weights of a log in which the row has no
// weight. The row's message is in quarantine once, with the row and the reason, and the report counts the row.
func TestRowThatOverflowsCostsItself(t *testing.T) {
	long(t)
	type test struct {
		kind   string
		link   schemas.Link
		sparse bool
		bad    int    // the message
		label  string // the only row with it; "": that of another
		change func(*topics.Job)
	}
	unchanged := func(*topics.Job) {}
	tests := map[string]test{}
	for _, kind := range []string{stages.RFF, stages.Columns, stages.Polynomial, stages.Logits, stages.SORF} {
		for _, l := range []schemas.Link{link.Softmax, link.Identity, link.Calibrated} {
			tests[fmt.Sprintf("%s %s", kind, l)] = test{kind, l, false, 3, "", unchanged}
		}
	}
	for _, kind := range []string{stages.Columns, stages.Gradient} {
		tests["sparse "+kind] = test{kind, link.Softmax, true, 3, "", unchanged}
	}
	tests["standard"] = test{stages.Columns, link.Softmax, false, 3, "", func(j *topics.Job) { j.Prepare.Scale = stages.ScaleStandard }}
	tests["components"] = test{stages.RFF, link.Softmax, false, 3, "", func(j *topics.Job) { j.Prepare.PCA = 3 }}
	tests["standard components"] = test{stages.RFF, link.Softmax, false, 3, "", func(j *topics.Job) {
		j.Prepare.PCA, j.Prepare.Scale = 3,
			stages.ScaleStandard
	}}
	tests["any arithmetic"] = test{stages.Polynomial, link.Softmax, false, 3, "", func(j *topics.Job) { j.Arithmetic = topics.ArithmeticAny }}
	tests["little memory"] = test{stages.RFF, link.Softmax, false, 3, "", func(j *topics.Job) { j.Memory = 1 }}
	tests["holdout"] = test{stages.RFF, link.Softmax, false, 3, "", func(j *topics.Job) { j.Examples.Holdout = 0.3 }}
	tests["the first message"] = test{stages.Columns, link.Softmax, false, 0, "", unchanged} // from which the point of the moments is taken
	tests["a label of its own"] = test{stages.RFF, link.Softmax, false, 3, "rare", unchanged}
	tests["a label of its own in the first message"] = test{stages.RFF, link.Softmax, false, 0, "rare", unchanged}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			job := newForeignJob(t, kindStage(c.kind, c.link), kindStage(c.kind, c.link))
			c.change(&job)
			digest := func(messages []kafkalog.Message, want int64) wire.Digest {
				log, recorder := openEmbedded(t), &eventRecorder{}
				writeAll(t, log, job, messages)
				for range 2 { // the second run finds the row in quarantine
					report, m := trainRecorded(t, log, job, recorder)
					got := report.PassedOver[coverage.Overflowing]
					assert.True(t, got == want && report.Quarantined == want, "%d overflow, %d in quarantine; expected %d", got, report.Quarantined, want)
					rows := report.Splits["train"].Rows + report.Splits["holdout"].Rows
					assert.True(t, rows == 240-want && report.Classes == 3, "%d rows of %d classes, expected %d of 3", rows, report.Classes, 240-want)
					if quarantined := readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine); want > 0 {
						assert.Need(t, len(quarantined) == 1, "in quarantine: %v", quarantined)
						assert.Equal(t, header(quarantined[0], "partition")+"@"+header(quarantined[0], "offset"), fmt.Sprintf("0@%d", c.bad), "where it was")
						assert.True(t, strings.Contains(header(quarantined[0], "reason"), "row 7 is left out: the features overflow"), "%v", quarantined)
					}
					p := probabilities(t, m, table{rows: [][]float32{{3e38, -3e38, 3e38, 3e38}, {1e19, 0, 0, 0}}})
					assert.True(t, !slices.ContainsFunc(p.Data, func(v float32) bool { return v-v != 0 }),
						"rows that overflow are predicted as %v", p.Data)
				}
				versions, err := topics.Open(log, job.Name, nil).Versions(t.Context())
				assert.Need(t, err == nil && len(versions) == 2 && versions[0].WeightsDigest == versions[1].WeightsDigest,
					"versions %v, %v: expected two with the same digest", versions, err)
				return versions[0].WeightsDigest
			}
			want := digest(overflowMessages(t, 6, c.bad, c.sparse, weightless), 0)
			assert.Equal(t, digest(overflowMessages(t, 6, c.bad, c.sparse, setTo(3e38, c.label)), 1), want, "the digest with the row, and without")
		})
	}
}

// A run ends, and predicts no NaN, whatever size the features of one row have.
func TestRowOfAnySize(t *testing.T) {
	long(t)
	for _, kind := range []string{stages.RFF, stages.Columns, stages.Polynomial} {
		for _, scale := range []string{stages.ScaleNone, stages.ScaleStandard} {
			for _, l := range []schemas.Link{link.Softmax, link.Calibrated} {
				t.Run(fmt.Sprint(kind, " ", scale, " ", l), func(t *testing.T) {
					job := newForeignJob(t, kindStage(kind, l), kindStage(kind, l))
					job.Stages[0].Features.Degree, job.Stages[1].Features.Degree = 8, 3
					job.Prepare.Scale, job.Examples.Holdout = scale, 0.2
					job.Retrain = topics.DefaultRetrain()
					job.Retrain.Rows = 80
					for _, size := range []float32{1e5, 1e16, 1e30} {
						for _, bad := range []int{1, 4} { // before the chain's first version, and behind it
							log := openEmbedded(t)
							writeAll(t, log, job, overflowMessages(t, 6, bad, false, setTo(size, "")))
							_, m := train(t, log, job)
							p := probabilities(t, m, rings(20, 4, 3, 99)).Data
							assert.True(t, !slices.ContainsFunc(p, func(v float32) bool { return v-v != 0 }), "a row of %g in message %d: %v", size, bad, p)
							if bad == 1 || l == link.Calibrated {
								continue // whose chains make full runs alone
							}
							job := job
							job.Name = "chain"
							writeAll(t, log, job, overflowMessages(t, 6, bad, false, setTo(size, "")))
							report, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
							assert.True(t, err == nil && len(report.Updates) >= 3, "a row of %g: error %v", size, err)
						}
					}
				})
			}
		}
	}
}

// Features of a stage may overflow where the row's do not. A full run leaves them out of the stage, whatever its memory, and the report of
// the stage counts the row. The survey of an update finds the row, and puts its message into quarantine.
func TestFeaturesOfAStageOverflow(t *testing.T) {
	stage := kindStage(stages.Polynomial, link.Softmax)
	stage.Features.Degree = 4
	job := newStreamJob(t, 80, kindStage(stages.RFF, link.Softmax), stage)
	large := func(rows *examples.Rows) { rows.Floats[7*4] = 1e5 }
	var digests []wire.Digest
	for _, memory := range []int64{1 << 30, 1} {
		job, log := job, openEmbedded(t)
		job.Memory = memory
		writeAll(t, log, job, overflowMessages(t, 6, 3, false, large))
		report, _ := train(t, log, job)
		assert.True(t, report.Stages[0].Overflow == 0 && report.Stages[1].Overflow == 1 && len(report.PassedOver) == 0 && report.Rows == 240,
			"stages %+v, %d rows, %v passed over; expected that a row overflows in stage 1", report.Stages, report.Rows, report.PassedOver)
		digests = append(digests, report.WeightsDigest)
	}
	assert.Equal(t, digests[0], digests[1], "digests by memory")
	log := openEmbedded(t)
	writeAll(t, log, job, overflowMessages(t, 6, 3, false, large))
	report, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
	assert.Need(t, err == nil && len(report.Updates) == 3 && report.Updates[1].Overflow == 1, "report %+v, error %v", report, err)
	quarantined := readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine)
	assert.True(t, len(quarantined) == 1 &&
		header(quarantined[0], "reason") == "row 7 is left out: the inputs, blocks or scores of the version before overflow",
		"in quarantine: %v", quarantined)
}

// A feature that is too large for float32 costs a message its row alone, as one that is too large to be summed does.
func TestFloat64ThatOverflows(t *testing.T) {
	job := newForeignJob(t, rffStage(link.Softmax, 20, 3), rffStage(link.Softmax, 20, 3))
	schema := arrow.NewSchema([]arrow.Field{{Name: "features", Type: arrow.FixedSizeListOf(4, arrow.PrimitiveTypes.Float64)},
		{Name: "label", Type: arrow.BinaryTypes.String}}, nil)
	var rows []string
	data := rings(40, 4, 3, 1)
	for i, x := range data.rows {
		first := fmt.Sprint(x[0])
		if i == 7 {
			first = "-1e300"
		}
		rows = append(rows, fmt.Sprintf(`{"features": [%s, %v, %v, %v], "label": %q}`, first, x[1], x[2], x[3], data.labels[i]))
	}
	mem := assert.Allocator(t)
	record, _, err := array.RecordFromJSON(mem, schema, strings.NewReader("["+strings.Join(rows, ",")+"]"))
	assert.NoError(t, err)
	defer record.Release()
	value := assert.Must(examples.Encode(record, mem))(t)
	for _, scale := range []string{stages.ScaleNone, stages.ScaleStandard, stages.ScaleUnit} {
		log := openEmbedded(t)
		job.Prepare.Scale = scale
		produce(t, log, job, 0, kafkalog.Message{Value: value})
		report, _ := train(t, log, job)
		assert.True(t, report.Rows == 39 && report.PassedOver[coverage.Overflowing] == 1 && report.Quarantined == 1, "%s: %+v", scale, report)
	}
}

// A number to predict that overflows, standardised as the chain's first version has it, costs an update its row alone.
func TestTargetThatOverflows(t *testing.T) {
	for _, target := range []float64{3e38, -1e20} {
		job := newStreamJob(t, 80, kindStage(stages.RFF, link.Identity))
		job.Examples.Targets, job.Examples.Holdout = []string{"y", "z"}, 0.25
		job.Retrain.Gate = topics.GateOptions{Split: examples.Holdout.String(), Margin: 1}
		log := openEmbedded(t)
		for i := range 6 {
			rows := rings(40, 4, 3, uint64(i+1)).exampleRows()
			rows.Words = nil
			for row := range rows.Rows {
				rows.Targets = append(rows.Targets, 1e-3*float64(rows.Floats[4*row]), 1e-3*float64(rows.Floats[4*row+1]))
			}
			if i == 3 {
				rows.Targets[2*7] = target
			}
			produce(t, log, job, 0, exampleMessage(t, rows))
		}
		report, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
		assert.Need(t, err == nil && len(report.Updates) == 3 && report.Updates[1].Overflow == 1, "report %+v, error %v", report, err)
		for i, u := range report.Updates[1:] { // each row is learnt or judged
			assert.True(t, u.Gate != nil && float64(u.Rows)+u.Gate.Weight-u.Gate.Revisited == float64(79+i), "%+v learns %d rows", u.Gate, u.Rows)
		}
		quarantined := readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine)
		assert.True(t, len(quarantined) == 1 && header(quarantined[0], "reason") == "row 7 is left out: the standardized targets overflow",
			"in quarantine: %v", quarantined)
		rmse := report.Updates[2].PrequentialRMSE
		assert.True(t, rmse != nil && *rmse < 1e-3, "the error of the rows behind it is %v", rmse)
	}
}

// However many runs there were, a run reads as much of the topics before it begins as the tenth did, and makes the next version; the
// latest versions stay, and all of them can be read.
func TestManyRuns(t *testing.T) {
	long(t)
	const runs, keep = 60, 3
	job, message := newForeignJob(t, rffStage(link.Softmax, 20, 3)), exampleMessage(t, rings(20, 2, 2, 1).exampleRows())
	job.Keep = keep
	log := openAlone(t) // no other process needs the past
	produce(t, log, job, 0, message)
	p := topics.Open(log, job.Name, assert.Allocator(t))
	read := func() (n int) { // the offsets that a process reads after a run
		client, calls := *p.Client, 0
		client.Log = countingLog{client.Log, &calls, &n}
		assert.Must(client.ReadLedger(t.Context()))(t)
		return n
	}
	most := 0
	for i := range runs {
		report, m := train(t, log, job)
		assert.Need(t, report.Version == i+1 && m.Manifest.Version == i+1,
			"run %d made version %d, its model is of version %d", i+1, report.Version, m.Manifest.Version)
		most = max(most, read())
	}
	limit := 2 * 64
	assert.True(t, most <= limit, "%d offsets are read after a run, expected at most %d after any number of runs", most, limit)
	versions, err := topics.Open(log, job.Name, nil).Versions(t.Context())
	assert.Need(t, err == nil && len(versions) == keep, "%d versions, %v; expected %d", len(versions), err, keep)
	for i, v := range versions {
		assert.Equal(t, v.Version, runs-keep+1+i, "a version that stays")
		assert.Must(topics.Open(log, job.Name, nil).Model(t.Context(), v.Run))(t)
	}
	n := len(live(t, log, p.Topics.Versions))
	assert.True(t, n%keep == 0 && n/keep <= 4, "%d messages of the versions topic stay, expected those of %d versions", n, keep)
	n = len(live(t, log, p.Topics.Plans))
	assert.True(t, n <= 3*64+2, "%d messages of the plans topic stay, expected a plan, an end and a removal of 64 runs", n)
	job.Warm = "1"
	assert.Fails(t, trainError(t, log, job), new(*protocol.NoVersionError))
}

// countingLog counts the calls of a log, and the offsets that are read.
type countingLog struct {
	protocol.Log
	calls, read *int
}

func (l countingLog) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	*l.calls++
	return l.Log.Bounds(ctx, topic, partition)
}

func (l countingLog) Spans(ctx context.Context, topic string) ([]coverage.Span, error) {
	*l.calls++
	return l.Log.Spans(ctx, topic)
}

func (l countingLog) Range(ctx context.Context, topic string, partition int, from, to int64) iter.Seq2[protocol.Message, error] {
	*l.calls++
	*l.read += int(to - from)
	return l.Log.Range(ctx, topic, partition, from, to)
}

// A manifest and a report longer than a message make a version all the same.
func TestLongLabels(t *testing.T) {
	data := table{}
	for i := range 940 {
		data.rows = append(data.rows, []float32{float32(i), float32(i * i % 7)})
		data.labels = append(data.labels, fmt.Sprintf("%03d%s", i, strings.Repeat("x", 997)))
	}
	log, job := openEmbedded(t), newJob(t, data, table{}, rffStage(link.Identity, 10, 1))
	job.Examples.Label = "0"
	report, m := train(t, log, job)
	assert.True(t, report.Classes == 940 && len(m.Labels()) == 940 && report.Version == 1,
		"version %d of %d classes, its model has %d", report.Version, report.Classes, len(m.Labels()))
	versions, err := topics.Open(log, job.Name, nil).Versions(t.Context())
	assert.True(t, err == nil && len(versions) == 1 && versions[0].Labels[939] == data.labels[939], "%d versions, %v", len(versions), err)
}

// A run over many sources on many partitions is planned with few requests, and trains on all of them.
func TestManySources(t *testing.T) {
	long(t)
	const sources, partitions = 5000, 100
	data := table{rows: [][]float32{{0, 1}, {1, 0}}, labels: []string{"a", "b"}}
	job, message := newForeignJob(t, rffStage(link.Softmax, 20, 3)), exampleMessage(t, data.exampleRows())
	job.Examples.Partitions = partitions
	log := openEmbedded(t)
	p := topics.Open(log, job.Name, assert.Allocator(t))
	assert.NoError(t, topics.Create(t.Context(), p, &job))
	var seals []wire.Message
	written := make([][]wire.Message, partitions)
	for i := range sources {
		// Of each source the last message is there; the others, which would be in other partitions, are gone.
		seal := schemas.SourceSeal{ID: fmt.Sprintf("%064d", i), Attempt: "1", Split: "train", Partitions: partitions,
			Messages: int64(i%partitions) + 1, Rows: 2}
		seal.Spans = coverage.Spans{{Partition: i % partitions, From: int64(len(written[i%partitions])),
			To: int64(len(written[i%partitions])) + 1}}
		seals = append(seals, seal.Message())
		written[i%partitions] = append(written[i%partitions], wire.Message{Value: message.Value, Headers: []wire.Header{
			{Key: "stagewise-source", Value: seal.Name()}, {Key: "stagewise-sequence", Value: fmt.Sprint(i % partitions)}}})
	}
	for n, messages := range written {
		assert.Must(p.Log.Append(t.Context(), p.Topics.Examples, n, messages...))(t)
	}
	assert.Must(p.Log.Append(t.Context(), p.Topics.Plans, 0, seals...))(t)
	l := readLedger(t, p)
	calls, offsets := 0, 0
	client := *p.Client
	client.Log = countingLog{client.Log, &calls, &offsets}
	counted := &topics.Pipeline{Client: &client, Admin: p.Admin}
	plan := assert.Must(dispatch.Plan(t.Context(), counted, job, dispatch.Arithmetic(openBLAS(t)), nil, l, topics.ExamplesRetention{}))(t)
	assert.True(t, len(plan.Sources) == sources && len(plan.Spans) == partitions && calls <= 8,
		"%d sources, %d spans, %d calls of the log; expected %d, %d and at most 8", len(plan.Sources), len(plan.Spans), calls, sources,
		partitions)
	messages, err := plan.Messages()
	assert.True(t, err == nil && len(messages) >= 2, "the plan has %d messages, %v; expected several", len(messages), err)
	report, _ := train(t, log, job)
	assert.Equal(t, report.Rows, 2*sources, "rows")
}

// What retention may delete before a run has ended is left out, and the report says so.
func TestExpiringExamples(t *testing.T) {
	hour := int64(3600)
	bounds := []coverage.Span{{Partition: 0, From: 0, To: 100}, {Partition: 1, From: 40, To: 100}, {Partition: 2, From: 7, To: 7}}
	for name, test := range map[string]struct {
		config map[string]string
		before func(age time.Duration) []int64
		want   []int64
	}{
		"for ever":  {map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}, nil, []int64{0, 40, 7}},
		"compacted": {map[string]string{"cleanup.policy": "compact", "retention.ms": "1", "retention.bytes": "1"}, nil, []int64{0, 40, 7}},
		"an hour": {
			map[string]string{"cleanup.policy": "delete", "retention.ms": fmt.Sprint(hour * 1000)},
			func(age time.Duration) []int64 { // a message a minute in partition 0
				assert.Equal(t, age, 45*time.Minute, "the age that is asked for, three quarters of the retention")
				return []int64{55, 30, 7}
			}, []int64{55, 40, 7},
		},
		"all is old": {
			map[string]string{"cleanup.policy": "delete", "retention.ms": "60000"},
			func(time.Duration) []int64 { return []int64{100, 100, 7} }, []int64{100, 100, 7},
		},
		// Of 60 messages, 10 came in the last hour, and a segment is a tenth of the partition.
		"bytes": {
			map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "1000", "segment.bytes": "100"},
			func(time.Duration) []int64 { return []int64{90, 90, 7} }, []int64{0, 40 + 10 + 6, 7},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &topics.Pipeline{Client: &protocol.Client{Log: agedLog{before: test.before}}}
			got := assert.Must(topics.Staying(t.Context(), p, topics.RetentionOf(test.config), bounds))(t)
			var from []int64
			for _, span := range got {
				from = append(from, span.From)
			}
			assert.Equal(t, from, test.want, "where the spans begin")
		})
	}
}

// agedLog is a log that only knows how old its messages are.
type agedLog struct {
	protocol.Log
	before func(age time.Duration) []int64
}

func (l agedLog) Before(_ context.Context, _ string, age time.Duration) ([]int64, error) {
	return l.before(age), nil
}

// Partitions belong to who can work on them: a process that ingests is no member of the group of workers, and one that trains is.
func TestIngestIsNoMember(t *testing.T) {
	job := newJob(t, rings(3000, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
	job.Examples.BatchRows = 8
	log := openEmbedded(t)
	client := clientOf(t, log)
	members := func() int {
		request := kmsg.NewPtrDescribeGroupsRequest()
		request.Groups = []string{protocol.TopicsOf(job.Name).Group(protocol.RoleWork)}
		return len(assert.Must(request.RequestWith(t.Context(), client))(t).Groups[0].Members)
	}
	ingesting, training, asked := 0, 0, 0
	recorder := &eventRecorder{on: func(e event.Event) {
		switch e.(type) {
		case event.Ingested:
			asked++
			ingesting = max(ingesting, members())
		case event.Passed:
			training = max(training, members())
		}
	}}
	trainRecorded(t, connect(t, log), job, recorder)
	assert.True(t, asked >= 100 && ingesting == 0 && training == 1,
		"asked %d times, the group of workers has %d members during ingest and %d during the run; expected 0 and 1", asked, ingesting, training)
}
