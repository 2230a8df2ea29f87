// Package deletion prepares the deletion of topics: it lists those that exist, finds processes that work on them, and asks for
// confirmation.
package deletion

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/cmd/stagewise/artifact"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

// Topic is a topic that exists, and how many offsets it has.
type Topic struct {
	Name     string
	Messages int64
}

// Existing returns those of the topics of a pipeline that exist.
func Existing(ctx context.Context, log *kafkalog.Log, pipeline string, names []string) (found []Topic, err error) {
	client := protocol.NewClient(log, pipeline, nil)
	for _, name := range names {
		exists, err := log.Exists(ctx, name)
		if err != nil {
			return nil, err
		}
		if !exists {
			continue
		}
		spans, err := client.Log.Spans(ctx, name)
		if err != nil {
			return nil, err
		}
		t := Topic{Name: name}
		for _, s := range spans {
			t.Messages += s.Len()
		}
		found = append(found, t)
	}
	return found, nil
}

// CheckNobodyWorks returns an error if a process works on a pipeline, or nobody can say whether one does.
func CheckNobodyWorks(ctx context.Context, log *kafkalog.Log, pipeline string, brokers []string) error {
	if log.Embedded() { // no other process has it
		return nil
	}
	embedded, err := log.IsEmbedded(ctx)
	if err != nil {
		return err
	}
	if embedded {
		return fmt.Errorf("nothing is deleted: the process at %s, which runs the embedded broker, works on %s: stop it and leave out "+
			"brokers, or use --force", strings.Join(brokers, ", "), pipeline)
	}
	t := protocol.TopicsOf(pipeline)
	var working []string
	for _, role := range []struct{ name, group string }{
		{protocol.RoleIngest, t.Ingesters()}, {protocol.RoleRun, t.Runners()}, {protocol.RoleWork, t.Workers()}, {protocol.RoleSolve,
			t.Solvers()}, {protocol.RoleScore, t.Scorers()},
	} {
		hosts, err := log.Members(ctx, role.group)
		if err != nil {
			return fmt.Errorf("nothing is deleted: the processes that work on %s are unknown: %w; --force deletes anyway", pipeline, err)
		}
		if len(hosts) > 0 {
			working = append(working, fmt.Sprintf("stagewise %s on %s", role.name, english.WordSeries(hosts, "and")))
		}
	}
	if len(working) > 0 {
		return fmt.Errorf("nothing is deleted: %s works on %s: stop it, or use --force", english.WordSeries(working, "and"), pipeline)
	}
	return nil
}

// Ask shows what goes, and returns an error unless the answer is yes.
func Ask(ctx context.Context, in io.Reader, w io.Writer, found []Topic) error {
	var table artifact.Table
	for _, t := range found {
		table.Row(t.Name, english.Plural(int(t.Messages), "message", ""))
	}
	if err := table.Write(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "Permanently delete %s? (y/N) ", english.PluralWord(len(found), "this topic", fmt.Sprintf("these %d topics", len(found))))
	answers := make(chan string, 1)
	go func() { // it ends with the answer, or with the process, which an interruption ends
		answer, _ := bufio.NewReader(in).ReadString('\n') // what can't be read is no yes
		answers <- answer
	}()
	select {
	case answer := <-answers:
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			return nil
		}
		return errors.New("nothing is deleted; --yes deletes without confirmation")
	case <-ctx.Done():
		return ctx.Err()
	}
}
