package solver_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/solver"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// A worker and a solver execute a submitted run. They share no memory: they communicate through topics.
func Example() {
	dir, err := os.MkdirTemp("", "stagewise-*")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	log, err := kafkalog.Open(ctx, kafkalog.Options{DataDir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := errors.Join(bringToItsEnd(ctx, log), log.Close()); err != nil {
		fmt.Println(err)
	}
	// Output: version 1 is there, with 10 labels
}

func bringToItsEnd(ctx context.Context, log *kafkalog.Log) error {
	blas := kernel.Gonum()
	if _, err := pipeline.Submit(ctx, log, blas, digits(), dispatch.TrainOptions{}, event.Ignore{}); err != nil {
		return err
	}
	client := protocol.NewClient(log, "digits", nil)
	ledger, err := client.ReadLedger(ctx)
	if err != nil {
		return err
	}
	var plan *schemas.Plan
	for _, plan = range ledger.Unfinished() {
		break // the first goes first
	}
	roles, working := errgroup.WithContext(ctx)
	roles.Go(func() error {
		return worker.New(client, blas, plan, 0, protocol.NewSoleOwner(4), worker.Options{Bytes: 1 << 28}, event.Ignore{}).Work(working)
	})
	roles.Go(func() error {
		return solver.New(client, blas, plan, 0, protocol.NewSoleOwner(1), solver.Options{}, event.Ignore{}).Solve(working)
	})
	if err := roles.Wait(); err != nil {
		return err
	}
	m, err := client.Model(ctx, protocol.Latest)
	if err != nil {
		return err
	}
	fmt.Println("version", m.Manifest.Version, "is there, with", len(m.Labels()), "labels")
	return nil
}

// digits is a job on the digits that the repository carries: one stage of the pixels themselves.
func digits() topics.Job {
	examples := ingest.Defaults()
	examples.Train = []string{"../../examples/digits/digits-train.csv.gz"}
	stage := solve.Defaults()
	stage.Features = stages.DefaultsOf("columns")
	return topics.Job{
		Name: "digits", Examples: examples, Prepare: schemas.Prepare{Scale: prepare.ScaleNone}, Stages: []schemas.Stage{stage},
		Intercept: true, Seed: 1, OnBadMessage: schemas.QuarantineBadMessages, Segment: 16,
	}
}
