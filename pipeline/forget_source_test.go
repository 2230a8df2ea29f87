package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// keyedClicks writes rows to a topic that is followed, three of each key, in messages of one row and of two. Row i is of the user i mod 20.
func keyedClicks(t *testing.T, log *kafkalog.Log, rows int) (places map[int]string) {
	t.Helper()
	places = map[int]string{}
	for i := 0; i < rows; {
		value, partition, user := "", i%5, i%20
		n := 1 + i%7/6
		for range n {
			value += fmt.Sprintf("%c,%d,%d\n", 'a'+rune(i%2), i%2, i)
			i++
		}
		at, err := log.Append(t.Context(), "clicks", partition, kafkalog.Message{Key: fmt.Append(nil, "u", user), Value: []byte(value)})
		noError(t, err)
		for back := range n {
			places[i-1-back] = fmt.Sprintf("clicks/%d/%d", partition, at)
		}
	}
	return places
}

// sourceRows parses the places of rows.
func sourceRows(t *testing.T, texts ...string) (read []source.SourceRows) {
	t.Helper()
	for _, text := range texts {
		topic, _, _ := strings.Cut(text, "/")
		r, ok := source.ParseSourceRows(topic, text)
		if _, other := source.ParseSourceRows("other", text); !ok || other {
			t.Fatalf("%s names rows: %v, of another topic: %v", text, ok, other)
		}
		read = append(read, r)
	}
	return read
}

// forgottenRows returns the second features of the rows of the examples that are forgotten, sorted.
func forgottenRows(t *testing.T, log *kafkalog.Log, job topics.Job) (rows []int) {
	t.Helper()
	p := topics.Open(log, job.Name, nil)
	f, err := source.ReadForgotten(t.Context(), p)
	if err == nil {
		err = source.CompareForgotten(t.Context(), p, f)
	}
	noError(t, err)
	mem := arrowtest.Allocator(t)
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Examples) {
		examples := must(examples.Decode(m.Value, mem))(t)
		features := make([]float32, examples.Rows*examples.Width)
		examples.Features(features, examples.Width)
		f.Rows.In(m.Partition, m.Offset, examples.Rows, func(first, end int) {
			for row := first; row < end; row++ {
				rows = append(rows, int(features[row*examples.Width+1]))
			}
		})
		examples.Release()
	}
	slices.Sort(rows)
	return rows
}

// What ingest has read of a topic is forgotten by the keys of its messages, and by their places there: these rows, and no others of the
// messages that have them now.
func TestForgetWhatWasReadOfATopic(t *testing.T) {
	log := openEmbedded(t)
	job := clicks(t, log, 0)
	places := keyedClicks(t, log, 100)
	followToEnd(t, log, job)
	users := map[int]string{} // by row
	for _, m := range readTopic(t, log, "clicks") {
		for line := range strings.Lines(string(m.Value)) {
			var i int
			_, _ = fmt.Sscan(line[strings.LastIndex(line, ",")+1:], &i)
			users[i] = string(m.Key)
		}
	}
	var want []int
	for i := range 100 {
		if users[i] == "u7" || users[i] == "u12" || places[i] == places[41] || places[i] == places[55] {
			want = append(want, i)
		}
	}
	done := forget(t, log, job, source.ToForget{Keys: []string{"u7", "u12"}, Read: sourceRows(t, places[41], places[55])})
	if got := forgottenRows(t, log, job); !slices.Equal(got, want) || done.Rows != int64(len(want)) {
		t.Errorf("%+v: the rows %v are forgotten, expected %v", done, got, want)
	}
	if report, _ := train(t, log, job); report.PassedOver[coverage.ForgottenRow] != int64(len(want)) {
		t.Errorf("passed over %v, expected %d forgotten rows", report.PassedOver, len(want))
	}
	for _, text := range []string{"clicks/4/0-1000", "clicks/0/3-5"} { // a range of offsets
		read := sourceRows(t, text)
		for i := range 100 {
			var partition int
			var offset int64
			_, _ = fmt.Sscanf(places[i], "clicks/%d/%d", &partition, &offset)
			if partition == read[0].Partition && offset >= read[0].From && offset < read[0].To && !slices.Contains(want, i) {
				want = append(want, i)
			}
		}
		forget(t, log, job, source.ToForget{Read: read})
		slices.Sort(want)
		if got := forgottenRows(t, log, job); !slices.Equal(got, want) {
			t.Errorf("%s: the rows %v are forgotten, expected %v", text, got, want)
		}
	}
	_, err := source.Forget(t.Context(), topics.Open(log, job.Name, nil), job, source.ToForget{Keys: []string{"u7", "u77"},
		Read: sourceRows(t, "clicks/0/1000", "visits/0/0")})
	wrong, ok := errors.AsType[*source.NoRowsError](err)
	if !ok || !slices.Equal(wrong.Keys, []string{"u77"}) || len(wrong.Read) != 2 {
		t.Errorf("got error %v, expected one about what is not there", err)
	}
}
