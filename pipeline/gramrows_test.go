package pipeline

import (
	"maps"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
)

// An update of few rows sends rows of its blocks instead of Gram matrices: new rows, and rows that leave the window. The
// versions are the same bits. Rows without a label count as rows of an update, but are not in the block: a chain with many
// of them sends matrices.
func TestSmallUpdatesSendRows(t *testing.T) {
	long(t)
	const features, partitions, each, updates = 120, 4, 5, 6
	stage := rffStage("softmax", features, 3)
	stage.Features.Kind, stage.Ridge = stages.Columns, 1e-2
	job := newJob(t, rings(each, features, 3, 1), table{}, stage, stage)
	job.Examples.Train, job.Examples.Partitions, job.Segment, job.Keep = nil, partitions, 2, 100
	job.Topics, job.Retrain = topics.DefaultTopics(), topics.DefaultRetrain()
	job.Retrain.Refresh, job.Retrain.Decay, job.Retrain.Rows = 1, 0.9, 3*partitions*each
	job.Retrain.Window.Increments, job.Retrain.Full = 3, topics.FullOptions{Every: 100}

	few, padded := openEmbedded(t), openEmbedded(t)
	for n := range 3 * updates {
		for partition := range partitions {
			labelled := rings(each, features, 3, uint64(100*partition+n)).exampleRows()
			other := labelled
			other.NoLabel = slices.Repeat([]bool{true}, each)
			produce(t, few, job, partition, exampleMessage(t, labelled))
			produce(t, padded, job, partition, exampleMessage(t, labelled), exampleMessage(t, other))
		}
	}
	if _, err := Retrain(t.Context(), few, openBLAS(t), job, true, event.Ignore{}); err != nil {
		t.Fatal(err)
	}
	many := job
	many.Retrain.Rows, many.Segment = 2*job.Retrain.Rows, 2*job.Segment
	if _, err := Retrain(t.Context(), padded, openBLAS(t), many, true, event.Ignore{}); err != nil {
		t.Fatal(err)
	}
	if got, want := weightsDigests(t, few, job.Name), weightsDigests(t, padded, job.Name); len(got) != updates || !slices.Equal(got, want) {
		t.Errorf("versions %v with rows, %v with Gram matrices", got, want)
	}
	const added, left = 2 * 2, 2 * 2 // those of two stages; the statistics of all but the last two versions are deleted
	for _, test := range []struct {
		log  *kafkalog.Log
		want map[wire.Kind]int
	}{
		{few, map[wire.Kind]int{statistics.KindGramRows: added, statistics.KindLeaveRows: left}},
		{padded, map[wire.Kind]int{statistics.KindGram: added, statistics.KindLeave: left}},
	} {
		if got := gramKinds(t, test.log, job.Name); !maps.Equal(got, test.want) {
			t.Errorf("records %v, expected %v", got, test.want)
		}
	}

	want := digests(t, few, job.Name)
	interrupted := openEmbedded(t)
	for _, m := range readTopic(t, few, job.Name+".examples") {
		produce(t, interrupted, job, m.Partition, m)
	}
	retrainInterrupted(t, interrupted, job, 20, 17)
	if got := digests(t, interrupted, job.Name); !slices.Equal(got, want) {
		t.Errorf("interrupted: versions %v, expected %v", got, want)
	}
	workers := openEmbedded(t)
	for _, m := range readTopic(t, few, job.Name+".examples") {
		produce(t, workers, job, m.Partition, m)
	}
	checkChainOfWorkers(t, workers, job, 2, want)
}

// weightsDigests returns the digest of the weights of each version.
func weightsDigests(t *testing.T, log *kafkalog.Log, name string) (list []string) {
	t.Helper()
	versions, err := topics.Open(log, name, nil).Versions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		list = append(list, v.WeightsDigest.Short())
	}
	return list
}

// gramKinds counts the records on the statistics topic that are for Gram matrices, by kind.
func gramKinds(t *testing.T, log *kafkalog.Log, name string) map[wire.Kind]int {
	t.Helper()
	kinds := map[wire.Kind]int{}
	for _, k := range readTopic(t, log, name+".statistics") {
		if m := protocol.FromKafka(k); statistics.OfGram(m.Kind()) {
			kinds[m.Kind()]++
		}
	}
	return kinds
}
