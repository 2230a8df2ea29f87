package pipeline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Damaged records on the pipeline's own topics are skipped, whatever their headers claim. The weights are the same as without
// them.
func TestHostileRecords(t *testing.T) {
	long(t)
	job := newMultiStageJob(t)
	want, _ := train(t, openEmbedded(t), job)
	log := openEmbedded(t)
	p, plan := submitJob(t, log, job, event.Ignore{})
	partitions := must(log.Partitions(t.Context(), p.Topics.Statistics))(t)
	write := func(topic string, partition int, m wire.Message) {
		t.Helper()
		must(p.Log.Append(t.Context(), topic, partition, m))(t)
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
	if report.WeightsDigest != want.WeightsDigest {
		t.Errorf("digest %s, without damaged records %s", report.WeightsDigest, want.WeightsDigest)
	}
	topicNames := map[string]bool{}
	for _, n := range eventsOf[event.Noticed](recorder) {
		for _, topic := range []string{"statistics", "weights", "plans"} {
			if strings.HasPrefix(n.Text, "skipping a message of the "+topic+" topic: ") {
				topicNames[topic] = true
			}
		}
	}
	if len(topicNames) != 3 {
		t.Errorf("notices name the topics %v, expected statistics, weights and plans", topicNames)
	}
	if versions, err := topics.Open(log, job.Name, nil).Versions(t.Context()); err != nil || len(versions) != 1 {
		t.Errorf("%d versions, error %v; expected 1 version", len(versions), err)
	}
}
