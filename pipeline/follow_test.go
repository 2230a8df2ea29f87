package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/stages"
)

// clicks is a job whose examples come from a topic of five partitions, and the log that has the topic. Row i is a line of CSV, and its
// second feature is i.
func clicks(t *testing.T, log *kafkalog.Log, rows int) topics.Job {
	t.Helper()
	return clicksOn(t, log, "clicks", rows)
}

// clicksOn is clicks on a topic of another name.
func clicksOn(t *testing.T, log *kafkalog.Log, topic string, rows int) topics.Job {
	t.Helper()
	job := newJob(t, rings(10, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
	job.Examples.Train, job.Examples.FromTopic, job.Examples.Format = nil, topic, "csv"
	job.Examples.Partitions, job.Examples.BatchRows = 2, 8
	noError(t, log.Create(t.Context(), kafkalog.Topic{Name: topic, Partitions: 5}))
	clickOn(t, log, topic, 0, rows)
	return job
}

// click writes the rows from to to (excluded), one or three in a message.
func click(t *testing.T, log *kafkalog.Log, from, to int) {
	t.Helper()
	clickOn(t, log, "clicks", from, to)
}

func clickOn(t *testing.T, log *kafkalog.Log, topic string, from, to int) {
	t.Helper()
	for partition := 0; from < to; partition++ {
		var value strings.Builder
		for range min(1+2*(partition%2), to-from) {
			fmt.Fprintf(&value, "%c,%d,%d\n", 'a'+rune(from%2), from%2, from)
			from++
		}
		must(log.Append(t.Context(), topic, partition%5, kafkalog.Message{Value: []byte(value.String())}))(t)
	}
}

// countedRows returns the second features of the rows that a run without files counts, sorted.
func countedRows(t *testing.T, log *kafkalog.Log, job topics.Job) (rows []int) {
	t.Helper()
	eachCounted(t, log, job, func(row int, _ string) { rows = append(rows, row) })
	slices.Sort(rows)
	return rows
}

// eachCounted calls do for each row that a run without files counts, with its second feature and its label.
func eachCounted(t *testing.T, log *kafkalog.Log, job topics.Job, do func(row int, label string)) {
	t.Helper()
	mem := arrowtest.Allocator(t)
	replays := map[int]*protocol.SpanCounting{}
	counting := protocol.NewCounting(&schemas.Plan{Foreign: true})
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Examples) {
		if replays[m.Partition] == nil {
			replays[m.Partition] = counting.Replay(coverage.Span{Partition: m.Partition})
		}
		if replays[m.Partition].Accept(protocol.FromKafka(m)) != "" {
			continue
		}
		batch := must(examples.Decode(m.Value, mem))(t)
		features := make([]float32, batch.Rows*batch.Width)
		batch.Features(features, batch.Width)
		for i := range batch.Rows {
			do(int(features[i*batch.Width+1]), batch.Label(i))
		}
		batch.Release()
	}
}

func checkCounted(t *testing.T, log *kafkalog.Log, job topics.Job, rows int) {
	t.Helper()
	want := make([]int, rows)
	for i := range want {
		want[i] = i
	}
	if got := countedRows(t, log, job); !slices.Equal(got, want) {
		t.Errorf("the rows that count are %v, expected 0 to %d, each once", got, rows-1)
	}
}

func followToEnd(t *testing.T, log *kafkalog.Log, job topics.Job) *eventRecorder {
	t.Helper()
	recorder := &eventRecorder{}
	noError(t, source.Follow(t.Context(), log, job, true, recorder))
	return recorder
}

// A value that can't be used goes into quarantine with its place and the reason, or ends ingest if the job says so. The others count.
func TestFollowQuarantines(t *testing.T) {
	log := openEmbedded(t)
	job := clicks(t, log, 30)
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	traced := func(value string) []kafkalog.Header {
		return []kafkalog.Header{{Key: "traceparent", Value: []byte(value)}}
	}
	must(log.Append(t.Context(), "clicks", 3, kafkalog.Message{Key: []byte("k"), Value: []byte("a,0,x"), Headers: traced(trace)},
		kafkalog.Message{Headers: traced("none")}))(t)
	click(t, log, 30, 60)
	strict := job
	strict.OnBadMessage = schemas.StopOnBadMessage
	if err := source.Follow(t.Context(), log, strict, true, &eventRecorder{}); err == nil || !strings.HasPrefix(err.Error(),
		"clicks[3]@") || !strings.Contains(err.Error(), `: column 2: … is not a number: `) {
		t.Errorf("got error %v, expected one about the value", err)
	}
	recorder := followToEnd(t, log, job)
	checkCounted(t, log, job, 60)
	var reasons []string
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine) {
		bad := protocol.FromKafka(m)
		if bad.Get("topic") != "clicks" || bad.Get("partition") != "3" || !strings.HasPrefix(bad.Key, "clicks/3/") {
			t.Errorf("a message in quarantine has the key %s and the headers %v", bad.Key, bad.Headers)
		}
		if want := map[bool]string{true: trace}[bad.Get("key") == "k"]; bad.Get("traceparent") != want {
			t.Errorf("traceparent %q, expected %q", bad.Get("traceparent"), want)
		}
		reasons = append(reasons, bad.Get("reason"))
	}
	if want := []string{`column 2: "x" is not a number: examples.categorical accepts columns of words, examples.columns.drop excludes a column, ` +
		"examples.missing_values lists the words for a missing value",
		"an empty value: expected one example a line, without a header"}; !slices.Equal(reasons, want) {
		t.Errorf("in quarantine because of %q, expected %q", reasons, want)
	}
	if events := eventsOf[event.Quarantined](recorder); len(events) != 2 || events[0].Topic != "clicks" {
		t.Errorf("recorded %v", events)
	}
}

// clicksAgain makes the topic of clicks anew, with the rows in turn on its partitions. Each has a time of its own,
// which is later from the row later on.
func clicksAgain(t *testing.T, log *kafkalog.Log, partitions int, rows []int, later int) {
	t.Helper()
	noError(t, log.Delete(t.Context(), "clicks"))
	noError(t, log.Create(t.Context(), kafkalog.Topic{Name: "clicks", Partitions: partitions}))
	client := must(kgo.NewClient(kgo.SeedBrokers(log.Addr()...), kgo.RecordPartitioner(kgo.ManualPartitioner())))(t)
	defer client.Close()
	for _, i := range rows {
		at := time.UnixMilli(1_700_000_000_000)
		if i >= later {
			at = time.UnixMilli(1_800_000_000_000)
		}
		r := &kgo.Record{
			Topic: "clicks", Partition: int32(i % partitions), Value: fmt.Appendf(nil, "%c,%d,%d\n", 'a'+rune(i%2), i%2, i),
			Timestamp: at.Add(time.Duration(i) * time.Second),
		}
		noError(t, client.ProduceSync(t.Context(), r).FirstErr())
	}
}

// upTo returns the numbers from from to to (excluded).
func upTo(from, to int) (list []int) {
	for i := from; i < to; i++ {
		list = append(list, i)
	}
	return list
}

// clicksAt makes the topic of clicks anew with one partition, and with the rows from 0 to before, and later those from from to to.
func clicksAt(t *testing.T, log *kafkalog.Log, before, from, to int) {
	t.Helper()
	clicksAgain(t, log, 1, append(upTo(0, before), upTo(from, to)...), max(from, before))
}

// If a topic no longer has what was read last, ingest stops until the operator has said whether to go on behind that or
// to read another topic. No row counts twice unless it is another topic.
func TestFollowTopicThatHasChanged(t *testing.T) {
	for name, test := range map[string]struct {
		before, from, to int    // of clicksAt, after 100 rows were read
		why              string // "" if it is the same topic
		behind           []int  // the rows that count then beside the first 100, if reading goes on behind, first and end
	}{
		"it has more":                    {before: 100, from: 100, to: 130, behind: []int{100, 130}},
		"it has lost the last":           {before: 99, why: "it ends at offset 99"},
		"it has lost some":               {before: 40, why: "it ends at offset 40"},
		"it has lost all":                {why: "it ends at offset 0"},
		"it has lost some and got more":  {before: 80, from: 100, to: 150, why: "another message is there", behind: []int{120, 150}},
		"it has lost some and got fewer": {before: 80, from: 100, to: 110, why: "it ends at offset 90"},
		"it was made anew":               {from: 200, to: 300, why: "another message is there"},
		"it was made anew with more":     {from: 200, to: 310, why: "another message is there", behind: []int{300, 310}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // who decides waits for a while, lest a leader has more to say
			for _, choice := range []string{ingest.ChangedTopicBehind, ingest.ChangedTopicAnew} {
				log := openEmbedded(t)
				job := clicks(t, log, 0)
				job.Examples.Partitions = 1
				clicksAt(t, log, 100, 0, 0)
				followToEnd(t, log, job)
				checkCounted(t, log, job, 100)
				clicksAt(t, log, test.before, test.from, test.to)
				err := source.Follow(t.Context(), log, job, true, event.Ignore{})
				changed, ok := errors.AsType[*source.ChangedTopicError](err)
				if ok != (test.why != "") || err != nil && !ok {
					t.Fatalf("got error %v, expected one because of %q", err, test.why)
				}
				if ok && (changed.Why != test.why || changed.Last != 99 || !strings.Contains(err.Error(), "examples.on_changed_topic to behind")) {
					t.Errorf("got error %v, expected %s", err, test.why)
				}
				job.Examples.OnChangedTopic = choice
				want := upTo(0, 100)
				switch {
				case choice == ingest.ChangedTopicAnew && ok:
					want = slices.Concat(want, upTo(0, test.before), upTo(test.from, test.to))
				case len(test.behind) > 0:
					want = append(want, upTo(test.behind[0], test.behind[1])...)
				}
				followToEnd(t, log, job)
				if len(want) > 100 { // the choice is on the topic
					followToEnd(t, log, job)
					job.Examples.OnChangedTopic = ingest.ChangedTopicStop
					followToEnd(t, log, job)
				}
				slices.Sort(want)
				if got := countedRows(t, log, job); !slices.Equal(got, want) {
					t.Errorf("%s: the rows %v count, expected %v", choice, got, want)
				}
			}
		})
	}
}

// What retention has deleted of a topic, read or not, is no change of the topic. What was not read is said.
func TestFollowTopicThatForgets(t *testing.T) {
	for first, want := range map[int64]int{50: 130, 100: 130, 110: 120} {
		log := openEmbedded(t)
		job := clicks(t, log, 0)
		job.Examples.Partitions = 1
		clicksAt(t, log, 100, 0, 0)
		followToEnd(t, log, job)
		for i := range 30 {
			must(log.Append(t.Context(), "clicks", 0, kafkalog.Message{Value: fmt.Appendf(nil, "a,0,%d", 100+i)}))(t)
		}
		deleteRecords(t, log, "clicks", 0, first)
		rec := followToEnd(t, log, job)
		if rows := countedRows(t, log, job); len(rows) != want {
			t.Errorf("without the offsets before %d: %d rows count, expected %d", first, len(rows), want)
		}
		said := slices.ContainsFunc(eventsOf[event.Lost](rec), func(e event.Lost) bool {
			return e == event.Lost{Topic: "clicks", From: 100, To: 110}
		})
		if said != (first == 110) {
			t.Errorf("without the offsets before %d: notices %v", first, eventsOf[event.Noticed](rec))
		}
	}
}

// A pipeline does not follow a topic that is missing, or one of its own.
func TestFollowTopicsThatCantBe(t *testing.T) {
	long(t)
	log := openEmbedded(t)
	job := clicks(t, log, 1)
	job.Examples.FromTopic = job.Name + ".examples"
	if err := source.Follow(t.Context(), log, job, true, &eventRecorder{}); !strings.Contains(fmt.Sprint(err), "is a topic of this pipeline") {
		t.Errorf("its own topic: %v", err)
	}
	job.Examples.FromTopic = "visits"
	if err := source.Follow(t.Context(), log, job, true, &eventRecorder{}); !errors.Is(err, kafkalog.ErrUnknownTopic) {
		t.Errorf("a topic that is missing: %v", err)
	}
}

// sizes writes rows from to to (excluded) to the topic sizes, and returns a job whose examples come from there.
func sizes(t *testing.T, log *kafkalog.Log, format string) (job topics.Job, write func(from, to int)) {
	t.Helper()
	job = newJob(t, rings(10, 2, 2, 1), table{}, rffStage(link.Softmax, 10, 1))
	o := &job.Examples
	o.Train, o.FromTopic, o.Format, o.Partitions, o.BatchRows = nil, "sizes", format, 2, 8
	if format == "json" {
		o.Label, o.Columns.Use, o.Categorical = "kind", []string{"length", "width", "colour"}, []string{"colour"}
	} else {
		o.Label, o.Columns.Use = "0", []string{"1", "2"}
	}
	job.Retrain = topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full = 50, topics.FullOptions{}
	noError(t, log.Create(t.Context(), kafkalog.Topic{Name: o.FromTopic, Partitions: 1}))
	return job, func(from, to int) {
		for i := from; i < to; i++ {
			value := fmt.Sprintf("%c,%d,%d,%d", 'a'+rune(i%2), 10*(i%2)+i%7, i%5, i)
			if format == "json" {
				value = fmt.Sprintf(`{"kind": "%c", "length": %d, "width": %d, "height": %d, "colour": "%c", "code": 1}`, 'a'+rune(i%2),
					10*(i%2)+i%7, i%5, i, 'r'+rune(i%3))
			}
			must(log.Append(t.Context(), o.FromTopic, 0, kafkalog.Message{Value: []byte(value)}))(t)
		}
	}
}

// The columns of a followed topic are known by name: in another order they are the same columns, and others are refused
// before anything is ingested, so that nothing is lost once the columns are restored.
func TestFollowedColumnsAreKnownByName(t *testing.T) {
	long(t)
	for name, test := range map[string]struct {
		format, want string // the error; "": the rows are those of the earlier columns
		change       func(*topics.Job)
	}{
		"another order": {"json", "", func(job *topics.Job) { job.Examples.Columns.Use = []string{"colour", "width", "length"} }},
		"fewer": {"json", `examples.columns.use lacks the column "width"`,
			func(job *topics.Job) { job.Examples.Columns.Use = []string{"length", "colour"} }},
		"more": {"json", `examples.columns.use also has the column "height"`,
			func(job *topics.Job) { job.Examples.Columns.Use = []string{"length", "width", "colour", "height"} }},
		"others": {"json", `examples.columns.use lacks the column "width" and has "height"`,
			func(job *topics.Job) { job.Examples.Columns.Use = []string{"length", "height", "colour"} }},
		"a number for a word":  {"json", `column "colour" has other categories`, func(job *topics.Job) { job.Examples.Categorical = nil }},
		"other words":          {"json", "no words in the column width", func(job *topics.Job) { job.Examples.Categorical = []string{"width"} }},
		"lines, another order": {"csv", "", func(job *topics.Job) { job.Examples.Columns.Use = []string{"2", "1"} }},
		"lines, fewer": {"csv", `columns.use: ["1"], but version 4 of the chain has learnt rows with ["1" "2"]`,
			func(job *topics.Job) { job.Examples.Columns.Use = []string{"1"} }},
		"lines, others": {"csv", `columns.use: ["1" "3"], but version 4`,
			func(job *topics.Job) { job.Examples.Columns.Use = []string{"1", "3"} }},
		"lines, all": {"csv", `columns.use: [], but version 4`, func(job *topics.Job) { job.Examples.Columns.Use = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			log, twin := openEmbedded(t), openEmbedded(t)
			job, write := sizes(t, log, test.format)
			_, writeTwin := sizes(t, twin, test.format)
			changed := job
			test.change(&changed)
			check := func(err error) {
				t.Helper()
				if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("got error %v, expected %q", err, test.want)
				}
			}
			learn := func(l *kafkalog.Log) {
				t.Helper()
				must(Retrain(t.Context(), l, openBLAS(t), job, true, event.Ignore{}))(t)
			}
			write(0, 150)
			followToEnd(t, log, job)
			write(150, 200)
			if test.format == "json" { // only versions know the numbers of columns
				check(source.Follow(t.Context(), log, changed, true, event.Ignore{}))
			}
			learn(log)
			write(200, 360)
			check(source.Follow(t.Context(), log, changed, true, event.Ignore{}))
			_, err := Retrain(t.Context(), log, openBLAS(t), changed, true, event.Ignore{})
			check(err)
			learn(log)
			writeTwin(0, 150)
			followToEnd(t, twin, job)
			writeTwin(150, 200)
			learn(twin)
			writeTwin(200, 360)
			learn(twin)
			if got, want := digests(t, log, job.Name), digests(t, twin, job.Name); !slices.Equal(got, want) || len(got) != 7 {
				t.Errorf("the versions are\n%s\nexpected seven as without the change\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if bad := readTopic(t, log, job.Name+".quarantine"); len(bad) > 0 {
				t.Errorf("%d messages are in quarantine", len(bad))
			}
		})
	}
}

// A schema registry that is away for ten minutes loses no message: ingest waits, says so once in a while, and goes on.
func TestFollowWaitsForTheRegistry(t *testing.T) {
	log := openEmbedded(t)
	job := clicks(t, log, 0)
	registry := srfake.New()
	defer registry.Close()
	const schema = `{"type":"record","name":"Click","fields":[{"name":"label","type":"string"},{"name":"side","type":"int"},{"name":"at","type":"int"}]}`
	registry.SeedSchema("clicks-value", 1, 1, sr.Schema{Schema: schema})
	job.Examples.Format, job.Examples.Registry.URL, job.Examples.Columns.Use = "avro", registry.URL(), []string{"side", "at"}
	for i := range 40 {
		content := must(avro.MustParse(schema).Encode(map[string]any{"label": string(rune('a' + i%2)), "side": i % 2, "at": i}))(t)
		m := kafkalog.Message{Value: append([]byte{0, 0, 0, 0, 1}, content...)}
		must(log.Append(t.Context(), "clicks", i%5, m))(t)
	}
	registry.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "starting", http.StatusServiceUnavailable)
		return true
	})
	p := topics.Open(log, job.Name, nil)
	noError(t, topics.Create(t.Context(), p, &job))
	recorder := &eventRecorder{}
	f := source.NewFollow(p, job, true, event.Serialised(recorder))
	var mutex sync.Mutex
	var waited time.Duration
	f.Pause = func(_ context.Context, d time.Duration) error {
		mutex.Lock()
		defer mutex.Unlock()
		if waited += d; waited > 10*time.Minute {
			registry.ClearInterceptors()
		}
		return nil
	}
	noError(t, f.Run(t.Context()))
	checkCounted(t, log, job, 40)
	if quarantined := eventsOf[event.Quarantined](recorder); len(quarantined) > 0 {
		t.Errorf("%v in quarantine", quarantined)
	}
	said := func(what string) bool {
		return slices.ContainsFunc(eventsOf[event.Noticed](recorder), func(n event.Noticed) bool { return strings.Contains(n.Text, what) })
	}
	if !said("waits for the schema registry; no message is skipped") || !said("answers 503") || !said("answers again") {
		t.Errorf("notices %v", eventsOf[event.Noticed](recorder))
	}
}

// The words of a categorical column are those that a topic has when it is followed first. Later rows have the same
// features, and a word that comes later is one of the others.
func TestFollowWithCategories(t *testing.T) {
	log, mem := openEmbedded(t), arrowtest.Allocator(t)
	job := clicks(t, log, 0)
	job.Examples.Categorical = []string{"1"}
	follow := func() error { return source.Follow(t.Context(), log, job, true, &eventRecorder{}) }
	if err := follow(); err == nil || !strings.Contains(err.Error(), "no message has a word in the column 1 of examples.categorical yet") {
		t.Errorf("a topic without rows: %v", err)
	}
	named := job
	named.Examples.Format, named.Examples.Label, named.Examples.Categorical = "json", "cliked", []string{"colour"}
	noError(t, log.Create(t.Context(), kafkalog.Topic{Name: "misspelt", Partitions: 1}))
	send(t, log, timed{topic: "misspelt", value: `{"clicked": "a", "colour": "red"}`})
	named.Examples.FromTopic = "misspelt"
	if err := source.Follow(t.Context(), log, named, true, &eventRecorder{}); err == nil || !strings.Contains(err.Error(), `no column "cliked"`) {
		t.Errorf("a topic without the label column: %v", err)
	}
	for _, values := range [][]string{{"a,red,1", "b,blue,2\na,red,3"}, {"b,green,4"}} {
		for partition, value := range values {
			must(log.Append(t.Context(), "clicks", partition, kafkalog.Message{Value: []byte(value)}))(t)
		}
		noError(t, follow())
	}
	got := map[float32][]float32{} // by the last feature
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Examples) {
		batch := must(examples.Decode(m.Value, mem))(t)
		columns, err := examples.ParseColumns(batch.Columns())
		if err != nil || strings.Join(columns[0].Categories, " ") != "blue red" {
			t.Errorf("the columns %+v, error %v", columns, err)
		}
		features := make([]float32, batch.Rows*batch.Width)
		batch.Features(features, batch.Width)
		for i := range batch.Rows {
			row := features[i*batch.Width : (i+1)*batch.Width]
			got[row[3]] = row
		}
		batch.Release()
	}
	for last, place := range map[float32]int{1: 1, 2: 0, 3: 1, 4: 2} {
		if len(got[last]) != 4 || got[last][place] != 1 {
			t.Errorf("row %v has the features %v", last, got[last])
		}
	}
	job.Examples.Categorical, job.Examples.Missing.Mode = []string{"2"}, layout.MissingMean
	if err := follow(); err == nil || !strings.Contains(err.Error(),
		"have no words in the column 2: expected the columns of when the topic was first followed") {
		t.Errorf("other columns: %v", err)
	}
}

// Rows whose words are in other columns than those that a chain has learnt are refused before they are ingested.
func TestChainKeepsItsWords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.csv")
	rows := "text,label\n" + strings.Repeat("cheap pills,spam\nsee you,ham\n", 40)
	noError(t, os.WriteFile(path, []byte(rows), 0o600))
	job := newJob(t, rings(1, 2, 2, 1), table{}, kindStage(stages.Columns, link.Softmax))
	job.Stages[0].Features = stages.DefaultsOf(stages.Columns)
	job.Examples.Train, job.Examples.Label, job.Examples.Text = []string{path}, "label", "text"
	job.Retrain = topics.DefaultRetrain()
	log := openEmbedded(t)
	must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
	before := len(readTopic(t, log, job.Name+".examples"))
	job.Examples.Words.Columns = 1000
	_, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
	if err == nil || !strings.Contains(err.Error(), "examples.words") {
		t.Errorf("%v, expected the key examples.words", err)
	}
	if after := len(readTopic(t, log, job.Name+".examples")); after != before {
		t.Errorf("the topic has %d messages, and had %d", after, before)
	}
}

// A column that rows had, and that most new rows lack, as a producer has renamed it, is named. Its rows go to quarantine,
// and change no version, unless the column is optional. Rows that lack a column now and then count, as they always have.
func TestColumnsThatMostNewRowsLack(t *testing.T) {
	long(t)
	renamed := func(i int, length, width float64, kind string) string {
		return fmt.Sprintf(`{"Length": %v, "Width": %v, "colour": "r", "kind": %q}`, length, width, kind)
	}
	one := func(i int, length, width float64, kind string) string {
		return fmt.Sprintf(`{"Length": %v, "width": %v, "colour": "r", "kind": %q}`, length, width, kind)
	}
	null := func(i int, length, width float64, kind string) string {
		return fmt.Sprintf(`{"length": %v, "width": null, "colour": "r", "kind": %q}`, length, kind)
	}
	word := func(i int, length, width float64, kind string) string {
		return fmt.Sprintf(`{"length": %v, "width": %v, "kind": %q}`, length, width, kind)
	}
	good := func(i int, length, width float64, kind string) string {
		return fmt.Sprintf(`{"length": %v, "width": %v, "colour": %q, "kind": %q}`, length, width, string('r'+rune(i%2)), kind)
	}
	sometimes := func(i int, length, width float64, kind string) string {
		if i%3 > 0 {
			return null(i, length, width, kind)
		}
		return good(i, length, width, kind)
	}
	mixed := func(i int, length, width float64, kind string) string { // two of three producers have the new release
		if i%3 > 0 {
			return renamed(i, length, width, kind)
		}
		return good(i, length, width, kind)
	}
	few := func(i int, length, width float64, kind string) string { // one of four
		if i%4 == 0 {
			return one(i, length, width, kind)
		}
		return good(i, length, width, kind)
	}
	type rows = func(i int, length, width float64, kind string) string
	for name, test := range map[string]struct {
		before, after rows
		optional      []string
		each          int // number of messages after which they are ingested; 0: all at once
		lost          string
		bad           int
		all           bool // no rows are held out
		mixed         bool // the word is hashed
		text          bool // the word is a text
	}{
		"all renamed":            {before: good, after: renamed, lost: "length width", bad: 300},
		"one":                    {before: good, after: one, lost: "length", bad: 300},
		"null":                   {before: good, after: null, lost: "width", bad: 300},
		"words":                  {before: good, after: word, lost: "colour", bad: 300},
		"as they come":           {before: good, after: renamed, each: 50, lost: "length width", bad: 300},
		"two of three producers": {before: good, after: mixed, lost: "length width", bad: 200},
		"one of four producers":  {before: good, after: few},
		"always now and then":    {before: sometimes, after: sometimes},
		"always":                 {before: null, after: null},
		"optional":               {before: good, after: one, optional: []string{"length"}, lost: "length"},
		"optional, as they come": {before: good, after: one, each: 50, optional: []string{"length"}, lost: "length"},
		"optional, no gate":      {before: good, after: one, optional: []string{"length"}, lost: "length", all: true},
		"hashed words":           {before: good, after: word, lost: "colour", bad: 300, mixed: true},
		"texts":                  {before: good, after: word, lost: "colour", bad: 300, text: true},
		"mixed":                  {before: good, after: renamed, lost: "length width", bad: 300, mixed: true},
		"mixed, as they come":    {before: good, after: one, each: 50, lost: "length", bad: 300, mixed: true},
		"optional, another":      {before: good, after: renamed, optional: []string{"length"}, lost: "length width", bad: 300},
	} {
		t.Run(name, func(t *testing.T) {
			log := openEmbedded(t)
			job := newJob(t, rings(10, 2, 2, 1), table{}, rffStage(link.Softmax, 0, 5))
			job.Stages[0].Features.Kind = "columns"
			o := &job.Examples
			o.Train, o.FromTopic, o.Format, o.Partitions, o.BatchRows = nil, "sizes", "json", 1, 16
			o.Label, o.Columns.Use, o.Categorical = "kind", []string{"length", "width", "colour"}, []string{"colour"}
			o.Missing, o.Holdout = layout.Missing{Mode: layout.MissingMean, Columns: test.optional}, 0.2
			if test.all {
				o.Holdout = 0
			}
			if test.text {
				o.Text, o.Categorical, o.Columns.Use, o.Words.Columns = "colour", nil, []string{"length", "width"}, 16
			}
			if test.mixed {
				o.Hash = layout.Hash{Columns: 64}
			}
			job.Retrain = topics.DefaultRetrain()
			job.Retrain.Rows = 100
			noError(t, log.Create(t.Context(), kafkalog.Topic{Name: o.FromTopic, Partitions: 1}))
			random, rec, report := rand.New(rand.NewPCG(1, 2)), &eventRecorder{}, &Retraining{}
			lost, bad, drifts, lacking := map[string]int64{}, map[string]bool{}, 0, 0
			retrain := func() {
				t.Helper()
				report = must(Retrain(t.Context(), log, openBLAS(t), job, true, rec))(t)
				for column, rows := range report.LostColumns {
					lost[column] += rows
				}
				for _, u := range report.Updates {
					if u.Drift {
						drifts++
					}
					if len(u.Lacking) > 0 {
						lacking++
					}
					if test.all != u.Unseen && len(u.Lacking) > 0 || u.Unseen && u.Offered || len(u.Lacking) > 0 && u.Offered && u.Gate == nil {
						t.Errorf("version %d lacks %q: unseen %v, offered %v, gate %v", u.Version, u.Lacking, u.Unseen, u.Offered, u.Gate)
					}
				}
			}
			for i := range 700 {
				write, kind := test.before, i%2
				if i >= 300 && i < 600 {
					write = test.after
				}
				value := write(i, float64(kind)*2+random.Float64(), random.Float64(), string('x'+rune(kind)))
				must(log.Append(t.Context(), o.FromTopic, 0, kafkalog.Message{Value: []byte(value)}))(t)
				if test.each > 0 && i >= 300 && i%test.each == test.each-1 {
					retrain()
				}
			}
			retrain()
			var names []string
			for _, name := range []string{"length", "width", "colour"} {
				if rows := lost[name]; rows > 0 {
					if names = append(names, name); rows != int64(test.bad) && !slices.Contains(test.optional, name) {
						t.Errorf("%d rows lack the column %s, expected %d", rows, name, test.bad)
					}
				}
			}
			if got := strings.Join(names, " "); got != test.lost || (got != "") != slices.ContainsFunc(eventsOf[event.ColumnLost](rec),
				func(e event.ColumnLost) bool { return e.Rows > 0 }) {
				t.Errorf("lost are the columns %q, expected %q", got, test.lost)
			}
			for _, m := range readTopic(t, log, job.Name+".quarantine") {
				q, err := schemas.QuarantinedOf(protocol.FromKafka(m))
				bad[string(m.Key)] = true // messages after the last usable one are read again by the next process
				if err != nil || !strings.Contains(q.Reason, "no value in column") ||
					strings.Contains(string(q.Value), "Length") && !strings.Contains(q.Reason, `the message has "`) {
					t.Errorf("in quarantine is %+v, %v", q, err)
				}
			}
			if len(test.optional) > 0 && test.bad == 0 && lacking == 0 {
				t.Error("no version reports the column")
			}
			if len(bad) != test.bad || drifts > 0 && test.lost != "" {
				t.Errorf("%d messages are in quarantine, expected %d; %d alarms", len(bad), test.bad, drifts)
			}
		})
	}
}
