package pipeline

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// newSourcesJob returns a job whose file makes a message for each 64 rows, and the same job without its file.
func newSourcesJob(t *testing.T, rows int) (files, topic topics.Job) {
	t.Helper()
	files = newJob(t, rings(rows, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
	files.Examples.Partitions, files.Examples.BatchRows = 2, 64
	topic = files
	topic.Examples.Train = nil
	return files, topic
}

func sourcesOf(t *testing.T, log *kafkalog.Log, name string) []source.SourceState {
	t.Helper()
	return must(source.Sources(t.Context(), topics.Open(log, name, nil)))(t)
}

func removeSource(t *testing.T, log *kafkalog.Log, name, id string) {
	t.Helper()
	must(source.RemoveSources(t.Context(), topics.Open(log, name, nil), []string{id}))(t)
}

// What retention has left of a source is listed, and a removed source that is not whole any more is ingested again.
func TestExpiredSourceIsListed(t *testing.T) {
	files, topic := newSourcesJob(t, 640)
	log := openEmbedded(t)
	train(t, log, files)
	examples := protocol.TopicsOf(files.Name).Examples
	deleteRecords(t, log, examples, 0, 3)
	expect := func(state string, left int64) string {
		t.Helper()
		s := sourcesOf(t, log, files.Name)
		if len(s) != 1 || s[0].State != state || s[0].Rows != 640 || s[0].Messages != 10 || s[0].Left != left {
			t.Fatalf("%+v, expected one that is %s, with %d of 10 messages", s, state, left)
		}
		return s[0].ID
	}
	id := expect(source.Sealed, 7)
	removeSource(t, log, files.Name, id)
	expect(source.Removed, 7)
	if report, _ := train(t, log, files); report.Rows != 640 {
		t.Errorf("%d rows of the file, expected 640", report.Rows)
	}
	expect(source.Sealed, 10)
	report, _ := train(t, log, topic)
	if want := (coverage.PassedOver{coverage.Removed: 7}); report.Rows != 640 || !maps.Equal(report.PassedOver, want) {
		t.Errorf("%d rows, passed over %v; expected 640 and %v", report.Rows, report.PassedOver, want)
	}
	for partition, end := range map[int32]int64{0: 10, 1: 10} {
		deleteRecords(t, log, examples, partition, end)
	}
	expect(source.Sealed, 0)
}

// The sources are listed whose ingest was interrupted. They can't be removed: nothing of them counts.
func TestUnfinishedSourceIsListed(t *testing.T) {
	files, _ := newSourcesJob(t, 6400)
	dir := t.TempDir()
	trainUntilOn(t, dir, files, func(e event.Event) bool { i, ok := e.(event.Ingested); return ok && i.Rows >= 3000 })
	log := openAt(t, dir)
	written := int64(len(readTopic(t, log, protocol.TopicsOf(files.Name).Examples)))
	noError(t, log.Create(t.Context(), topics.Topics(files)...))
	s := sourcesOf(t, log, files.Name)
	if len(s) != 1 || s[0].State != source.Unfinished || s[0].Rows != -1 || s[0].Messages != written || s[0].Left != written ||
		time.Since(s[0].Since) > time.Hour {
		t.Fatalf("%+v, expected an unfinished source of %d messages", s, written)
	}
	var unknown *source.UnknownSourcesError
	if _, err := source.RemoveSources(t.Context(), topics.Open(log, files.Name, nil), []string{s[0].ID}); !errors.As(err, &unknown) ||
		!slices.Equal(unknown.Unknown, []string{s[0].ID}) {
		t.Errorf("removed an unfinished source: %v", err)
	}
	train(t, log, files)
	if s := sourcesOf(t, log, files.Name); len(s) != 1 || s[0].State != source.Sealed || s[0].Messages != 100 {
		t.Errorf("%+v, expected a sealed source of 100 messages", s)
	}
}

// The beginning of an id is enough if no other id begins with it.
func TestFindSources(t *testing.T) {
	p := &topics.Pipeline{Client: &protocol.Client{Topics: protocol.TopicsOf("test")}}
	sources := map[string]source.KnownSource{"abc1": {}, "abc2": {}, "f": {}}
	if found, err := source.FindSources(p, sources, []string{"abc2", "f", "abc1", "f"}); err != nil ||
		!slices.Equal(found, []string{"abc2", "f", "abc1"}) {
		t.Errorf("found %q, %v", found, err)
	}
	_, err := source.FindSources(p, sources, []string{"abc", "f", "x", "ab"})
	for _, want := range []string{
		`there is no source "x" on test.plans; "ab" begins several source IDs on test.plans: abc1, abc2; "abc" begins several source IDs`,
		"see sources list",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: expected it to contain %q", err, want)
		}
	}
}
