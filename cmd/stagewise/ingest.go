package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
)

func newIngest() *cobra.Command {
	var (
		from  configFlags
		show  displayFlags
		until string
	)
	cmd := &cobra.Command{
		Use: "ingest -c FILE", Short: "Write the configured files, or the values of a topic, to the examples topic, except what is already there", Args: cobra.NoArgs,
		Example: `  stagewise ingest -c digits.yaml              write the files of examples.train and examples.test
  stagewise ingest -c clicks.yaml              follow the topic examples.from_topic, until it is interrupted
  stagewise ingest -c clicks.yaml --until end  write what that topic has now`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			if err := show.check(); err != nil {
				return err
			}
			if err := requireOwnExamples(c, "nothing is written there"); err != nil {
				return err
			}
			follows := c.Examples.FromTopic != ""
			switch {
			case until != "" && until != untilEnd:
				return fmt.Errorf("--until: %s: expected end", until)
			case until != "" && !follows:
				return errors.New("--until: expected examples.from_topic too: files end by themselves")
			case !follows && len(c.Examples.Train)+len(c.Examples.Test) == 0:
				return errors.New("nothing to ingest: set examples.train, examples.test or examples.from_topic")
			}
			remove, err := spool(cmd, &c.Examples)
			if err != nil {
				return failed(err)
			}
			defer remove()
			recorder, finish := show.recorder(c.Name, cmd.ErrOrStderr())
			defer finish()
			return failed(withLog(cmd.Context(), c, recorder, func(log *kafkalog.Log) error {
				if follows {
					return pipeline.Follow(cmd.Context(), log, c.Job(), until == untilEnd, recorder)
				}
				return pipeline.Ingest(cmd.Context(), log, c.Job(), recorder)
			}))
		},
	}
	from.add(cmd)
	show.add(cmd)
	cmd.Flags().StringVar(&until, "until", "", "`end`: stop at the end that the topic has now")
	return cmd
}
