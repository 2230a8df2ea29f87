package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

func newCheck() *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "check -c FILE", Short: "Show what train would do, or what is wrong with the configuration and the files", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			if err := c.CheckStages(); err != nil {
				return err
			}
			blas, err := openBLAS()
			if err != nil {
				return err
			}
			return failed(check(cmd.Context(), cmd.OutOrStdout(), c, blas))
		},
	}
	from.add(cmd)
	return cmd
}

// check writes what train would do. It returns an error for each file that is missing, or else for the first that train would refuse
// by its first rows, and for topics that delete what must stay. Without brokers, or if none can be reached, it says nothing of the topics
// that exist.
func check(ctx context.Context, w io.Writer, c *config.Config, blas *kernel.BLAS) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "pipeline\t%s on %s\n", c.Name, brokers(c))
	fmt.Fprintf(table, "arithmetic\t%s, %s\n", blas.Name(), blas.Vector())
	if hint := blas.Hint(); hint != "" {
		fmt.Fprintf(table, "\t%s\n", hint)
	}
	memory := "half of the free memory"
	if c.Memory > 0 {
		memory = c.Memory.String()
	}
	fmt.Fprintf(table, "memory\t%s\n", memory)

	train, missingTrain := checkFiles("train", c.Examples.Train)
	test, missingTest := checkFiles("test", c.Examples.Test)
	width := 0
	files, wrong := slices.Concat(train, test), errors.Join(slices.Concat(missingTrain, missingTest)...)
	if len(files) == 0 {
		files = []string{"none; train uses the examples on " + examplesTopic(c) + bounds(c.Examples)}
		if topic := c.Examples.FromTopic; topic != "" {
			files = append(files, "ingest follows the topic "+topic)
		}
	}
	section(table, "files", files)
	if wrong == nil {
		if width, wrong = checkRows(ctx, c); width > 0 {
			section(table, "features", []string{strconv.Itoa(width)})
		}
	}
	var topics []string
	for _, t := range pipeline.Topics(c.Job()) {
		topics = append(topics, fmt.Sprintf("%s (%d)", t.Name, t.Partitions))
	}
	section(table, "topics", topics)
	section(table, "prepare", []string{preparation(c.Prepare)})
	retrain, tooMuch := checkRetrain(c, width)
	section(table, "retrain", []string{retrain})
	if err := table.Flush(); err != nil {
		return err
	}

	rows := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "\nstage\tfeatures\tlink\tpasses\tridge\tmethod\tgram rows\tstop")
	first := 1
	for _, s := range c.Stages {
		fmt.Fprintf(rows, "%s\t%s\t%s\t%d\t%v\t%s\t%s\t%s\n",
			numbers(first, s.Repeat), features(s.Stage), s.Link, s.Passes, s.Ridge, s.Method, s.GramRows, stop(s.Stop))
		first += s.Repeat
	}
	if err := rows.Flush(); err != nil {
		return err
	}
	if c.Average > 1 {
		fmt.Fprintf(w, "\n%d models of these stages are trained and averaged\n", c.Average)
	}
	return errors.Join(wrong, tooMuch, checkTopics(ctx, w, c))
}

// reachTimeout is how long check waits for brokers.
const reachTimeout = 10 * time.Second

// checkTopics writes how the topics that exist differ from the configuration. It returns an error for those that delete what must stay.
func checkTopics(ctx context.Context, w io.Writer, c *config.Config) error {
	if len(c.Brokers) == 0 { // the embedded broker: it would lock the data directory, or make it
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	var found *pipeline.Settings
	err := withLog(ctx, c, event.Ignore{}, func(log *kafkalog.Log) (err error) {
		found, err = pipeline.ReadSettings(ctx, log, c.Job())
		return err
	})
	if err != nil {
		_, err = fmt.Fprintf(w, "\nthe topics that exist are not compared with the configuration: %v\n", err)
		return err
	}
	return errors.Join(append([]error{writeDifferences(w, found.Differences)}, found.Wrong...)...)
}

// examplesTopic says which topic a run reads.
func examplesTopic(c *config.Config) string {
	if c.Examples.Topic != "" {
		return c.Examples.Topic + ", which it only reads"
	}
	return "the topic"
}

// bounds says where a run of a topic begins and ends, if the options say so.
func bounds(o ingest.Options) (text string) {
	if len(o.From) > 0 {
		text += ", from " + strings.Join(o.From, ", ") + " on"
	}
	if len(o.To) > 0 {
		text += ", before " + strings.Join(o.To, ", ")
	}
	return text
}

// checkRetrain returns a line that says what a chain of versions keeps on the state topic, and an error if that is more than it may keep and
// the configuration says anything about a chain. width is the number of raw features; 0: not known.
func checkRetrain(c *config.Config, width int) (string, error) {
	job, classes := c.Job(), len(c.Examples.Classes)+len(c.Examples.Targets)
	if c.Average > 1 {
		return "run does not average models yet", nil
	}
	if why := pipeline.AlwaysFull(job.Stages); why != "" {
		return fmt.Sprintf("every version of a chain is full, as %s: no update can go on from it", why), nil
	}
	if c.Prepare.PCA > 0 {
		width = c.Prepare.PCA
	}
	var columns []int
	for t, s := range job.Stages {
		p := s.Features.Size
		if p == 0 {
			p = width
		}
		if p == 0 {
			return "what a chain keeps on " + state(c) + " depends on the number of features, which is not known yet", nil
		}
		if t == 0 && c.Intercept {
			p++
		}
		columns = append(columns, p)
	}
	each := ""
	if classes == 0 {
		classes, each = 1, " and class"
	}
	size := c.Retrain.StateSize(columns, classes)
	text := fmt.Sprintf("%s for each increment%s, and %s for a snapshot, on %s", amount(size.Increment), each, amount(size.Snapshot), state(c))
	switch {
	case size.Increments == 0 && c.Retrain.Decay == 1:
		text += "; retrain.window sets no number of increments, so neighbours are merged where topics.state has no room for all"
	case size.Increments == 0:
		text += "; retrain.window sets no number of increments, and with retrain.decay none can be merged"
	case each == "":
		text += fmt.Sprintf("; %s with %d increments", amount(size.Total()), size.Increments)
	default:
		text += fmt.Sprintf("; at most %d increments", size.Increments)
	}
	if each != "" {
		size = c.Retrain.StateSize(columns, 2) // there are at least so many
	}
	if size.Total() <= int64(c.Topics.State) {
		return text, nil
	}
	if c.Retrain == pipeline.DefaultRetrain() && c.Topics.State == pipeline.DefaultTopics().State {
		return text + ": more than topics.state, which matters for stagewise run", nil
	}
	return text, schemas.Problem{
		Key: "topics.state", Value: c.Topics.State.String(),
		Want: fmt.Sprintf("at least %s, for a snapshot and the increments of the window: fewer or smaller stages, a shorter retrain.window or more retrain.rows need less", amount(size.Total())),
	}
}

// state returns the name of the state topic.
func state(c *config.Config) string { return run.TopicsOf(c.Name).State }

// amount formats a number of bytes, such as 42 MB.
func amount(bytes int64) string { return humanize.Bytes(uint64(bytes)) }

// section writes a title with its lines: the title stands before the first.
func section(w io.Writer, title string, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(w, "%s\t%s\n", title, line)
		title = ""
	}
}

// checkFiles returns a line for each file of a split, and an error for each file that can't be read.
func checkFiles(split string, names []string) (lines []string, missing []error) {
	for _, name := range names {
		files, err := ingest.Files([]string{name})
		if err != nil {
			missing = append(missing, fmt.Errorf("examples.%s: %w", split, err))
			lines = append(lines, fmt.Sprintf("%s: %s (no file matches)", split, name))
		}
		for _, file := range files {
			line, err := checkFile(file)
			if err != nil {
				missing = append(missing, fmt.Errorf("examples.%s: %w", split, err))
			}
			lines = append(lines, split+": "+line)
		}
	}
	return lines, missing
}

// checkFile returns a line for a file, and an error if it can't be read.
func checkFile(file string) (string, error) {
	if file == ingest.StandardInput {
		return "standard input", nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return file + " (missing)", err
	}
	if info.IsDir() {
		return file + " (a directory)", fmt.Errorf("%s is a directory", file)
	}
	return fmt.Sprintf("%s (%s)", file, humanize.Bytes(uint64(info.Size()))), nil
}

// checkRows opens the files, and reads their first rows as train would. It returns how many features they have, and an error if
// train would refuse them; 0 if that can't be known. It leaves out the standard input, which it would use up.
func checkRows(ctx context.Context, c *config.Config) (width int, err error) {
	o := c.Examples
	if o.FindsWords() && slices.Contains(o.Train, ingest.StandardInput) {
		return 0, nil // the words of the files to train on are features
	}
	isInput := func(name string) bool { return name == ingest.StandardInput }
	o.Train, o.Test = slices.DeleteFunc(slices.Clone(o.Train), isInput), slices.DeleteFunc(slices.Clone(o.Test), isInput)
	sources, err := ingest.Inspect(ctx, o)
	if err != nil || len(sources) == 0 {
		return 0, err
	}
	width = sources[0].Width // that of all
	return width, solve.CheckWidth(c.Prepare.PCA, width)
}

func preparation(p schemas.Prepare) string {
	text := "scale " + p.Scale
	if p.PCA > 0 {
		text += fmt.Sprintf(", %d principal components", p.PCA)
	}
	if p.MinRows > 1 {
		text += fmt.Sprintf(", columns of %d rows or more", p.MinRows)
	}
	if p.Values != "" && p.Values != stages.ValuesNone {
		text += ", values " + p.Values
	}
	if p.IDF > 0 {
		text += fmt.Sprintf(", idf %g", p.IDF)
	}
	return text
}

// numbers returns the range of the stages that one entry of the configuration stands for.
func numbers(first, count int) string {
	if count == 1 {
		return strconv.Itoa(first)
	}
	return fmt.Sprintf("%d-%d", first, first+count-1)
}

func features(s schemas.Stage) string {
	text := stages.Describe(s.Features)
	if s.Scores {
		text += " and scores"
	}
	return text
}

func stop(s *schemas.Stop) string {
	if s == nil {
		return none
	}
	return fmt.Sprintf("%s, patience %d", s.Split, s.Patience)
}
