package worker_test

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

// printed is a recorder that prints a worker's publications.
type printed struct{}

// Record prints the visits, and the sealed residuals of a stage.
func (printed) Record(e event.Event) {
	switch e := e.(type) {
	case event.Visited:
		fmt.Println("visit", e.Visit, "of", event.StageName(e.Stage))
	case event.Sealed:
		fmt.Println("residuals of", event.StageName(e.Stage), "for", e.Rows, "rows")
	}
}

// A worker makes the visits of a submitted run, each after the solver has published its weights.
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
	if err := errors.Join(work(ctx, log), log.Close()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// visit 0 of the survey
	// visit 0 of stage 0
	// visit 1 of stage 0
	// visit 2 of stage 0
	// residuals of stage 0 for 1297 rows
}

func work(ctx context.Context, log *kafkalog.Log) error {
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
		return worker.New(client, blas, plan, 0, protocol.NewSoleOwner(4), worker.Options{Bytes: 1 << 28}, printed{}).Work(working)
	})
	roles.Go(func() error {
		return solver.New(client, blas, plan, 0, protocol.NewSoleOwner(1), solver.Options{}, event.Ignore{}).Solve(working)
	})
	return roles.Wait()
}

// digits is a job on the digits that the repository carries: one stage of the pixels themselves, of 3 passes.
func digits() topics.Job {
	examples := ingest.Defaults()
	examples.Train = []string{"../../examples/digits/digits-train.csv.gz"}
	stage := solve.Defaults()
	stage.Features, stage.Passes = stages.DefaultsOf(stages.Columns), 3
	return topics.Job{
		Name: "digits", Examples: examples, Prepare: schemas.Prepare{Scale: prepare.ScaleNone}, Stages: []schemas.Stage{stage},
		Intercept: true, Seed: 1, OnBadMessage: schemas.QuarantineBadMessages, Segment: 16,
	}
}
