package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/admin"
	"github.com/stagewise/stagewise/pipeline/heed"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
)

func newForget() *cobra.Command {
	var (
		from configFlags
		what admin.ToForget
	)
	cmd := &cobra.Command{
		Use: "forget -c FILE ROW…", Short: "Exclude examples from all future training",
		Long: "Forget examples: runs submitted later do not learn from them. Give a row as\nTOPIC/PARTITION/OFFSET/ROW, or all rows " +
			"of a message as TOPIC/PARTITION/OFFSET; offset and row may\nbe ranges, such as 3-7. Rows that ingest read from a " +
			"topic can be given by their position there. The\nnext version of run excludes the rows; then all versions that " +
			"learnt from them are removed. This\ncan't be undone. The command prints how long the topics retain data of the " +
			"examples.",
		Example: `  stagewise forget -c clicks.yaml clicks.examples/0/1207/31
  stagewise forget -c clicks.yaml clicks/3/180422         rows ingested from examples.from_topic: clicks, by position there
  stagewise forget -c clicks.yaml --key user-4711 --now   all rows of messages with this key, removing affected versions first
  stagewise forget -c clicks.yaml --source 724a0b99d628   ingested files, by their id in sources list
  stagewise forget -c clicks.yaml --lost restore          after the loss of the forget topic, forget the rows that versions name`,
		RunE: from.run(func(cmd *cobra.Command, args []string, c *config.Config) error {
			if err := requireOwnExamples(c, "forget rows in the pipeline that owns it, and the next run here excludes them"); err != nil {
				return err
			}
			switch {
			case !slices.Contains([]string{"", heed.RestoreLost, heed.DropLost}, what.Lost):
				return fmt.Errorf("--lost %s: expected %s or %s", what.Lost, heed.RestoreLost, heed.DropLost)
			case len(args)+len(what.Sources)+len(what.Keys) == 0 && what.Lost == "":
				return errors.New("expected rows, --source, --key or --lost")
			}
			for _, arg := range args {
				if read, ok := admin.ParseSourceRows(c.Examples.FromTopic, arg); ok {
					what.Read = append(what.Read, read)
					continue
				}
				r, err := admin.ParseRows(protocol.TopicsOf(c.Name).Examples, arg)
				if err != nil {
					return err
				}
				what.Rows = append(what.Rows, r)
			}
			return failed(withPipeline(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
				done, err := admin.Forget(cmd.Context(), topics.Open(log, c.Job().Name, nil), c.Job(), what)
				if done != nil {
					err = errors.Join(err, screen.WriteForgot(cmd.OutOrStdout(), done, what.Now))
				}
				return err
			}))
		}),
	}
	from.add(cmd)
	cmd.Flags().StringArrayVar(&what.Sources, "source", nil, "all rows of a source, given by its id or the first digits; see sources "+
		"list")
	cmd.Flags().StringArrayVar(&what.Keys, "key", nil,
		"all rows of the messages with this key, on the examples topic or on the topic that they were ingested from")
	cmd.Flags().StringVar(&what.Lost, "lost", "", "if the forget topic has lost rows: restore the rows that versions name, or drop "+
		"them, so that runs learn them again")
	cmd.Flags().BoolVar(&what.Now, "now", false, "remove affected versions first, even the one that subscribers get as latest")
	return cmd
}
