package page

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// made returns a run of equal stages with a ridge, that has made a version.
func made(title string, ridge schemas.Ridge, stages int) Compared {
	half, third := 50.0, 0.3
	plan := &schemas.Plan{Name: "p", Seed: 1, Submission: title, Spans: coverage.Spans{{Partition: 0, From: 0, To: 9}},
		Sources: []schemas.SourceSeal{{ID: strings.Repeat("a", 64)}}}
	report := &schemas.Report{Labels: []string{"<b>", "b"}, Seconds: 1.5, WeightsDigest: "0123456789abcdef",
		Splits: map[string]schemas.SplitReport{
			"train": {Rows: 80, Error: 10, Loss: 0.2},
			"test": {Rows: 20, Error: 50, Loss: 0.3, Confusion: [][]int64{{7, 3}, {7, 3}}, Reliability: []schemas.ReliabilityBin{{Weight: 20,
				Confidence: 0.75, Accuracy: 0.5}}},
		}}
	for t := range stages {
		plan.Stages = append(plan.Stages, schemas.Stage{Link: "softmax", Ridge: ridge, Passes: 12})
		report.Stages = append(report.Stages, schemas.StageReport{Stage: t, Passes: 2,
			Measured: schemas.Measured{TrainError: 10, TrainLoss: 0.2, TestError: &half, TestLoss: &third}, ByPass: []schemas.PassReport{
				{Pass: 1, TrainError: 90, TrainLoss: 2.3, TestError: &half, TestLoss: &third}, {Pass: 2, TrainError: 10, TrainLoss: 0.02, TestError: &half, TestLoss: &third}}})
	}
	return Compared{Title: title, State: "done", Plan: plan, Report: report}
}

// Differences has the fields that differ, and no others: equal stages are one row, and other stages rows of their own.
func TestDifferences(t *testing.T) {
	a, b, c := made("a", 0.001, 2), made("b", 0.25, 2), made("c", 0.25, 2)
	expect := func(runs []Compared, want ...string) {
		t.Helper()
		var got []string
		for _, row := range Differences(runs) {
			got = append(got, row.Name+" "+strings.Join(row.Values, " "))
		}
		assert.Equal(t, got, want, "differences")
	}
	expect([]Compared{b, c})
	expect([]Compared{a, b, c}, "stages.*.ridge 0.001 0.25 0.25")
	c.Plan.Stages[1].Ridge = 0.5
	c.Plan.Seed = 7
	expect([]Compared{a, c}, "seed 1 7", "stages.0.ridge 0.001 0.25", "stages.1.ridge 0.001 0.5")
	b.Plan.Stages = append(b.Plan.Stages, b.Plan.Stages[0])
	expect([]Compared{a, b}, "stages 2 3", "stages.*.ridge 0.001 0.25")
	expect([]Compared{a, {Title: "gone"}}, fieldNames(a)...)
}

// fieldNames returns the rows of a run beside one whose plan is gone.
func fieldNames(r Compared) (rows []string) {
	for _, row := range Fields(r) {
		rows = append(rows, row.Name+" "+row.Values[0]+" "+None)
	}
	return rows
}

// A run without a report has no values, and a measure that no run has is no row.
func TestMeasures(t *testing.T) {
	first := made("a", 1, 1)
	first.Report.Temperature = 1.35
	rows := Measures([]Compared{first, {Title: "b", State: "failed"}})
	find := func(name string) []string {
		i := slices.IndexFunc(rows, func(r Row) bool { return r.Name == name })
		if i < 0 {
			return nil
		}
		return rows[i].Values
	}
	for name, want := range map[string][]string{
		"state": {"done", "failed"}, "test error": {"50.00 %", None}, "train rows": {"80", None}, "passes": {"2", None},
		"temperature": {"1.35", None}, "weights digest": {"0123456789ab", None}, "holdout error": nil,
	} {
		assert.Equal(t, find(name), want, "%s", name)
	}
}

// The page asks for nothing, its tables have captions, and texts of others are escaped.
func TestPage(t *testing.T) {
	var page bytes.Buffer
	first := made("a", 0.001, 2)
	first.Galleries = []Gallery{{"filters", []Picture{{Shape: examples.Image{1, 1, 3}, Values: []float32{0, 127.5, 255}}}}}
	first.Bars = []Table{{Title: "importance", Caption: "of columns", Head: []string{"column"}, Rows: []Bar{{Cells: []string{"<b>"}, Length: 0.5}}}}
	assert.NoError(t, WritePage(&page, About{Title: "Runs compared", Pipeline: "p"}, []Compared{first, made("b", 0.25, 3), {Title: "c", State: "failed"}}))
	text := page.String()
	for _, outside := range []string{"http://", "https://", "src=", "href=", "url(", "@import", "ZgotmplZ", "<b>"} {
		assert.True(t, !strings.Contains(strings.ReplaceAll(text, svgSpace, ""), outside), "the page has %s", outside)
	}
	tables, captions := strings.Count(text, "<table"), strings.Count(text, "<caption>")
	assert.True(t, tables == captions && tables == 3, "%d tables with %d captions", tables, captions)
	for _, want := range []string{"&lt;b&gt;", "width: 50%", `"Levels":"AH//"`, `"confusion":[[7,3],[7,3]]`} {
		assert.True(t, strings.Contains(text, want), "the page lacks %s", want)
	}
}

// A page has no confusion matrix that nobody can read.
func TestPageOfManyClasses(t *testing.T) {
	var page bytes.Buffer
	run := made("a", 0.1, 2)
	s := run.Report.Splits["test"]
	s.Confusion = make([][]int64, mostClasses+1)
	run.Report.Splits["test"] = s
	assert.NoError(t, WritePage(&page, About{}, []Compared{run}))
	assert.True(t, !strings.Contains(page.String(), `"confusion":[`) && run.Report.Splits["test"].Confusion != nil,
		"the page has the matrix, or the report has lost it")
}

// svgSpace is a name, not an address.
const svgSpace = "http://www.w3.org/2000/svg"

// A picture goes from its least value to its highest one; a missing value and a picture of one value are black.
func TestPicture(t *testing.T) {
	for _, c := range []struct {
		shape  examples.Image
		values []float32
		want   []byte
	}{
		{examples.Image{1, 3, 1}, []float32{-1, 1, float32(math.NaN())}, []byte{0, 0, 0, 255, 255, 255, 0, 0, 0}},
		{examples.Image{1, 1, 3}, []float32{0, 127.5, 255}, []byte{0, 127, 255}},
		{examples.Image{1, 1, 1}, []float32{7}, []byte{0, 0, 0}},
	} {
		assert.Equal(t, (Picture{Shape: c.shape, Values: c.values}).drawn().Levels, c.want, "%v: levels", c.values)
	}
}

// The table has runs as rows, the best first, which is marked, and in colour what is not as there. What all runs share is no column.
func TestTableOfRuns(t *testing.T) {
	worse, best, failed := made("a", 0.25, 1), made("b", 0.001, 1), Compared{Title: "c", State: "failed"}
	of := best.Report.Splits["test"]
	of.Error = 5
	best.Report.Splits["test"] = of
	runs := Order{}.Sorted([]Compared{failed, worse, best})
	table, _ := tablesOf(runs, Order{})
	var got []string
	for i, r := range table.Runs {
		text := r.Title
		for at, c := range table.Columns {
			if c.Name == "stages.*.ridge" || c.Name == "test error" {
				text += " " + c.Values[i]
				if table.Differs(at, i) {
					text += "!"
				}
			}
		}
		got = append(got, text)
	}
	want := []string{"b 0.001 5.00 %", "a 0.25! 50.00 %", "c -! -"}
	assert.True(t, slices.Equal(got, want) && table.Best == 0, "rows %q, expected %q; the best is run %d", got, want, table.Best)
	table, more := tablesOf(runs[:2], Order{})
	assert.True(t, len(more.Columns) == 0 && slices.Contains(table.Same, "train error 10.00 %") &&
		!slices.ContainsFunc(table.Columns, func(c Row) bool { return c.Name == "train error" }),
		"a measure that all share is a column: %+v", table)
	assert.Equal(t, (Order{By: "loss"}).Words(runs), "log loss of the test rows", "")
	assert.Equal(t, (Order{Split: "holdout"}).Best(runs), -1, "the best run by rows that none has")
}

// Runs are sorted by each measure, the best first, whether that is the least or the greatest, and those that lack it last.
func TestOrders(t *testing.T) {
	var runs []Compared
	for i, v := range []float64{0.7, 0.9, 0.8} {
		r := made(fmt.Sprint(i), 1, 1)
		s := schemas.SplitReport{Rows: 20, Error: 10 * v, Loss: 2 * v, LogLoss: &v}
		s.AUC, s.AveragePrecision, s.BalancedError = new(v/2), new(v/4), new(20*v)
		r.Report.Splits = map[string]schemas.SplitReport{"holdout": s}
		runs = append(runs, r)
	}
	lacks := made("lacks", 1, 1)
	lacks.Report.Splits = map[string]schemas.SplitReport{"test": {Rows: 20}}
	runs = append(runs, lacks)
	for _, by := range Orders() {
		o, want := Order{Split: "holdout", By: by}, []int{0, 2, 1, 3}
		if by == "auc" || by == "average_precision" {
			want = []int{1, 2, 0, 3}
		}
		got, ranked := o.Ranks(runs)
		assert.True(t, slices.Equal(got, want) && ranked == 3 && o.Best(runs) == want[0], "by %s the order is %v, expected %v", by, got, want)
		assert.Equal(t, o.Text(lacks.Report), None, "rows that there are none of have the %s", by)
		table, _ := tablesOf(runs[:3], o)
		assert.True(t, by != "error" || !slices.ContainsFunc(table.Columns, func(c Row) bool { return c.Name == "holdout balanced error" }),
			"the first table has a measure that neither decides nor was asked for")
		assert.True(t, slices.ContainsFunc(table.Columns, func(c Row) bool { return c.Name == "holdout "+o.Measure() }),
			"the first table lacks the %s", o.Measure())
	}
}

// clicks is a job whose examples are the messages of the topic events.
func clicks() topics.Job {
	job := digits()
	job.Name, job.Examples.Train, job.Examples.Test, job.Examples.FromTopic, job.Examples.Format = "clicks", nil, nil, "events", "csv"
	job.Stages, job.Examples.Partitions = job.Stages[:1], 2
	job.Retrain = topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.After = 40, time.Second
	return job
}

// produce writes rows to the topic events, and as many messages that can't be read, which come last.
func produce(t *testing.T, log *kafkalog.Log, rows, bad int) {
	t.Helper()
	for i := range rows + bad {
		value := fmt.Appendf(nil, "%c,%d,%d", 'a'+rune(i%2), i%2, i%7)
		if i >= rows {
			value = []byte("no row")
		}
		assert.Must(log.Append(t.Context(), "events", i%3, kafkalog.Message{Value: value}))(t)
	}
}

// lagOf returns what waits on the topic of a role; −1: that is not known.
func lagOf(s *State, role string) int64 {
	i := slices.IndexFunc(s.Topics, func(topic Topic) bool { return topic.Role == role })
	if i < 0 || s.Topics[i].Lag == nil {
		return -1
	}
	return *s.Topics[i].Lag
}

// The page begins at the topic whose messages become examples: what waits there counts as behind, also what nobody
// ingests. It shows who ingests, predicts and answers, and that they are gone.
func TestSourceTopicIsShown(t *testing.T) {
	cluster := assert.Must(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	t.Cleanup(cluster.Close)
	log := openOn(t, kafkalog.Options{Brokers: cluster.ListenAddrs()})
	assert.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: "events", Partitions: 3}))
	produce(t, log, 60, 4)
	assert.NoError(t, source.Follow(t.Context(), log, clicks(), true, nil))
	board := readingOptions(t, cluster.ListenAddrs(), Options{Name: "clicks", Source: "events"})
	s := await(t, board, "a topic that is ingested", func(s *State) bool { return lagOf(s, roleSource) == 0 && lagOf(s, roleExamples) > 0 })
	assert.True(t, s.Topics[0].Name == "events" && s.Topics[0].Partitions == 3, "the flow begins with %+v", s.Topics[0])
	produce(t, log, 12, 0)
	s = await(t, board, "messages that nobody ingests", func(s *State) bool {
		return need(s, "12 messages wait on events, and no process ingests them")
	})
	if f := s.Summary.Facts[0]; s.Summary.Level != Trouble || f.Answer != "12 messages" || !strings.HasPrefix(f.Detail, fmt.Sprintf(
		"wait on events to be ingested; %d messages (batches of rows) wait on clicks.examples to be learnt; ", lagOf(s, roleExamples))) {
		t.Errorf("summary %+v", s.Summary)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	running := openOn(t, kafkalog.Options{Brokers: cluster.ListenAddrs()})
	go func() {
		_, err := pipeline.Retrain(ctx, running, openBLAS(t), clicks(), false, nil)
		ended <- err
	}()
	server := openOn(t, kafkalog.Options{Brokers: cluster.ListenAddrs()})
	topics := protocol.TopicsOf("clicks")
	member := server.Join(topics.Group(protocol.RoleServe), topics.Plans)
	s = await(t, board, "a runner that has learnt all", func(s *State) bool {
		return lagOf(s, roleSource) == 0 && lagOf(s, roleExamples) == 0 && len(s.Staff.Members) == 5 && s.Run.State == schemas.Done
	})
	assert.True(t, s.Staff.Members["ingest"][0].Waits == "ingests events" && s.Staff.Members["serve"][0].Waits == "answers",
		"processes %+v", s.Staff)
	stop()
	err := <-ended
	assert.Need(t, errors.Is(err, context.Canceled), "%v", err)
	assert.NoError(t, member.Leave())
	await(t, board, "that they are gone", func(s *State) bool {
		return need(s, "No process runs stagewise run: the last one") && need(s, "No process runs stagewise serve: the last one")
	})
	produce(t, log, 9, 0)
	s = await(t, board, "that nobody learns", func(s *State) bool { return need(s, "No process runs stagewise run, and 9 messages wait on events.") })
	assert.True(t, s.Summary.Level == Trouble && s.Summary.Verdict != "All is well." && !need(s, "no process ingests them"),
		"summary %+v", s.Summary)
}

// The error along the rows of a version has one point for messages that came at about the same time, and goes on from row to row.
func TestErrorAlongRows(t *testing.T) {
	bin := func(offset, rows int64, weight, err float64) statistics.ErrorBin {
		return statistics.ErrorBin{Offset: offset, Rows: rows, Weight: weight, Error: err}
	}
	got := alongRows([]statistics.ErrorBin{bin(0, 10, 10, 50), bin(0, 10, 30, 10), bin(1, 5, 0, 0), bin(2, 20, 20, 5)})
	assert.Equal(t, got, []CurvePoint{{20, 20}, {45, 5}}, "")
}

// Whatever numbers the reports of versions have, the page has JSON.
func TestAnyNumbersAreShown(t *testing.T) {
	const most = math.MaxFloat64
	bins := []statistics.ErrorBin{{Rows: 1, Weight: most, Error: most}, {Offset: 1, Rows: 1, Weight: most, Error: 1},
		{Offset: 1, Rows: 1, Weight: most, Error: -most}}
	served := []schemas.ServedReport{{Version: 1, Rows: 2, Error: most}, {Version: 1, Rows: math.MaxInt64, Error: -most}}
	for n := 1; n <= len(served); n++ {
		r := &reader{places: []schemas.Place{{Run: "a", Version: 1}}, catalogue: map[string]*described{"a": {
			Version: Version{RetrainReport: schemas.RetrainReport{Version: 1, Served: served[:n]}}, quality: &Quality{Curve: alongRows(bins)},
		}}, offered: "a"}
		s := &State{}
		s.Versions, s.Quality = r.versions()
		board := NewBoard()
		board.Put(s)
		assert.True(t, json.Valid(wire.JSON(board.State())) && (s.Versions[0].ServedError != nil || n != 1) && len(s.Quality.Curve) == 2,
			"state %s", wire.JSON(board.State()))
	}
}

// The page says which right it lacks, shows the rest, and does not take that for brokers that do not answer.
func TestMissingRightIsNamed(t *testing.T) {
	const password = "p4ssword"
	may := func(operation kmsg.ACLOperation, pattern kmsg.ACLResourcePatternType, name string) kfake.ACL {
		return kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: name, Pattern: pattern, Operation: operation, Allow: true}
	}
	events := may(kmsg.ACLOperationDescribe, kmsg.ACLResourcePatternTypeLiteral, "events")
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", password),
		kfake.User("PLAIN", "no-events", password, may(kmsg.ACLOperationRead, kmsg.ACLResourcePatternTypePrefixed, "clicks.")),
		kfake.User("PLAIN", "no-examples", password, may(kmsg.ACLOperationDescribe, kmsg.ACLResourcePatternTypePrefixed, "clicks."), events),
		kfake.User("PLAIN", "no-weights", password, may(kmsg.ACLOperationRead, kmsg.ACLResourcePatternTypePrefixed, "clicks.p"),
			may(kmsg.ACLOperationRead, kmsg.ACLResourcePatternTypePrefixed, "clicks.examples"), events),
		kfake.User("PLAIN", "nothing", password))
	assert.NoError(t, err)
	t.Cleanup(cluster.Close)
	as := func(user string) *kafkalog.Log {
		o := kafkalog.Options{Brokers: cluster.ListenAddrs()}
		o.Security.SASL.Mechanism, o.Security.SASL.Username, o.Security.SASL.Password = "PLAIN", user, kafkalog.NewSecret(password)
		return openOn(t, o)
	}
	admin := as("admin")
	assert.NoError(t, admin.Create(t.Context(), kafkalog.Topic{Name: "events", Partitions: 3}))
	produce(t, admin, 60, 0)
	assert.NoError(t, source.Follow(t.Context(), admin, clicks(), true, nil))
	for user, want := range map[string][]string{
		"no-events":   {"Part of this page is empty: the right Describe on the topic events is missing: check the ACLs of User:no-events"},
		"no-examples": {"Part of this page is empty: the right Read on the topic clicks.examples is missing: check the ACLs of User:no-examples"},
		"no-weights": {"Part of this page is empty: the right Describe on the topic clicks.weights is missing: check the ACLs of User:no-weights",
			"the right Describe on the topic clicks.quarantine is missing"},
		"nothing": {"find clicks.plans"},
	} {
		r := newReader(as(user), Options{Name: "clicks", Source: "events"})
		now := time.Now()
		r.clock = func() time.Time { return now }
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			<-r.changed // it has asked once
			stop()
		}()
		now = now.Add(time.Hour)
		r.repeat(ctx, partTopics, func(ctx context.Context) error { return r.pollTopics(ctx) })
		stop()
		s := r.state()
		for _, want := range want {
			assert.True(t, need(s, want), "%s: %+v", user, s.Summary.Needs)
		}
		level := Notice
		if user == "nothing" {
			level = Trouble
		}
		assert.True(t, !need(s, "have not answered") && s.Summary.Level == level &&
			(user != "no-events" || lagOf(s, roleExamples) > 0 && lagOf(s, roleSource) == -1), "%s: summary %+v, %+v", user, s.Summary, s.Topics)
	}
}
