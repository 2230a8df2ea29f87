package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// digits is a job on the digits that the repository carries: two stages of 64 random Fourier features.
func digits() topics.Job {
	examples := ingest.Defaults()
	examples.Train, examples.Test = []string{"../examples/digits/digits-train.csv.gz"}, []string{"../examples/digits/digits-test.csv.gz"}
	stage := solve.Defaults()
	stage.Features = stages.Defaults()
	stage.Features.Size, stage.Features.BandwidthScale = 64, 2
	return topics.Job{
		Name: "digits", Examples: examples, Prepare: schemas.Prepare{Scale: prepare.ScaleNone}, Stages: []schemas.Stage{stage, stage},
		Intercept: true, Seed: 1, OnBadMessage: schemas.QuarantineBadMessages, Segment: 16, Memory: 1 << 28,
	}
}

// withLog calls do with an embedded broker in a directory of its own.
func withLog(do func(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS) error) {
	err := func() error {
		dir, err := os.MkdirTemp("", "stagewise-*")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		blas, err := kernel.Open("")
		if err != nil {
			return err
		}
		ctx := context.Background()
		log, err := kafkalog.Open(ctx, kafkalog.Options{DataDir: dir})
		if err != nil {
			return err
		}
		return errors.Join(do(ctx, log, blas), log.Close())
	}()
	if err != nil {
		fmt.Println(err)
	}
}

// Train a model on files. The embedded broker needs no Kafka.
func ExampleTrain() {
	withLog(func(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS) error {
		report, model, err := pipeline.Train(ctx, log, blas, digits(), dispatch.TrainOptions{}, event.Ignore{})
		if err != nil {
			return err
		}
		fmt.Println(len(report.Stages), "stages,", report.Rows, "rows,", len(model.Labels()), "classes")
		fmt.Println("test error below 15 %:", *report.TestError < 15)
		return nil
	})
	// Output:
	// 2 stages, 1297 rows, 10 classes
	// test error below 15 %: true
}

// Every run that ends well is a version. Trained again, the same job is another run, with the same weights.
func Example_versions() {
	withLog(func(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS) error {
		for range 2 {
			if _, _, err := pipeline.Train(ctx, log, blas, digits(), dispatch.TrainOptions{}, event.Ignore{}); err != nil {
				return err
			}
		}
		versions, err := topics.Open(log, "digits", nil).Versions(ctx)
		if err != nil {
			return err
		}
		for _, v := range versions {
			fmt.Println("version", v.Version, "of", v.Rows["train"], "rows")
		}
		fmt.Println("other runs:", versions[0].Run != versions[1].Run)
		fmt.Println("same weights:", versions[0].WeightsDigest == versions[1].WeightsDigest)
		return nil
	})
	// Output:
	// version 1 of 1297 rows
	// version 2 of 1297 rows
	// other runs: true
	// same weights: true
}

// Load the newest version of a pipeline, and predict with it.
func Example_loadModel() {
	withLog(func(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS) error {
		if _, _, err := pipeline.Train(ctx, log, blas, digits(), dispatch.TrainOptions{}, event.Ignore{}); err != nil {
			return err
		}
		model, err := topics.Open(log, "digits", nil).Model(ctx, protocol.Latest)
		if err != nil {
			return err
		}
		label, _ := model.Predictor(blas).Predict([]float32{
			0, 0, 7, 8, 13, 16, 15, 1,
			0, 0, 7, 7, 4, 11, 12, 0,
			0, 0, 0, 0, 8, 13, 1, 0,
			0, 4, 8, 8, 15, 15, 6, 0,
			0, 2, 11, 15, 15, 4, 0, 0,
			0, 0, 0, 16, 5, 0, 0, 0,
			0, 0, 9, 15, 1, 0, 0, 0,
			0, 0, 13, 5, 0, 0, 0, 0,
		})
		fmt.Println(label)
		return nil
	})
	// Output: 7
}

// ingested is a recorder that prints which sources are on the topic.
type ingested struct{}

// Record prints sources that are sealed.
func (ingested) Record(e event.Event) {
	if e, ok := e.(event.Ingested); ok && e.Done {
		fmt.Println(e.Rows, "rows,", e.Split, "known:", e.Known)
	}
}

// Put files onto the examples topic without training. What is there already is not put there again.
func ExampleIngest() {
	withLog(func(ctx context.Context, log *kafkalog.Log, _ *kernel.BLAS) error {
		for range 2 {
			if err := source.Ingest(ctx, log, digits(), ingested{}); err != nil {
				return err
			}
		}
		return nil
	})
	// Output:
	// 1297 rows, train known: false
	// 500 rows, test known: false
	// 1297 rows, train known: true
	// 500 rows, test known: true
}

// A run that was submitted is done by workers and solvers elsewhere. Whoever knows its id can attach to it, and gets its report
// also after its end.
func Example_attach() {
	withLog(func(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS) error {
		report, _, err := pipeline.Train(ctx, log, blas, digits(), dispatch.TrainOptions{}, event.Ignore{})
		if err != nil {
			return err
		}
		again, model, err := dispatch.Attach(ctx, topics.Open(log, "digits", nil), report.Run, event.Ignore{})
		if err != nil {
			return err
		}
		fmt.Println(again.Version, model.Digest() == report.WeightsDigest)
		_, _, err = dispatch.Attach(ctx, topics.Open(log, "digits", nil), "0123456789ab", event.Ignore{})
		fmt.Println(err)
		return nil
	})
	// Output:
	// 1 true
	// there is no run 0123456789ab on digits.plans
}

// Submit a run and leave it to workers and solvers elsewhere. A run of the same job that has not ended is the same run.
func ExampleSubmit() {
	withLog(func(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS) error {
		first, err := pipeline.Submit(ctx, log, blas, digits(), dispatch.TrainOptions{}, event.Ignore{})
		if err != nil {
			return err
		}
		again, err := pipeline.Submit(ctx, log, blas, digits(), dispatch.TrainOptions{}, event.Ignore{})
		if err != nil {
			return err
		}
		fmt.Println("the same run:", first == again)
		return nil
	})
	// Output: the same run: true
}

// The topics that a job needs, as they are created if they are missing.
func ExampleTopics() {
	for _, t := range topics.Topics(digits()) {
		fmt.Println(t.Name, t.Partitions, "compacted:", t.Compact)
	}
	// Output:
	// digits.examples 4 compacted: false
	// digits.residuals 4 compacted: false
	// digits.statistics 4 compacted: false
	// digits.weights 1 compacted: false
	// digits.versions 1 compacted: true
	// digits.state 1 compacted: true
	// digits.plans 1 compacted: true
	// digits.forget 1 compacted: true
	// digits.quarantine 1 compacted: false
}
