package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// orders is a job whose examples come from a topic of three partitions, and expire. write writes rows from to to (excluded), one to three
// in a message: with words, times, weights and missing values, some with a key, and after some rows a message that can't be used.
func orders(t *testing.T, log *kafkalog.Log) (job topics.Job, write func(from, to int)) {
	t.Helper()
	job = newJob(t, rings(10, 2, 2, 1), table{}, rffStage(link.Softmax, 10, 2))
	o := &job.Examples
	o.Train, o.FromTopic, o.Format, o.Partitions, o.BatchRows = nil, "orders", "json", 2, 8
	o.Label, o.Columns.Use, o.Categorical, o.Weight = "kind", []string{"length", "width", "colour", "at"}, []string{"colour"}, "weight"
	o.Times, o.Missing.Mode, o.Holdout = layout.Times{"at": {Parts: []string{"hour"}}}, layout.MissingMean, 0.2
	job.Topics = topics.DefaultTopics()
	job.Topics.Retention.Examples = time.Hour
	job.Retrain = topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full, job.Retrain.Refresh = 60, topics.FullOptions{Every: 3}, 2
	noError(t, log.Create(t.Context(), kafkalog.Topic{Name: o.FromTopic, Partitions: 3}))
	random := rand.New(rand.NewPCG(7, 7))
	return job, func(from, to int) {
		for i := from; i < to; {
			var m kafkalog.Message
			var rows []string
			for range min(1+random.IntN(3), to-i) {
				width := fmt.Sprintf(`"width": %d, `, i%5)
				if i%11 == 0 {
					width = ""
				}
				rows = append(rows, fmt.Sprintf(`{"kind": "%c", "length": %d, %s"colour": "%c", "at": "2026-01-%02dT%02d:00:00Z", "weight": %g}`,
					'a'+rune(i%2), 10*(i%2)+i%7, width, 'r'+rune(i%3), 1+i%28, i%24, 0.5+float64(i%3)))
				i++
			}
			m.Value = []byte("[" + strings.Join(rows, ",") + "]")
			if i%4 == 0 {
				m.Key = fmt.Appendf(nil, "customer%d", i%9)
			}
			messages := []kafkalog.Message{m}
			if random.IntN(8) == 0 {
				messages = append(messages, kafkalog.Message{Value: []byte(`{"kind": "a", "length": "long"}`)})
			}
			must(log.Append(t.Context(), o.FromTopic, random.IntN(3), messages...))(t)
		}
	}
}

// expire deletes part of the examples.
func expire(t *testing.T, log *kafkalog.Log, job topics.Job, random *rand.Rand) {
	t.Helper()
	topic := protocol.TopicsOf(job.Name).Examples
	for n := range job.Examples.Partitions {
		first, end, err := log.Bounds(t.Context(), topic, n)
		noError(t, err)
		deleteRecords(t, log, topic, int32(n), first+1+random.Int64N(end-first))
	}
}

// examplesOf returns the examples, as runs of the job read them.
func examplesOf(t *testing.T, log *kafkalog.Log, job topics.Job) (all []protocol.Message) {
	t.Helper()
	p := topics.OpenFor(log, job, nil)
	spans := must(p.Log.Spans(t.Context(), p.Topics.Examples))(t)
	for _, s := range spans {
		noError(t, p.Between(t.Context(), p.Topics.Examples, s.Partition, s.From, s.To, func(m protocol.Message) error {
			all = append(all, m)
			return nil
		}))
	}
	return all
}

// Expired examples are made again from the topic that they came from: the same messages, at the same offsets.
func TestExpiredExamplesAreMadeAgain(t *testing.T) {
	log := openEmbedded(t)
	job, write := orders(t, log)
	random := rand.New(rand.NewPCG(1, 2))
	var before []protocol.Message
	for rows := 0; rows < 500; {
		more := 1 + random.IntN(100)
		write(rows, rows+more)
		rows += more
		followToEnd(t, log, job)
		after := examplesOf(t, log, job)
		if len(before) > 0 {
			expire(t, log, job, random)
		}
		got := examplesOf(t, log, job)
		if !slices.EqualFunc(got, after, func(a, b protocol.Message) bool { return a.Same(&b) }) {
			t.Fatalf("%d messages, expected the same %d as before they expired", len(got), len(after))
		}
		before = after
	}
	if first, _, err := log.Bounds(t.Context(), protocol.TopicsOf(job.Name).Examples, 0); err != nil || first == 0 {
		t.Errorf("the examples begin at offset %d, error %v: expected that some have expired", first, err)
	}
	other := job
	other.Examples.Weight = ""
	p := topics.OpenFor(log, other, nil)
	err := p.Between(t.Context(), p.Topics.Examples, 0, 0, 1, func(protocol.Message) error { return nil })
	if changed, ok := errors.AsType[*topics.ChangedError](err); !ok || changed.Offset != 0 {
		t.Errorf("without weights: got error %v, expected a *ChangedError", err)
	}
	deleteRecords(t, log, job.Examples.FromTopic, 0, 5)
	p = topics.OpenFor(log, job, nil)
	err = p.Between(t.Context(), p.Topics.Examples, 0, 0, 1, func(protocol.Message) error { return nil })
	if !errors.As(err, new(*kafkalog.DeletedError)) {
		t.Errorf("without the source: got error %v, expected a *DeletedError", err)
	}
	for n := range 3 {
		deleteRecords(t, log, job.Examples.FromTopic, int32(n), 60)
	}
	want := examplesOf(t, log, job)
	write(500, 501)
	followToEnd(t, log, job)
	origins := protocol.TopicsOf(job.Name).Origins
	if first, end, err := log.Bounds(t.Context(), origins, 0); err != nil || first == 0 || first == end {
		t.Errorf("%s has the offsets %d to %d, error %v: expected some, without those that are of no use", origins, first, end, err)
	}
	got := examplesOf(t, log, job)
	for i := range want {
		if !slices.ContainsFunc(got, func(m protocol.Message) bool { return m.Offset == want[i].Offset && m.Same(&want[i]) }) {
			t.Errorf("the message at offset %d is gone", want[i].Offset)
		}
	}
}

// faulty is a log on which reads of a topic fail.
type faulty struct {
	protocol.Log
	topic string
	err   error
}

func (f *faulty) Range(topic string, partition int, from, to int64) protocol.Reader {
	if topic == f.topic && f.err != nil {
		return faultyReader{f.err}
	}
	return f.Log.Range(topic, partition, from, to)
}

type faultyReader struct{ err error }

func (r faultyReader) Next(context.Context) (protocol.Message, error) {
	return protocol.Message{}, r.err
}
func (faultyReader) Close() error { return nil }

// A passing error of the source does not say that the rows have changed. Rows that the source has lost, as in a hole of an archive, are no
// longer among those that can be made again, so that their readers do not try again for ever.
func TestSourceThatFails(t *testing.T) {
	log := openEmbedded(t)
	job, write := orders(t, log)
	write(0, 300)
	followToEnd(t, log, job)
	expire(t, log, job, rand.New(rand.NewPCG(1, 2)))
	source := &faulty{Log: topics.Open(log, job.Name, nil).Log, topic: job.Examples.FromTopic}
	client := protocol.NewClient(log, job.Name, nil)
	client.Log = source
	again := topics.NewRemade(client, job.Examples, memory.DefaultAllocator)
	examples := client.Topics.Examples
	read := func() error {
		r := again.Range(examples, 0, 0, 1)
		defer r.Close()
		_, err := r.Next(t.Context())
		return err
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	source.err = errors.New("the bucket does not answer")
	if err := read(); !errors.Is(err, source.err) || errors.As(err, new(*topics.ChangedError)) {
		t.Errorf("got error %v, expected that of the source", err)
	}
	source.err = &kafkalog.DeletedError{Topic: source.topic, Wanted: 2, First: 5, End: 9}
	deleted, ok := errors.AsType[*kafkalog.DeletedError](read())
	if first, _, err := again.Bounds(t.Context(), examples, 0); !ok || deleted.Topic != examples || first != deleted.First || first == 0 {
		t.Errorf("the examples begin at offset %d, error %v; reading gives %v, expected that error", first, err, deleted)
	}
}

// holes is a log on which the messages of a topic that can't be used are gone, as in holes of an archive.
type holes struct {
	protocol.Log
	topic string
}

func (h *holes) Range(topic string, partition int, from, to int64) protocol.Reader {
	r := h.Log.Range(topic, partition, from, to)
	if topic == h.topic {
		r = &holesReader{r, topic, partition}
	}
	return r
}

type holesReader struct {
	protocol.Reader
	topic     string
	partition int
}

func (r *holesReader) Next(ctx context.Context) (protocol.Message, error) {
	m, err := r.Reader.Next(ctx)
	if err == nil && strings.Contains(string(m.Value), "long") {
		err = &kafkalog.DeletedError{Topic: r.topic, Partition: r.partition, Wanted: m.Offset, First: m.Offset + 1, End: m.Offset + 1}
	}
	return m, err
}

// A hole that no example was made from does not keep the examples after it from being made again.
func TestHolesThatNoExampleNeeds(t *testing.T) {
	log := openEmbedded(t)
	job, write := orders(t, log)
	write(0, 300)
	followToEnd(t, log, job)
	expire(t, log, job, rand.New(rand.NewPCG(1, 2)))
	client := protocol.NewClient(log, job.Name, nil)
	client.Log = &holes{topics.Open(log, job.Name, nil).Log, job.Examples.FromTopic}
	again := topics.NewRemade(client, job.Examples, memory.DefaultAllocator)
	for partition := range 2 {
		first, end, err := again.Bounds(t.Context(), client.Topics.Examples, partition)
		noError(t, err)
		r := again.Range(client.Topics.Examples, partition, first, end)
		n := 0
		for ; err == nil; n++ {
			_, err = r.Next(t.Context())
		}
		noError(t, r.Close())
		if err != io.EOF || first != 0 || n < 10 {
			t.Errorf("partition %d from offset %d: %d messages, and then %v", partition, first, n-1, err)
		}
	}
}

// Versions are the same, and are verified, whether the examples that they were trained on have expired meanwhile or not.
func TestVersionsOfExpiredExamples(t *testing.T) {
	long(t)
	var want []string
	for _, expires := range []bool{false, true} {
		log := openEmbedded(t)
		job, write := orders(t, log)
		random := rand.New(rand.NewPCG(3, 4))
		for rows := 0; rows < 600; rows += 150 {
			write(rows, rows+150)
			must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
			if expires {
				expire(t, log, job, random)
			}
		}
		got := digests(t, log, job.Name)
		if !expires {
			want = got
			continue
		}
		if !slices.Equal(got, want) || len(got) < 6 {
			t.Fatalf("the versions are %q, expected %q", got, want)
		}
		versions, err := topics.Open(log, job.Name, nil).Versions(t.Context())
		noError(t, err)
		numbers := []int{}
		for _, v := range versions {
			if v.Plan.Update() == nil {
				numbers = nil
			}
			numbers = append(numbers, v.Version)
		}
		checkVerified(t, log, job, "latest", numbers...)
		deleteRecords(t, log, job.Examples.FromTopic, 1, 20)
		_, err = replay.Verify(t.Context(), topics.OpenFor(log, job, nil), dispatch.NewProcess(openBLAS(t)), job, "latest", event.Ignore{})
		if missing, ok := errors.AsType[*replay.MissingExamplesError](err); !ok || !strings.Contains(err.Error(), job.Examples.FromTopic) {
			t.Errorf("got error %v, expected a *MissingExamplesError that names the source: %v", err, missing)
		}
	}
}

// Rows on the forget topic may be deleted from the topic that they came from: versions made since are verified without them. Other rows
// must be there.
func TestForgottenRowsMayBeDeleted(t *testing.T) {
	log := openEmbedded(t)
	job, write := orders(t, log)
	write(0, 300)
	train(t, log, job)
	without := func(message func(partition int, offset int64) bool) {
		t.Helper()
		messages := readTopic(t, log, job.Examples.FromTopic)
		noError(t, log.Delete(t.Context(), job.Examples.FromTopic))
		noError(t, log.Create(t.Context(), kafkalog.Topic{Name: job.Examples.FromTopic, Partitions: 3}))
		for _, m := range messages {
			if message(m.Partition, m.Offset) {
				m.Value = nil
			}
			must(log.Append(t.Context(), job.Examples.FromTopic, m.Partition, m))(t)
		}
	}
	verify := func(version string) error {
		_, err := replay.Verify(t.Context(), topics.OpenFor(log, job, nil), dispatch.NewProcess(openBLAS(t)), job, version, event.Ignore{})
		return err
	}
	forgotten := source.SourceRows{Topic: job.Examples.FromTopic, Span: coverage.Span{Partition: 0, From: 3, To: 30}}
	must(source.Forget(t.Context(), topics.OpenFor(log, job, nil), job, source.ToForget{Read: []source.SourceRows{forgotten}}))(t)
	report, _ := train(t, log, job)
	for n := range job.Examples.Partitions {
		_, end, err := log.Bounds(t.Context(), protocol.TopicsOf(job.Name).Examples, n)
		noError(t, err)
		deleteRecords(t, log, protocol.TopicsOf(job.Name).Examples, int32(n), end)
	}
	in := func(partition int, offset int64) bool {
		return partition == forgotten.Partition && offset >= forgotten.From && offset < forgotten.To
	}
	for _, gone := range []func(partition int, offset int64) bool{func(int, int64) bool { return false }, in} {
		without(gone)
		noError(t, verify("2"))
	}
	if again, _ := train(t, log, job); again.WeightsDigest != report.WeightsDigest || again.Rows != report.Rows {
		t.Errorf("trained again: %d rows, weights %s; expected %d and %s", again.Rows, again.WeightsDigest, report.Rows, report.WeightsDigest)
	}
	without(func(partition int, offset int64) bool { return partition == 1 && offset < 9 })
	if err := verify("2"); err == nil || !strings.Contains(err.Error(), "has expired, and is not the same") {
		t.Errorf("without other rows: got error %v, expected one about rows that are not the same", err)
	}
}
