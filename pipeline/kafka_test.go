//go:build kafka

package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// openKafka is real Kafka, and a pipeline's name that is not used there.
func openKafka(t *testing.T) (*kafkalog.Log, string) {
	t.Helper()
	brokers := os.Getenv("STAGEWISE_KAFKA")
	if brokers == "" {
		t.Fatal("STAGEWISE_KAFKA is not set: make kafka-up starts Kafka and says its address")
	}
	log, err := kafkalog.Open(t.Context(), kafkalog.Options{Brokers: strings.Split(brokers, ",")})
	if err != nil {
		t.Fatal(err)
	}
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

// The whole flow on real Kafka gives the bits that it gives on the embedded
// broker, also when it is interrupted on the way and gone on with.
func TestKafkaRunHasTheSameDigest(t *testing.T) {
	want, _ := train(t, openEmbedded(t), resumable(t))
	log, name := openKafka(t)
	job := resumable(t)
	job.Name = name
	ctx, cancel := cancelled(t)
	defer cancel()
	_, _, err := Train(ctx, log, openBLAS(t), job, TrainOptions{Allocator: checked(t)}, &events{on: func(e event.Event) {
		if ended, ok := e.(event.StageEnded); ok && ended.Stage == 1 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	recorder := &events{}
	first, _, err := Train(t.Context(), log, openBLAS(t), job, TrainOptions{Allocator: checked(t)}, recorder)
	if err != nil {
		t.Fatal(err)
	}
	if began := of[event.Began](recorder); len(began) != 1 || !began[0].Resumed {
		t.Errorf("%+v", began)
	}
	second, model := train(t, log, job)
	for _, r := range []*schemas.Report{first, second} {
		if r.WeightsDigest != want.WeightsDigest || r.Rows != want.Rows {
			t.Errorf("version %d: digest %s, %d rows; on the embedded broker %s, %d", r.Version, r.WeightsDigest, r.Rows, want.WeightsDigest, want.Rows)
		}
	}
	if first.Version != 1 || second.Version != 2 || model.Manifest.Version != 2 {
		t.Errorf("versions %d, %d, %d", first.Version, second.Version, model.Manifest.Version)
	}
}

// On brokers that others share, an unfinished run goes first, unless it is to
// be superseded.
func TestKafkaUnfinishedRunGoesFirst(t *testing.T) {
	log, name := openKafka(t)
	job := resumable(t)
	job.Name = name
	interrupt := func() {
		ctx, cancel := cancelled(t)
		defer cancel()
		_, _, err := Train(ctx, log, openBLAS(t), job, TrainOptions{Allocator: checked(t)}, &events{on: func(e event.Event) {
			if _, ok := e.(event.Surveyed); ok {
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	interrupt()
	other := job
	other.Seed = 2
	train(t, log, other)
	if versions, err := Versions(t.Context(), log, name); err != nil || len(versions) != 2 || versions[1].Plan.Seed != 2 {
		t.Errorf("%d versions, %v", len(versions), err)
	}
	interrupt()
	if _, _, err := Train(t.Context(), log, openBLAS(t), other, TrainOptions{Supersede: true, Allocator: checked(t)}, &events{}); err != nil {
		t.Fatal(err)
	}
	if versions, err := Versions(t.Context(), log, name); err != nil || len(versions) != 3 {
		t.Errorf("%d versions, %v", len(versions), err)
	}
}

// Real brokers and the embedded one, one worker and several: the same bits.
func TestKafkaAnyNumberOfWorkers(t *testing.T) {
	want, _ := train(t, openEmbedded(t), resumable(t))
	for _, workers := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			log, name := openKafka(t)
			job := resumable(t)
			job.Name = name
			severalWork(t, log, job, workers, want)
		})
	}
}
