package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/stagewise/stagewise/client"
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// digit is a handwritten seven: 8 × 8 pixels, from 0 for white to 16 for black.
var digit = []float32{
	0, 0, 7, 8, 13, 16, 15, 1,
	0, 0, 7, 7, 4, 11, 12, 0,
	0, 0, 0, 0, 8, 13, 1, 0,
	0, 4, 8, 8, 15, 15, 6, 0,
	0, 2, 11, 15, 15, 4, 0, 0,
	0, 0, 0, 16, 5, 0, 0, 0,
	0, 0, 9, 15, 1, 0, 0, 0,
	0, 0, 13, 5, 0, 0, 0, 0,
}

// trained trains the pipeline digits so many times, on an embedded broker in a directory, and calls do.
func trained(versions int, do func(ctx context.Context, dir string) error) {
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
		examples, stage := ingest.Defaults(), solve.Defaults()
		examples.Train, examples.Test = []string{"../examples/digits/digits-train.csv.gz"}, []string{"../examples/digits/digits-test.csv.gz"}
		stage.Features, stage.Link = stages.Defaults(), link.Softmax
		stage.Features.Size, stage.Features.BandwidthScale = 64, 2
		job := topics.Job{
			Name: "digits", Examples: examples, Prepare: schemas.Prepare{Scale: stages.ScaleNone}, Stages: []schemas.Stage{stage, stage},
			Intercept: true, Seed: 1, OnBadMessage: schemas.QuarantineBadMessages, Segment: 16, Memory: 1 << 28,
		}
		for range versions {
			if _, _, err := pipeline.Train(ctx, log, blas, job, dispatch.TrainOptions{}, nil); err != nil {
				return errors.Join(err, log.Close())
			}
		}
		if err := log.Close(); err != nil {
			return err
		}
		return do(ctx, dir)
	}()
	if err != nil {
		fmt.Println(err)
	}
}

// Follow the newest version of a pipeline. With a Kafka cluster, Brokers takes the place of DataDir.
func ExampleFollow() {
	trained(1, func(ctx context.Context, dir string) error {
		follower, err := client.Follow(ctx, client.Options{Name: "digits", DataDir: dir})
		if err != nil {
			return err
		}
		<-follower.Ready()
		model := follower.Model()
		if model == nil { // the last version was removed since
			return follower.Stale()
		}
		probabilities := make([]float32, len(model.Labels()))
		label := model.Predict(digit, probabilities)
		fmt.Println("version", model.Manifest.Version, "says", label)
		fmt.Println("it is sure:", probabilities[7] > 0.5)
		return follower.Close()
	})
	// Output:
	// version 1 says 7
	// it is sure: true
}

// Follow one version, whatever is made after it. Its number and the id of its run are in `stagewise weights list`.
func ExampleOptions_version() {
	trained(2, func(ctx context.Context, dir string) error {
		follower, err := client.Follow(ctx, client.Options{Name: "digits", DataDir: dir, Version: "1"})
		if err != nil {
			return err
		}
		<-follower.Ready()
		fmt.Println("version", follower.Model().Manifest.Version)
		return follower.Close()
	})
	// Output: version 1
}

// A service may refuse to answer if its model is too old, or nobody knows whether there is another.
func ExampleFollower_Stale() {
	trained(1, func(ctx context.Context, dir string) error {
		follower, err := client.Follow(ctx, client.Options{Name: "digits", DataDir: dir, Version: "2"})
		if err != nil {
			return err
		}
		fmt.Println("stale:", follower.Stale() != nil, "model:", follower.Model() != nil)
		return follower.Close()
	})
	// Output: stale: true model: false
}
