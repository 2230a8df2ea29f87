package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/run"
)

func newForget() *cobra.Command {
	var (
		from configFlags
		what pipeline.ToForget
	)
	cmd := &cobra.Command{
		Use: "forget -c FILE ROW…", Short: "Let no later version learn from some examples",
		Long: "Forget examples: no run that is submitted later learns from them. A row is given as TOPIC/PARTITION/OFFSET/ROW, all rows of a message without\n" +
			"/ROW; offset and row may be ranges, as 3-7. What ingest has read from a topic may be given by its place there. The next version of run has not learnt them, and then the versions are removed that have learnt from\n" +
			"the examples. This can't be taken back. It prints how long the topics keep what they have of the examples.",
		Example: `  stagewise forget -c clicks.yaml clicks.examples/0/1207/31
  stagewise forget -c clicks.yaml clicks/3/180422         rows of examples.from_topic: clicks, by where ingest has read them
  stagewise forget -c clicks.yaml --key user-4711 --now   all rows of messages with this key; no version stays that has learnt from them
  stagewise forget -c clicks.yaml --source 724a0b99d628   files that were ingested, as sources list has them
  stagewise forget -c clicks.yaml --lost restore          the forget topic was lost: forget again what versions name`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			if err := requireOwnExamples(c, "its owner forgets rows, and the next run here heeds that"); err != nil {
				return err
			}
			switch {
			case !slices.Contains([]string{"", pipeline.RestoreLost, pipeline.DropLost}, what.Lost):
				return fmt.Errorf("--lost %s: expected %s or %s", what.Lost, pipeline.RestoreLost, pipeline.DropLost)
			case len(args)+len(what.Sources)+len(what.Keys) == 0 && what.Lost == "":
				return errors.New("expected rows, --source, --key or --lost")
			}
			for _, arg := range args {
				if read, ok := pipeline.ParseSourceRows(c.Examples.FromTopic, arg); ok {
					what.Read = append(what.Read, read)
					continue
				}
				r, err := pipeline.ParseRows(run.TopicsOf(c.Name).Examples, arg)
				if err != nil {
					return err
				}
				what.Rows = append(what.Rows, r)
			}
			return failed(withPipeline(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
				done, err := pipeline.Forget(cmd.Context(), log, c.Job(), what)
				if done != nil {
					err = errors.Join(err, writeForgot(cmd.OutOrStdout(), done, what.Now))
				}
				return err
			}))
		},
	}
	from.add(cmd)
	cmd.Flags().StringArrayVar(&what.Sources, "source", nil, "all rows of a source: its id, or the first digits; sources list has the ids")
	cmd.Flags().StringArrayVar(&what.Keys, "key", nil, "all rows of the messages with this key, on the examples topic or on the topic that ingest has read them from")
	cmd.Flags().StringVar(&what.Lost, "lost", "", "what to do when the forget topic has lost rows: restore those that versions name, or drop, which lets runs learn them")
	cmd.Flags().BoolVar(&what.Now, "now", false, "remove the versions first, even the one that subscribers get as latest")
	return cmd
}

// writeForgot writes what was forgotten, what becomes of the versions, and how long the rest stays.
func writeForgot(w io.Writer, done *pipeline.Forgot, now bool) error {
	fmt.Fprintf(w, "%s of %s are forgotten\n", english.Plural(int(done.Rows), "row", ""), english.Plural(int(done.Messages), "message", ""))
	if done.Unknown > 0 {
		fmt.Fprintf(w, "%s may have others: an earlier program has ingested them and kept no keys and offsets. Name their rows\n", english.Plural(int(done.Unknown), "message", ""))
	}
	if len(done.Removed) > 0 {
		fmt.Fprintf(w, "versions that had learnt from forgotten rows are removed: %s\n", listOf(done.Removed))
	}
	for _, c := range done.Compacts {
		when := "once something is written there after its segment.ms"
		if c.After > 0 {
			when = fmt.Sprintf("with the first compaction after a message that is written there from %s on", date(time.Now().Add(c.After)))
		}
		fmt.Fprintf(w, "%s: what these versions were made of goes from the brokers' disks %s\n", c.Topic, when)
	}
	switch {
	case len(done.Learnt) == 0:
	case now:
		fmt.Fprintf(w, "versions that have learnt from forgotten rows stay, as unfinished runs need them: %s; run removes them after its next version\n", listOf(done.Learnt))
	default:
		fmt.Fprintf(w, "versions that have learnt from forgotten rows: %s; train or run removes them after its next version, --now at once\n", listOf(done.Learnt))
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range done.Stays {
		until := "for ever"
		if !s.Until.IsZero() {
			until = "until " + date(s.Until) + " at the latest"
		}
		fmt.Fprintf(table, "%s\t%s stay %s\n", s.Topic, s.What, until)
	}
	return table.Flush()
}

// listOf lists numbers for people.
func listOf(list []int) string {
	var texts []string
	for _, n := range list {
		texts = append(texts, strconv.Itoa(n))
	}
	return strings.Join(texts, ", ")
}
