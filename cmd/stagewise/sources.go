package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/admin"
	"github.com/stagewise/stagewise/pipeline/heed"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/wire"
)

func newSources() *cobra.Command {
	return newGroup("sources", "List or remove ingested files", newSourcesList(), newSourcesRemove())
}

func newSourcesList() *cobra.Command {
	own := func(c *config.Config, _ []string) error {
		return requireOwnExamples(c, "list the sources of the pipeline that owns it")
	}
	return newList(&cobra.Command{
		Use: "list -c FILE", Short: "List the ingested files, and how much of each is retained",
		Long: "List the sources of the examples topic: ingested files. A run whose configuration names no files\ntrains on all " +
			"sealed sources. An interrupted ingest leaves an unfinished source, which runs ignore.\nA followed topic is listed with " +
			"the offsets read so far.",
		Example: "  stagewise sources list -c digits.yaml",
	}, own, source.Sources, screen.WriteSources)
}

func newSourcesRemove() *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "remove -c FILE SOURCE…", Short: "Remove ingested files from all later runs, and print their ids",
		Long: "Remove sources: ingested files. Runs submitted later do not train on them; runs submitted earlier\ndo. Their messages " +
			"stay on the examples topic. To restore a source, ingest its files again, or train\non them. A followed topic can't " +
			"be removed.",
		Example: "  stagewise sources remove -c digits.yaml 724a0b99d628",
		RunE: from.onPipeline(func(c *config.Config, args []string) error {
			if len(args) == 0 && c.Examples.Topic == "" {
				return errors.New("expected source ids, or their first digits; see sources list")
			}
			return requireOwnExamples(c, "only the pipeline that owns it removes sources")
		}, func(cmd *cobra.Command, args []string, c *config.Config, log *kafkalog.Log) error {
			removed, err := source.RemoveSources(cmd.Context(), topics.Open(log, c.Name, nil), args)
			for _, s := range removed {
				if id := wire.Digest(s.ID).Short(); s.Before {
					fmt.Fprintf(cmd.ErrOrStderr(), "source %s (%s) was already removed\n", id, strings.Join(s.Files, ", "))
				} else {
					fmt.Fprintln(cmd.OutOrStdout(), id)
				}
			}
			return err
		}),
	}
	from.add(cmd)
	return cmd
}

func newQuarantine() *cobra.Command {
	return newGroup("quarantine", "List the messages that could not be used", newQuarantineList())
}

func newQuarantineList() *cobra.Command {
	values := false
	return newList(&cobra.Command{
		Use: "list -c FILE", Short: "List why messages could not be used, how many, and where they are",
		Long: "List the reasons for which messages are on the quarantine topic: the number of messages, the topic,\npartition and offset of " +
			"the first and the last of them, and the reason. Messages\nwhose reasons differ only in the values of rows count together. " +
			"With log.values,\nthe reason is that of the last message, with its values.",
		Example: "  stagewise quarantine list -c digits.yaml",
	}, func(c *config.Config, _ []string) error {
		values = c.Logs.Values
		return nil
	}, func(ctx context.Context, p *topics.Pipeline) ([]source.QuarantineReason, error) {
		return source.Quarantine(ctx, p, values)
	}, screen.WriteQuarantine)
}

func newForget() *cobra.Command {
	var (
		from   configFlags
		what   admin.ToForget
		report string
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
  stagewise forget -c clicks.yaml --lost restore          after the loss of the forget topic, forget the rows that versions name
  stagewise forget -c clicks.yaml --key user-4711 --report forgot.json   also write as JSON where data of the rows stays`,
		RunE: from.run(func(cmd *cobra.Command, args []string, c *config.Config) error {
			if err := requireOwnExamples(c, "forget rows in the pipeline that owns it, and the next run here excludes them"); err != nil {
				return err
			}
			if err := screen.CheckWritable(report); err != nil {
				return err
			}
			what.Answers = c.Serve.Answers.Topic
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
				done, err := admin.Forget(cmd.Context(), topics.OpenFor(log, c.Job(), nil), c.Job(), what)
				if done == nil {
					return err
				}
				if report != screen.StandardOutput {
					err = errors.Join(err, screen.WriteForgot(cmd.OutOrStdout(), done, what.Now))
				}
				return errors.Join(err, screen.WriteJSON(report, cmd.OutOrStdout(), struct {
					*admin.Forgot
					Unlisted string `json:"unlisted"`
				}{done, "copies of model files and exports: no list of them is kept"}))
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
	cmd.Flags().StringVar(&report, "report", "", "write what was forgotten, and where data of it stays, as JSON to a `file` (-: standard "+
		"output)")
	cmd.Flags().BoolVar(&what.Now, "now", false, "remove affected versions first, even the one that subscribers get as latest")
	return cmd
}
