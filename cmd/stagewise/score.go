package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"syscall"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/client"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/score"
)

// scoreFlags are the flags of score.
type scoreFlags struct {
	from                     configFlags
	show                     displayFlags
	topic, to, version, stop string
}

func newScore() *cobra.Command {
	var f scoreFlags
	cmd := &cobra.Command{
		Use: "score -c FILE", Short: "Write predictions for the messages of a topic to another topic", Args: cobra.NoArgs,
		Long: "Write predictions for each message of the examples topic, or of another topic with examples, by the newest version of the pipeline that is\n" +
			"offered. Several processes share the partitions. Whatever ends meanwhile, each message has one prediction that counts: see docs/serving.md.",
		Example: "  stagewise score -c clicks.yaml                              a service: predictions for what the topic has, and for what comes\n" +
			"  stagewise score -c clicks.yaml --until end                  predictions for all that the topic has now\n" +
			"  stagewise score -c clicks.yaml --topic visits --to guesses  from a topic of somebody else, by version 7: --version 7",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.from.add(cmd)
	f.show.add(cmd)
	cmd.Flags().StringVar(&f.topic, "topic", "", "predict for the messages of this `topic` (default: the examples that runs read)")
	cmd.Flags().StringVar(&f.to, "to", "", "write to this `topic`, which is created (default NAME.predictions)")
	cmd.Flags().StringVar(&f.version, "version", "", "predict by this `version` only: its number, or the id of its run (default "+run.Latest+")")
	cmd.Flags().StringVar(&f.stop, "until", "", "`end`: stop when all that the topic has now has predictions, by the version that is the newest now")
	return cmd
}

func (f *scoreFlags) run(cmd *cobra.Command) error {
	c, err := f.from.load()
	if err != nil {
		return err
	}
	if err := f.show.check(); err != nil {
		return err
	}
	if f.stop != "" && f.stop != untilEnd {
		return fmt.Errorf("--until: %s: expected end", f.stop)
	}
	topics := run.TopicsOf(c.Name)
	o := score.Options{
		From: cmp.Or(f.topic, c.Examples.Topic, topics.Examples), To: cmp.Or(f.to, topics.Predictions), UntilEnd: f.stop == untilEnd,
	}
	if o.From == o.To {
		return fmt.Errorf("--to: %s: expected another topic than the one with the examples", o.To)
	}
	for _, name := range topicNames(c) {
		if o.To == name && name != topics.Predictions {
			return fmt.Errorf("--to: %s: expected a topic for predictions: the pipeline has this one for something else", o.To)
		}
	}
	blas, err := openBLAS()
	if err != nil {
		return err
	}
	recorder, finish := f.show.recorder(c.Name, cmd.ErrOrStderr())
	defer finish()
	counts := &scoreCounts{}
	if !o.UntilEnd {
		var stop func()
		if recorder, stop, err = withMetrics(cmd.Context(), c, roleScore, recorder); err != nil {
			return err
		}
		defer stop()
		recorder.Record(event.Following{Topic: o.From})
	}
	recorder = tee{recorder, counts}
	err = withLog(cmd.Context(), c, recorder, func(log *kafkalog.Log) error {
		return f.score(cmd.Context(), log, c, o, blas, recorder)
	})
	if finish(); err == nil && f.show.onScreen() {
		counts.conclude(cmd.ErrOrStderr(), o)
	}
	if i, ok := errors.AsType[*interruption](context.Cause(cmd.Context())); ok && i.signal == syscall.SIGTERM && !o.UntilEnd {
		return nil // as a service is ended
	}
	return failed(err)
}

// score predicts for the partitions that this process gets.
func (f *scoreFlags) score(ctx context.Context, log *kafkalog.Log, c *config.Config, o score.Options, blas *kernel.BLAS, recorder event.Recorder) (err error) {
	partitions, err := log.Partitions(ctx, o.From)
	if err != nil {
		return fmt.Errorf("read %s: %w", o.From, err)
	}
	if err := log.Create(ctx, pipeline.PredictionsTopic(c.Job(), o.To, partitions)); err != nil {
		return err
	}
	if o.From == cmp.Or(c.Examples.Topic, run.TopicsOf(c.Name).Examples) {
		o.Forgotten = pipeline.ForgottenRows(log, c.Job())
	}
	topics := run.NewClient(log, c.Name, nil)
	var versions score.Versions
	if o.UntilEnd {
		m, err := topics.Model(ctx, cmp.Or(f.version, run.Latest))
		if err != nil {
			return err
		}
		versions = score.Fixed(m)
	} else {
		follower, err := client.FollowOn(ctx, log, client.Options{Name: c.Name, Version: f.version})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, follower.Close()) }()
		versions = follower
	}
	var group *kafkalog.Member // of those who write there
	if !log.Embedded() {
		group = log.Join(o.To, o.From)
		defer func() { err = errors.Join(err, group.Leave()) }()
	}
	for {
		if err := log.AddPartitions(ctx, o.To, partitions); err != nil {
			return err
		}
		var owner run.Owner = group
		if group == nil {
			owner = run.NewSoleOwner(partitions)
		}
		err := score.Run(ctx, topics, o, versions, owner, blas, recorder)
		added, grown := errors.AsType[*score.AddedError](err)
		if !grown {
			return err
		}
		event.Notice(recorder, "%s has %d partitions now, and had %d: %s gets as many, and predictions for all of them", added.From, added.Have, added.Had, o.To)
		partitions = added.Have
	}
}

// scoreCounts counts what this process has predicted.
type scoreCounts struct{ messages, rows, bad atomic.Int64 }

// Record counts predictions.
func (s *scoreCounts) Record(e event.Event) {
	if e, ok := e.(event.Scored); ok {
		s.messages.Add(int64(e.Messages))
		s.rows.Add(e.Rows)
		s.bad.Add(int64(e.Bad))
	}
}

// conclude writes what has predictions now.
func (s *scoreCounts) conclude(w io.Writer, o score.Options) {
	fmt.Fprintf(w, "predictions for %s rows of %s of %s are on %s", humanize.Comma(s.rows.Load()), english.Plural(int(s.messages.Load()), "message", ""), o.From, o.To)
	if bad := s.bad.Load(); bad > 0 {
		fmt.Fprintf(w, "; %s can't be used: their predictions say why", english.Plural(int(bad), "message", ""))
	}
	fmt.Fprintln(w)
}
