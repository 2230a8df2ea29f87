package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
)

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
