package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/preview"
	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
)

func newCheck() *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "check -c FILE", Short: "Show what train would do, and report errors in the configuration and the files", Args: cobra.NoArgs,
		Example: "  stagewise check -c digits.yaml",
		RunE: from.run(func(cmd *cobra.Command, _ []string, c *config.Config) error {
			blas, err := openBLAS()
			if err != nil {
				return err
			}
			return failed(errors.Join(preview.Write(cmd.Context(), cmd.OutOrStdout(), c, blas), checkTopics(cmd.Context(), cmd.OutOrStdout(), c)))
		}),
	}
	from.add(cmd)
	return cmd
}

// reachTimeout is how long check waits for brokers.
const reachTimeout = 10 * time.Second

// checkTopics writes how the topics that exist differ from the configuration. It returns an error for those that delete
// what must stay. Without brokers, or if none can be reached, it says nothing of them.
func checkTopics(ctx context.Context, w io.Writer, c *config.Config) error {
	if len(c.Brokers) == 0 { // the embedded broker: it would lock the data directory, or make it
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	var found *topics.Settings
	var covered []string
	err := withLog(ctx, c, event.Ignore{}, func(log *kafkalog.Log) (err error) {
		p := topics.OpenFor(log, c.Job(), nil)
		if found, err = topics.ReadSettings(ctx, p, c.Job()); err == nil && p.Remade != nil {
			covered, err = coveredBy(ctx, p)
		}
		return err
	})
	if err != nil {
		_, err = fmt.Fprintf(w, "\nexisting topics are not compared with the configuration: %v\n", err)
		return err
	}
	for _, line := range covered {
		fmt.Fprintln(w, line)
	}
	return errors.Join(append([]error{screen.WriteDifferences(w, found.Differences)}, found.Wrong...)...)
}

// coveredBy returns lines with the offsets of the examples and of the topic from which expired ones are made again; none if the
// topics are not there yet.
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
