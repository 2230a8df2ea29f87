package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
)

func newInit() *cobra.Command {
	var (
		label, name   string
		force, header bool
	)
	output := "stagewise.yaml"
	o := ingest.Defaults()
	cmd := &cobra.Command{
		Use: "init FILE --label COLUMN", Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Label = layout.Column(label); cmd.Flags().Changed("header") {
				o.Header = &header
			}
			if _, err := os.Lstat(output); err == nil && output != screen.StandardOutput && !force {
				return fmt.Errorf("write %s: it exists: expected --force, or another file with -o", output)
			}
			if args[0] == ingest.StandardInput {
				return errors.New("expected a file: a configuration that names the standard input can be used once")
			}
			for _, p := range o.Check() {
				p.Key = "--" + strings.ReplaceAll(p.Key, "_", "-")
				return p
			}
			table := screen.NewColumns(o.MissingValues)
			if err := ingest.Survey(cmd.Context(), args[0], o, table); err != nil {
				return failed(err)
			}
			d, err := screen.NewDraft(args[0], output, o, table)
			if err != nil {
				return err
			}
			if name == "" {
				name = screen.DraftName(args[0])
			}
			from := strings.Join([]string{"stagewise init", args[0], "--label", label}, " ")
			err = screen.Write(output, cmd.OutOrStdout(), func(w io.Writer) error {
				d.Configuration(w, name, from)
				return nil
			})
			if err != nil {
				return failed(err)
			}
			if output == screen.StandardOutput {
				d.Describe(cmd.ErrOrStderr())
				return nil
			}
			d.Describe(cmd.OutOrStdout())
			fmt.Fprintf(cmd.OutOrStdout(), "\nwrote %s; next: stagewise train -c %[1]s --model %s.model\n", output, name)
			return nil
		},
	}
	cmd.Flags().StringVar(&label, "label", "", "the `column` to predict, by its name or its number from 0")
	addOutput(cmd, &output, "output", "o", "write the configuration to a `file` (-: standard output)")
	cmd.Flags().BoolVar(&force, "force", false, "replace the file if it exists")
	cmd.Flags().StringVar(&name, "name", "", "`name` of the pipeline; default: the name of the file")
	cmd.Flags().StringVar(&o.Format, "format", "", "`format` of the file; default: detected from its name or first bytes")
	cmd.Flags().StringVar(&o.Delimiter, "delimiter", "", "field delimiter `character`; default: detected from the first rows")
	cmd.Flags().StringVar(&o.Encoding, "encoding", "", "the `name` of the text encoding, such as latin-1")
	cmd.Flags().BoolVar(&header, "header", false, "the first row has the column names; default: true if --label is a name")
	cmd.Flags().StringSliceVar(&o.MissingValues, "missing-values", o.MissingValues, "`words` for a missing value, in addition to an "+
		"empty cell")
	return cmd
}

func newCheck() *cobra.Command {
	return new(configFlags).command("check -c FILE", cobra.NoArgs, nil, func(c *call) error {
		blas, err := openBLAS()
		if err != nil {
			return err
		}
		ctx, out := c.Context(), c.OutOrStdout()
		return failed(errors.Join(screen.WritePreview(ctx, out, c.config, blas), checkTopics(ctx, out, c.config)))
	})
}

// reachTimeout is the time that check waits for brokers.
const reachTimeout = 10 * time.Second

// checkTopics writes the differences between existing topics and the configuration. It returns an error for topics that
// delete data that must stay. It does nothing without brokers; if none can be reached, it only says so.
func checkTopics(ctx context.Context, w io.Writer, c *config.Config) error {
	if len(c.Brokers) == 0 { // the embedded broker: it would lock the data directory, or make it
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	var found *topics.Settings
	var covered, differing []string
	var run string
	err := withLog(ctx, c, nil, func(log *kafkalog.Log) (err error) {
		p := topics.OpenFor(log, c.Job(), nil)
		if found, err = topics.ReadSettings(ctx, p, c.Job()); err == nil && p.Remade != nil {
			covered, err = coveredBy(ctx, p)
		}
		isPlans := func(t kafkalog.Topic) bool { return t.Name == p.Topics.Plans }
		if err == nil && slices.ContainsFunc(found.Topics, isPlans) {
			run, differing, err = pipeline.Differing(ctx, p, c.Job())
		}
		return err
	})
	if err != nil {
		fmt.Fprintf(w, "\nexisting topics are not compared with the configuration: %v\n", err)
		return nil
	}
	for _, line := range covered {
		fmt.Fprintln(w, line)
	}
	if len(differing) > 0 {
		fmt.Fprintf(w, "\nthis configuration differs from that of run %s: %s\n", run, strings.Join(differing, ", "))
	}
	screen.WriteDifferences(w, found.Differences)
	return errors.Join(found.Wrong...)
}

// coveredBy returns lines with the offsets of the examples and of the topic from which expired examples are made again;
// nil if the topics do not exist yet.
func coveredBy(ctx context.Context, p *topics.Pipeline) ([]string, error) {
	var lines []string
	source, _ := p.Remade.Source()
	for _, of := range []struct {
		what, topic string
		log         protocol.Log
	}{
		{"%s has %s", p.Topics.Examples, p.Remade.Log}, {"%s has, or made again, %s", p.Topics.Examples, p.Log},
		{"%s has, with its archive if there is one, %s", source, p.Remade.Log},
	} {
		spans, err := of.log.Spans(ctx, of.topic)
		if errors.Is(err, kafkalog.ErrUnknownTopic) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprintf(of.what, of.topic, topics.Listed(spans)))
	}
	return lines, nil
}
