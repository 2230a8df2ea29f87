package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/client"
	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/cmd/stagewise/telemetry"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/heed"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
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
		Long: "Write predictions for each message of the examples topic, or of another topic with examples, by the\nnewest offered " +
			"version of the pipeline. Several processes share the partitions. Exactly one\nprediction of each message counts, " +
			"even if processes fail: see docs/serving.md.",
		Example: "  stagewise score -c clicks.yaml                              a service: predict current and future messages\n  " +
			"stagewise score -c clicks.yaml --until end                  predict up to the current end of the topic\n  stagewise " +
			"score -c clicks.yaml --topic visits --to guesses  predict another topic; --version 7: by version 7",
		RunE: f.from.run(f.run),
	}
	f.from.add(cmd)
	f.show.add(cmd)
	cmd.Flags().StringVar(&f.topic, "topic", "", "predict the messages of this `topic` (default: the examples topic that runs read)")
	cmd.Flags().StringVar(&f.to, "to", "", "write to this `topic`, which is created (default NAME.predictions)")
	cmd.Flags().StringVar(&f.version, "version", "", "predict by this `version` only: a version number or run id (default "+
		protocol.Latest+")")
	cmd.Flags().StringVar(&f.stop, "until", "", "`end`: stop at the current end of the topic, and predict by the currently newest "+
		"version")
	return cmd
}

func (f *scoreFlags) run(cmd *cobra.Command, _ []string, c *config.Config) error {
	if err := f.show.check(); err != nil {
		return err
	}
	if f.stop != "" && f.stop != untilEnd {
		return fmt.Errorf("--until: %s: expected end", f.stop)
	}
	topics := protocol.TopicsOf(c.Name)
	o := score.Options{
		From: cmp.Or(f.topic, c.Examples.Topic, topics.Examples), To: cmp.Or(f.to, topics.Predictions), UntilEnd: f.stop == untilEnd,
		Contributions: c.Score.Contributions,
	}
	if o.From == o.To {
		return fmt.Errorf("--to: %s: expected a topic other than the one with the examples", o.To)
	}
	for _, name := range topicNames(c) {
		if o.To == name && name != topics.Predictions {
			return fmt.Errorf("--to: %s: expected a topic for predictions: the pipeline uses this one for something else", o.To)
		}
	}
	blas, err := openBLAS()
	if err != nil {
		return err
	}
	role, counts := protocol.RoleScore, &screen.ScoreCounts{}
	if o.UntilEnd {
		role = "" // it ends by itself
	}
	err = f.show.session(cmd, c, role, withLog, func(log *kafkalog.Log, recorder event.Recorder, _ func()) error {
		if !o.UntilEnd {
			recorder.Record(event.Following{Topic: o.From})
		}
		return f.score(cmd.Context(), log, c, o, blas, telemetry.Tee{recorder, counts})
	})
	if err == nil && o.UntilEnd && f.show.onScreen() {
		counts.Conclude(cmd.ErrOrStderr(), o)
	}
	return err
}

// score predicts for the partitions that this process gets.
func (f *scoreFlags) score(ctx context.Context, log *kafkalog.Log, c *config.Config, o score.Options, blas *kernel.BLAS,
	recorder event.Recorder) (err error) {
	partitions, err := log.Partitions(ctx, o.From)
	if errors.Is(err, kafkalog.ErrUnknownTopic) {
		return fmt.Errorf("read %s: %w; write examples to it first, or check name, --topic and %s", o.From, kafkalog.ErrUnknownTopic,
			brokerKey(c))
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", o.From, err)
	}
	if err := log.Create(ctx, topics.PredictionsTopic(c.Job(), o.To, partitions)); err != nil {
		return err
	}
	if o.From == cmp.Or(c.Examples.Topic, protocol.TopicsOf(c.Name).Examples) {
		o.Forgotten = heed.ForgottenRows(log, c.Job())
		if c.Examples.FromTopic != "" {
			defer ingestBeside(ctx, log, c, o.UntilEnd, recorder)()
		}
	}
	topics := protocol.NewClient(log, c.Name, nil)
	var versions score.Versions
	if o.UntilEnd {
		m, err := topics.Model(ctx, cmp.Or(f.version, protocol.Latest))
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
		defer tellVersions(ctx, follower, recorder)()
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
		var owner protocol.Owner = group
		if group == nil {
			owner = protocol.NewSoleOwner(partitions)
		}
		err := score.Run(ctx, topics, o, versions, owner, blas, recorder)
		added, grown := errors.AsType[*score.AddedError](err)
		if !grown {
			return err
		}
		event.Notice(recorder, "%s grew from %d to %d partitions: adding partitions to %s; all partitions get predictions", added.From,
			added.Had, added.Have, o.To)
		partitions = added.Have
	}
}

// ingestBeside ingests the topic that the examples come from, until stop is called or ctx ends; with untilEnd it
// returns at the end that the topic has now. Who may not write examples predicts for those that others write.
func ingestBeside(ctx context.Context, log *kafkalog.Log, c *config.Config, untilEnd bool, recorder event.Recorder) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := source.Follow(ctx, log, c.Job(), untilEnd, recorder); err != nil && ctx.Err() == nil {
			event.Notice(recorder, "this process can't ingest %s, and predicts only what other processes ingest: %v", c.Examples.FromTopic, err)
		}
	}()
	if untilEnd {
		<-ended
	}
	return func() {
		cancel()
		<-ended
	}
}
