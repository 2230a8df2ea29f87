//go:build kafka

package pipeline

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
)

// openKafka connects to real Kafka, and returns a pipeline's name that nobody uses there.
func openKafka(t *testing.T) (*kafkalog.Log, string) {
	t.Helper()
	brokers := os.Getenv("STAGEWISE_KAFKA")
	if brokers == "" {
		t.Fatal("STAGEWISE_KAFKA is not set: start Kafka with make kafka-up, which prints the value")
	}
	log := must(kafkalog.Open(t.Context(), kafkalog.Options{Brokers: strings.Split(brokers, ",")}))(t)
	name := fmt.Sprintf("test-%d", time.Now().UnixNano())
	t.Cleanup(func() {
		ctx := context.Background()
		all, err := log.Topics(ctx, name+".")
		if err != nil {
			t.Error(err)
		}
		for _, topic := range all {
			if err := log.Delete(ctx, topic.Name); err != nil {
				t.Error(err)
			}
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log, name
}

// A run on real Kafka has the same bits as on the embedded broker, even if it is interrupted and resumed.
func TestKafkaRunHasTheSameDigest(t *testing.T) {
	want, _ := train(t, openEmbedded(t), newMultiStageJob(t))
	log, name := openKafka(t)
	job := newMultiStageJob(t)
	job.Name = name
	trainUntil(t, log, job, func(e event.Event) bool { s, ok := e.(event.StageEnded); return ok && s.Stage == 1 })
	recorder := &eventRecorder{}
	first, _ := trainRecorded(t, log, job, recorder)
	if began := eventsOf[event.Began](recorder); len(began) != 1 || !began[0].Resumed {
		t.Errorf("got events %+v, expected one run that is resumed", began)
	}
	second, model := train(t, log, job)
	for _, r := range []*schemas.Report{first, second} {
		if r.WeightsDigest != want.WeightsDigest || r.Rows != want.Rows {
			t.Errorf("version %d: digest %s, %d rows; on the embedded broker %s, %d", r.Version, r.WeightsDigest, r.Rows, want.WeightsDigest,
				want.Rows)
		}
	}
	if first.Version != 1 || second.Version != 2 || model.Manifest.Version != 2 {
		t.Errorf("versions %d and %d, model version %d; expected 1, 2, 2", first.Version, second.Version, model.Manifest.Version)
	}
}

// On brokers that others share, an unfinished run goes first, unless Supersede cancels it.
func TestKafkaUnfinishedRunGoesFirst(t *testing.T) {
	log, name := openKafka(t)
	job := newMultiStageJob(t)
	job.Name = name
	surveyed := func(e event.Event) bool { _, ok := e.(event.Surveyed); return ok }
	trainUntil(t, log, job, surveyed)
	other := job
	other.Seed = 2
	train(t, log, other)
	if versions, err := topics.Open(log, name, nil).Versions(t.Context()); err != nil || len(versions) != 2 || versions[1].Plan.Seed != 2 {
		t.Errorf("%d versions, error %v; expected 2, the second with seed 2", len(versions), err)
	}
	trainUntil(t, log, job, surveyed)
	if _, _, err := Train(t.Context(), log, openBLAS(t), other, dispatch.TrainOptions{Supersede: true,
		Allocator: arrowtest.Allocator(t)}, &eventRecorder{}); err != nil {
		t.Fatal(err)
	}
	if versions, err := topics.Open(log, name, nil).Versions(t.Context()); err != nil || len(versions) != 3 {
		t.Errorf("%d versions, error %v; expected 3", len(versions), err)
	}
}

// On real Kafka a chain on sparse rows has the versions that it has on the embedded broker, with one worker and with four, and however
// often its process ends.
func TestKafkaSparseChain(t *testing.T) {
	job := sparseChainJob(t, "softmax")
	job.Examples.Partitions, job.Examples.BatchRows, job.Retrain.Rows = 4, 25, 200
	want := chainAlone(t, job)
	for _, workers := range []int{1, 4} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			log, name := openKafka(t)
			job := job
			job.Name = name
			checkChainOfWorkers(t, log, job, workers, want)
		})
	}
	t.Run("interrupted", func(t *testing.T) {
		log, name := openKafka(t)
		job := job
		job.Name = name
		retrainInterrupted(t, log, job, 40, 53)
		if got := digests(t, log, name); !slices.Equal(got, want) {
			t.Errorf("interrupted\n%v\nexpected\n%v", got, want)
		}
	})
}
