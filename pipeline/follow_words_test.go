package pipeline

import (
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/schemas/examples"
)

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
