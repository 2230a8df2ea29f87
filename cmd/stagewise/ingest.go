package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
)

func newIngest() *cobra.Command {
	var (
		from  configFlags
		show  displayFlags
		until string
	)
	cmd := &cobra.Command{
		Use: "ingest -c FILE", Args: cobra.NoArgs,
		Short: "Ingest the configured files or topic into the examples topic, skipping what is already there",
		Example: `  stagewise ingest -c digits.yaml              ingest the files of examples.train and examples.test
  stagewise ingest -c clicks.yaml              follow the topic examples.from_topic until interrupted
  stagewise ingest -c clicks.yaml --until end  stop at the current end of that topic`,
		RunE: from.run(func(cmd *cobra.Command, _ []string, c *config.Config) error {
			if err := show.check(); err != nil {
				return err
			}
			if err := requireOwnExamples(c, "it is read-only here"); err != nil {
				return err
			}
			follows := c.Examples.FromTopic != ""
			switch {
			case until != "" && until != untilEnd:
				return fmt.Errorf("--until: %s: expected end", until)
			case until != "" && !follows:
				return errors.New("--until: expected examples.from_topic: only a topic can be followed")
			case !follows && len(c.Examples.Train)+len(c.Examples.Test) == 0:
				return errors.New("nothing to ingest: set examples.train, examples.test or examples.from_topic")
			}
			remove, err := spool(cmd, &c.Examples)
			if err != nil {
				return failed(err)
			}
			defer remove()
			role := protocol.RoleIngest
			if !follows || until != "" {
				role = "" // it ends by itself
			}
			return show.session(cmd, c, role, withLog, func(log *kafkalog.Log, recorder event.Recorder, _ func()) error {
				if follows {
					if err := createFollowed(cmd.Context(), c, log); err != nil {
						return err
					}
					return source.Follow(cmd.Context(), log, c.Job(), until == untilEnd, recorder)
				}
				return source.Ingest(cmd.Context(), log, c.Job(), recorder)
			})
		}),
	}
	from.add(cmd)
	show.add(cmd)
	cmd.Flags().StringVar(&until, "until", "", "`end`: stop at the current end of the topic")
	return cmd
}

// createFollowed creates the topics that a pipeline follows on an embedded broker with a listener, if they are missing: other
// programs can create topics only while the broker runs.
func createFollowed(ctx context.Context, c *config.Config, log *kafkalog.Log) error {
	if c.Listen == "" || c.Examples.Archive.Alone {
		return nil
	}
	var followed []kafkalog.Topic
	for _, topic := range []string{c.Examples.FromTopic, c.Examples.Outcome.Topic} {
		if topic != "" {
			followed = append(followed, kafkalog.Topic{Name: topic, Partitions: c.Examples.Partitions})
		}
	}
	return log.Create(ctx, followed...)
}
