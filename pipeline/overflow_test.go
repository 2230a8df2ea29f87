package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

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
	tests["standard"] = test{stages.Columns, link.Softmax, false, 3, "", func(j *topics.Job) { j.Prepare.Scale = prepare.ScaleStandard }}
	tests["components"] = test{stages.RFF, link.Softmax, false, 3, "", func(j *topics.Job) { j.Prepare.PCA = 3 }}
	tests["standard components"] = test{stages.RFF, link.Softmax, false, 3, "", func(j *topics.Job) {
		j.Prepare.PCA, j.Prepare.Scale = 3,
			prepare.ScaleStandard
	}}
	tests["any arithmetic"] = test{stages.Polynomial, link.Softmax, false, 3, "", func(j *topics.Job) { j.Arithmetic = topics.ArithmeticAny }}
	tests["little memory"] = test{stages.RFF, link.Softmax, false, 3, "", func(j *topics.Job) { j.Memory = 1 }}
	tests["holdout"] = test{stages.RFF, link.Softmax, false, 3, "", func(j *topics.Job) { j.Examples.Holdout = 0.3 }}
	tests["the first message"] = test{stages.Columns, link.Softmax, false, 0, "", unchanged} // from which the point of the moments is taken
	tests["a label of its own"] = test{stages.RFF, link.Softmax, false, 3, "rare", unchanged}
	tests["a label of its own in the first message"] = test{stages.RFF, link.Softmax, false, 0, "rare", unchanged}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			job, _ := newForeignJob(t, rings(1, 4, 3, 1))
			job.Stages = []schemas.Stage{kindStage(c.kind, c.link), kindStage(c.kind, c.link)}
			c.change(&job)
			digest := func(messages []kafkalog.Message, want int64) wire.Digest {
				log, recorder := openEmbedded(t), &eventRecorder{}
				writeAll(t, log, job, messages)
				for range 2 { // the second run finds the row in quarantine
					report, m := trainRecorded(t, log, job, recorder)
					if got := report.PassedOver[coverage.Overflowing]; got != want || report.Quarantined != want {
						t.Errorf("%d rows overflow, %d messages in quarantine; expected %d", got, report.Quarantined, want)
					}
					if rows := report.Splits["train"].Rows + report.Splits["holdout"].Rows; rows != 240-want || report.Classes != 3 {
						t.Errorf("%d rows of %d classes, expected %d of 3", rows, report.Classes, 240-want)
					}
					if quarantined := readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine); want > 0 {
						if len(quarantined) != 1 || header(quarantined[0], "partition")+"@"+header(quarantined[0], "offset") != fmt.Sprintf("0@%d", c.bad) || !strings.Contains(header(quarantined[0], "reason"),
							"row 7 is left out: the features overflow") {
							t.Fatalf("in quarantine: %v", quarantined)
						}
					}
					if p := probabilities(t, m, table{rows: [][]float32{{3e38, -3e38, 3e38, 3e38}, {1e19, 0, 0, 0}}}); slices.ContainsFunc(p.Data,
						func(v float32) bool { return v-v != 0 }) {
						t.Errorf("rows that overflow are predicted as %v", p.Data)
					}
				}
				versions, err := topics.Open(log, job.Name, nil).Versions(t.Context())
				if err != nil || len(versions) != 2 || versions[0].WeightsDigest != versions[1].WeightsDigest {
					t.Fatalf("versions %v, %v: expected two with the same digest", versions, err)
				}
				return versions[0].WeightsDigest
			}
			want := digest(overflowMessages(t, 6, c.bad, c.sparse, weightless), 0)
			if got := digest(overflowMessages(t, 6, c.bad, c.sparse, setTo(3e38, c.label)), 1); got != want {
				t.Errorf("digest %s, without the row %s", got, want)
			}
		})
	}
}

// A run ends, and predicts no NaN, whatever size the features of one row have.
func TestRowOfAnySize(t *testing.T) {
	long(t)
	for _, kind := range []string{stages.RFF, stages.Columns, stages.Polynomial} {
		for _, scale := range []string{prepare.ScaleNone, prepare.ScaleStandard} {
			for _, l := range []schemas.Link{link.Softmax, link.Calibrated} {
				t.Run(fmt.Sprint(kind, " ", scale, " ", l), func(t *testing.T) {
					job, _ := newForeignJob(t, rings(1, 4, 3, 1))
					job.Stages = []schemas.Stage{kindStage(kind, l), kindStage(kind, l)}
					job.Stages[0].Features.Degree, job.Stages[1].Features.Degree = 8, 3
					job.Prepare.Scale, job.Examples.Holdout = scale, 0.2
					job.Retrain = topics.DefaultRetrain()
					job.Retrain.Rows = 80
					for _, size := range []float32{1e5, 1e16, 1e30} {
						for _, bad := range []int{1, 4} { // before the chain's first version, and behind it
							log := openEmbedded(t)
							writeAll(t, log, job, overflowMessages(t, 6, bad, false, setTo(size, "")))
							_, m := train(t, log, job)
							if p := probabilities(t, m, rings(20, 4, 3, 99)); slices.ContainsFunc(p.Data, func(v float32) bool { return v-v != 0 }) {
								t.Errorf("a row of %g in message %d: rows are predicted as %v", size, bad, p.Data)
							}
							if bad == 1 || l == link.Calibrated {
								continue // whose chains make full runs alone
							}
							job := job
							job.Name = "chain"
							writeAll(t, log, job, overflowMessages(t, 6, bad, false, setTo(size, "")))
							report, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
							if err != nil || len(report.Updates) < 3 {
								t.Errorf("a row of %g: error %v", size, err)
							}
						}
					}
				})
			}
		}
	}
}

// Features of a stage may overflow where the row's do not. A full run leaves them out of the stage, whatever its
// memory, and the report of the stage counts the row. The survey of an update finds the row, and puts its message into
// quarantine.
func TestFeaturesOfAStageOverflow(t *testing.T) {
	job, _ := newForeignJob(t, rings(1, 4, 3, 1))
	stage := kindStage(stages.Polynomial, link.Softmax)
	stage.Features.Degree = 4
	job.Stages = []schemas.Stage{kindStage(stages.RFF, link.Softmax), stage}
	job.Retrain = topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full = 80, topics.FullOptions{}
	large := func(rows *examples.Rows) { rows.Floats[7*4] = 1e5 }
	var digests []wire.Digest
	for _, memory := range []int64{1 << 30, 1} {
		job, log := job, openEmbedded(t)
		job.Memory = memory
		writeAll(t, log, job, overflowMessages(t, 6, 3, false, large))
		report, _ := train(t, log, job)
		if report.Stages[0].Overflow != 0 || report.Stages[1].Overflow != 1 || len(report.PassedOver) > 0 || report.Rows != 240 {
			t.Errorf("stages %+v, %d rows, %v passed over; expected that a row overflows in stage 1", report.Stages, report.Rows, report.PassedOver)
		}
		digests = append(digests, report.WeightsDigest)
	}
	if digests[0] != digests[1] {
		t.Errorf("digests %v: they depend on memory", digests)
	}
	log := openEmbedded(t)
	writeAll(t, log, job, overflowMessages(t, 6, 3, false, large))
	report, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
	if err != nil || len(report.Updates) != 3 || report.Updates[1].Overflow != 1 {
		t.Fatalf("report %+v, error %v", report, err)
	}
	quarantined := readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine)
	if len(quarantined) != 1 || header(quarantined[0],
		"reason") != "row 7 is left out: the inputs, blocks or scores of the version before overflow" {
		t.Errorf("in quarantine: %v", quarantined)
	}
}

// A feature that is too large for float32 costs a message its row alone, as one that is too large to be summed does.
func TestFloat64ThatOverflows(t *testing.T) {
	job, _ := newForeignJob(t, rings(1, 4, 3, 1))
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
	mem := arrowtest.Allocator(t)
	record, _, err := array.RecordFromJSON(mem, schema, strings.NewReader("["+strings.Join(rows, ",")+"]"))
	noError(t, err)
	defer record.Release()
	value := must(examples.Encode(record, mem))(t)
	for _, scale := range []string{prepare.ScaleNone, prepare.ScaleStandard, prepare.ScaleUnit} {
		log := openEmbedded(t)
		job.Prepare.Scale = scale
		produce(t, log, job, 0, kafkalog.Message{Value: value})
		if report, _ := train(t, log, job); report.Rows != 39 || report.PassedOver[coverage.Overflowing] != 1 || report.Quarantined != 1 {
			t.Errorf("scale %s: %d rows, %v passed over", scale, report.Rows, report.PassedOver)
		}
	}
}

// A number to predict that overflows, standardised as the chain's first version has it, costs an update its row alone.
func TestTargetThatOverflows(t *testing.T) {
	for _, target := range []float64{3e38, -1e20} {
		job, _ := newForeignJob(t, rings(1, 4, 3, 1))
		job.Examples.Targets, job.Stages = []string{"y"}, []schemas.Stage{kindStage(stages.RFF, link.Identity)}
		job.Retrain = topics.DefaultRetrain()
		job.Retrain.Rows, job.Retrain.Full = 80, topics.FullOptions{}
		log := openEmbedded(t)
		for i := range 6 {
			rows := rings(40, 4, 3, uint64(i+1)).exampleRows()
			rows.Words = nil
			for row := range rows.Rows {
				rows.Targets = append(rows.Targets, 1e-3*float64(rows.Floats[4*row]))
			}
			if i == 3 {
				rows.Targets[7] = target
			}
			produce(t, log, job, 0, exampleMessage(t, rows))
		}
		report, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
		if err != nil || len(report.Updates) != 3 || report.Updates[1].Overflow != 1 || report.Updates[1].Rows != 79 {
			t.Fatalf("report %+v, error %v", report, err)
		}
		quarantined := readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine)
		if len(quarantined) != 1 || header(quarantined[0], "reason") != "row 7 is left out: the standardized targets overflow" {
			t.Errorf("in quarantine: %v", quarantined)
		}
		if rmse := report.Updates[2].PrequentialRMSE; rmse == nil || !(*rmse < 1e-3) {
			t.Errorf("the error of the rows behind it is %v", rmse)
		}
	}
}

// With on_bad_message: stop a row that overflows ends the run, and the error says where it is.
func TestRunStopsAtARowThatOverflows(t *testing.T) {
	job, _ := newForeignJob(t, rings(1, 4, 3, 1))
	job.OnBadMessage = schemas.StopOnBadMessage
	log := openEmbedded(t)
	writeAll(t, log, job, overflowMessages(t, 3, 1, false, setTo(3e38, "")))
	want := "examples test.examples[0]@1: row 7 is left out: the features overflow"
	if err := trainError(t, log, job); !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, expected %q", err, want)
	}
}

// If all rows overflow, the run says so.
func TestAllRowsOverflow(t *testing.T) {
	job, _ := newForeignJob(t, rings(1, 4, 3, 1))
	log := openEmbedded(t)
	data := rings(5, 4, 3, 1).exampleRows()
	for i := range data.Floats {
		data.Floats[i] = 3e38
	}
	produce(t, log, job, 0, exampleMessage(t, data))
	want := "none of its 1 messages can be used. The first is test.examples[0]@0: rows 0, 1, 2 and 2 more are left out: the features overflow"
	if err := trainError(t, log, job); !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, expected %q", err, want)
	}
}
