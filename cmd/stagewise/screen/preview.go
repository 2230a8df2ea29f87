package screen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// WritePreview writes what train would do. It returns an error for each missing file, or else for each column that
// train would reject, and one for a chain whose state would exceed its limit.
func WritePreview(ctx context.Context, w io.Writer, c *config.Config, blas *kernel.BLAS) error {
	var table Table
	table.Row("pipeline", fmt.Sprintf("%s on %s", c.Name, Brokers(c)))
	table.Row("arithmetic", fmt.Sprintf("%s, %s", blas.Name(), blas.Vector()))
	if hint := blas.Hint(); hint != "" {
		table.Row("", hint)
	}
	memory := "half of the free memory"
	if c.Memory > 0 {
		memory = c.Memory.String()
	}
	table.Row("memory", memory)

	train, missingTrain := checkFiles("train", c.Examples.Train)
	test, missingTest := checkFiles("test", c.Examples.Test)
	width := 0
	files, wrong := slices.Concat(train, test), errors.Join(slices.Concat(missingTrain, missingTest)...)
	if len(files) == 0 {
		uses := "none; train uses the examples on the topic"
		if topic := c.Examples.Topic; topic != "" {
			uses = "none; train uses the examples on " + topic + " (read-only)"
		}
		if from := c.Examples.From; len(from) > 0 {
			uses += ", from " + strings.Join(from, ", ") + " on"
		}
		if to := c.Examples.To; len(to) > 0 {
			uses += ", before " + strings.Join(to, ", ")
		}
		files = []string{uses}
		if topic := c.Examples.FromTopic; topic != "" {
			files = append(files, "the topic "+topic+" is ingested")
			_, wrong = ingest.NewValues(c.Examples) // which reads the schema and the files of the registry's keys
			if archived := c.Examples.Archive.Files; archived != "" && wrong == nil {
				files = append(files, "its earlier messages are in the archive "+archived)
				_, wrong = c.Examples.OpenArchive(ctx)
			}
		}
	}
	section(&table, "files", files)
	section(&table, "outcomes", checkOutcomes(c))
	section(&table, "retention", checkRetention(c.Job()))
	if wrong == nil {
		var whole bool
		if width, whole, wrong = checkRows(ctx, c); width > 0 {
			section(&table, "features", []string{strconv.Itoa(width)})
		}
		if !whole {
			section(&table, "rows", []string{"only the first rows were read: check stops there"})
		}
	}
	var topicNames []string
	for _, t := range topics.Topics(c.Job()) {
		topicNames = append(topicNames, fmt.Sprintf("%s (%d)", t.Name, t.Partitions))
	}
	section(&table, "topics", topicNames)
	section(&table, "prepare", preparation(c))
	section(&table, "cost", costs(c, width))
	retrain, tooMuch := checkRetrain(c, width)
	section(&table, "retrain", append([]string{retrain}, checkGate(c)...))
	table.Write(w)
	writeStages(w, c.Stages)
	if c.Average > 1 {
		fmt.Fprintf(w, "\n%d models of these stages are trained and averaged\n", c.Average)
	}
	return errors.Join(wrong, tooMuch, checkMatrices(c, width))
}

// checkMatrices returns an error if the matrices of sparse rows of width columns exceed the configured memory. With
// prepare.min_rows, only the survey of a run finds the number of kept columns, so it returns nil.
func checkMatrices(c *config.Config, width int) error {
	if c.Memory == 0 || c.Prepare.MinRows > 1 || !slices.ContainsFunc(c.Job().Stages, onlySparse) {
		return nil
	}
	return protocol.CheckSparse(int64(c.Memory), int64(width), int64(max(len(c.Examples.Classes)+len(c.Examples.Targets), 1)), true)
}

// onlySparse reports whether a stage supports only sparse rows.
func onlySparse(s schemas.Stage) bool { return stages.KindOf(s.Features).OnlySparse }

// checkOutcomes returns lines about the rows that wait for later labels; nil without such labels.
func checkOutcomes(c *config.Config) []string {
	o := c.Examples.Outcome
	if o.Topic == "" {
		return nil
	}
	const rate, size = 1000, 1000 // round numbers, which are easy to scale to another topic
	rows, bytes := o.Waiting(rate, size)
	return []string{
		fmt.Sprintf("rows of %s wait for %s at most for an outcome on %s", c.Examples.FromTopic, o.Within, o.Topic),
		fmt.Sprintf("with %s rows a second in messages of %s, %s rows wait, and take %s: %s in memory, the rest in %s", humanize.Comma(rate),
			amount(size), humanize.Comma(rows), amount(bytes), o.Memory, c.DataDir),
	}
}

// checkRetention returns a line that says how long the rows of a followed topic stay on the examples topic too; nil if
// no topic is followed.
func checkRetention(job topics.Job) []string {
	from, after := job.Examples.FromTopic, job.Topics.Retention.Examples
	switch {
	case from == "":
		return nil
	case after == 0:
		return []string{"examples are a second copy of the rows of " + from + ", forever: topics.retention.examples"}
	case job.Remakes():
		return []string{fmt.Sprintf("examples expire after %v, and are made again from %s as long as it has their messages", after, from)}
	}
	return []string{fmt.Sprintf("examples expire after %v: those with outcomes can't be made again", after)}
}

// checkRetrain returns a line about the size of a chain's state on the state topic, and an error if that exceeds its
// limit and the configuration sets keys of a chain. width is the number of raw features; 0: not known.
func checkRetrain(c *config.Config, width int) (string, error) {
	job, classes := c.Job(), len(c.Examples.Classes)+len(c.Examples.Targets)
	switch {
	case c.Average > 1:
		return "run does not support averaging", nil
	case len(job.Stages) == 0:
		return "run chooses the stages by the rows of the first version", nil
	}
	if problems := c.CheckChained(); len(problems) > 0 {
		return unsupported(c, problems[0])
	}
	if why := topics.AlwaysFull(job.Stages); why != "" {
		return fmt.Sprintf("every version of a chain is full, as %s: updates are not possible", why), nil
	}
	if c.Examples.Text != "" || slices.ContainsFunc(job.Stages, onlySparse) {
		if problems := model.CheckOccurring(model.Chained(job.Stages)); len(problems) > 0 {
			return unsupported(c, problems[0])
		}
		return fmt.Sprintf("8 bytes for each class and column that occurs in an increment, and stage, on %s", state(c)), nil
	}
	columns := columnsOf(c, width)
	if len(columns) == 0 {
		return "the state of a chain on " + state(c) + " depends on the number of features, which is not known yet", nil
	}
	each := ""
	if classes == 0 {
		classes, each = 1, " and class"
	}
	size := c.Retrain.StateSize(columns, classes)
	text := fmt.Sprintf("%s for each increment%s, and %s for a snapshot, on %s", amount(size.Increment), each,
		amount(size.Grams), state(c))
	switch {
	case size.Increments == 0 && c.Retrain.Decay == 1:
		text += "; retrain.window does not limit increments: adjacent ones are merged when topics.state is full"
	case size.Increments == 0:
		text += "; retrain.window does not limit increments, and retrain.decay prevents merging: the oldest are dropped when " +
			"topics.state is full"
	case each == "":
		text += fmt.Sprintf("; %s with %d increments", amount(size.Total()), size.Increments)
	default:
		text += fmt.Sprintf("; at most %d increments", size.Increments)
	}
	if each != "" {
		size = c.Retrain.StateSize(columns, 2) // at least two classes
	}
	if size.Total() <= int64(c.Topics.State) {
		return text, nil
	}
	if c.Retrain == topics.DefaultRetrain() && c.Topics.State == topics.DefaultTopics().State {
		return text + ": more than topics.state, which limits only stagewise run", nil
	}
	return text, option.Problem{
		Key: "topics.state", Value: c.Topics.State.String(),
		Want: fmt.Sprintf("at least %s, for a snapshot and the increments of the window: fewer or smaller stages, a shorter "+
			"retrain.window or more retrain.rows need less", amount(size.Total())),
	}
}

// preparation returns lines that say how rows are prepared.
func preparation(c *config.Config) []string {
	job, lines := c.Job(), []string{Preparation(c.Prepare.Prepare)}
	if h := job.Examples.Hashes(); h.Columns > 0 {
		line := fmt.Sprintf("words of %s hashed to %s columns", strings.Join(c.Examples.Categorical, ", "), humanize.Comma(int64(h.Columns)))
		for _, cross := range h.Cross {
			line += ", and " + strings.Join(cross, " with ")
		}
		lines = append(lines, line)
	}
	if job.Untuned && len(job.Stages) > 0 {
		lines = append(lines, "of sparse rows, train, run and search choose values, idf, scale, ridge and passes by held-out rows")
	}
	return lines
}

// unsupported returns a line that says that a chain does not support the stages. The reason is a part of the line, or
// an error if the configuration sets keys of a chain.
func unsupported(c *config.Config, problem option.Problem) (string, error) {
	if c.Retrain == topics.DefaultRetrain() {
		return fmt.Sprintf("run does not support these stages: %v", problem), nil
	}
	return "run does not support these stages", problem
}

// state returns the name of the state topic.
func state(c *config.Config) string { return protocol.TopicsOf(c.Name).State }

// section writes lines, with a title before the first.
func section(table *Table, title string, lines []string) {
	for _, line := range lines {
		table.Row(title, line)
		title = ""
	}
}

// checkGate returns a line with the number of rows on which an update compares versions; nil if no rows are held out,
// if producers choose them, or without updates.
func checkGate(c *config.Config) []string {
	rows := c.Retrain.GateRows(c.Examples.Holdout)
	if rows == 0 || topics.AlwaysFull(c.Job().Stages) != "" {
		return nil
	}
	text := fmt.Sprintf("an update compares versions on about %s holdout rows", humanize.Comma(rows))
	if rows < topics.EnoughGateRows {
		text += fmt.Sprintf("; with fewer than %s, the gate withholds less than 90 %% of the versions whose loss is 10 %% higher: "+
			"increase examples.holdout, retrain.rows or retrain.refresh", humanize.Comma(topics.EnoughGateRows))
	}
	return []string{text}
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
			info, err := os.Stat(file)
			switch {
			case file == ingest.StandardInput:
				file = "standard input"
			case err != nil:
				missing = append(missing, fmt.Errorf("examples.%s: %w", split, err))
				file += " (missing)"
			case info.IsDir():
				file += " (a folder of images)"
			default:
				file = fmt.Sprintf("%s (%s)", file, amount(info.Size()))
			}
			lines = append(lines, split+": "+file)
		}
	}
	return lines, missing
}

// checkRows reads the files as train would, but only the first rows of large ones. It returns the number of features, 0
// if unknown, whether it read all rows, and an error for each column that train would reject. It skips the standard
// input, which it would consume.
func checkRows(ctx context.Context, c *config.Config) (width int, whole bool, err error) {
	o := c.Job().Examples
	if o.FindsWords() && slices.Contains(o.Train, ingest.StandardInput) {
		return 0, true, nil // the words of the files to train on are features
	}
	isInput := func(name string) bool { return name == ingest.StandardInput }
	o.Train, o.Test = slices.DeleteFunc(slices.Clone(o.Train), isInput), slices.DeleteFunc(slices.Clone(o.Test), isInput)
	sources, whole, troubles := ingest.Troubles(ctx, o)
	if len(troubles) > 0 || len(sources) == 0 {
		return 0, true, errors.Join(troubles...)
	}
	width = sources[0].Width // the same for all sources
	return width, whole, solve.CheckWidth(c.Prepare.PCA, width)
}

const (
	// costRows is the number of rows for which the preview states the cost.
	costRows = 1_000_000
	// costClasses is the number of classes that it assumes if the configuration has none.
	costClasses = 10
)

// Nanoseconds of a core, fitted to the runs in docs/scaling.md.
const (
	perValue    = 10    // for each value of a row: decoded, written, read, surveyed
	perMoment   = 0.014 // for each value of a p × p matrix that a row is added to
	perInput    = 0.027 // for each pair of an input and a feature of a row
	perFeature  = 0.2   // for each feature of a row in a visit
	perGradient = 0.036 // for each feature, class and visit: the score and the cross moment
	// perPartition is for each partition and stage, on a disk: separate sums and their merges, and three requests.
	perPartition = 500_000
)

// cost is what a run writes and computes, by the formulas of docs/scaling.md.
type cost struct {
	grams     int64   // bytes of Gram matrices that a worker with whole groups of partitions writes
	gradients int64   // bytes of sums that it writes in all visits
	residuals int64   // bytes of scores and residuals
	seconds   float64 // of one core, in addition to those of a run without rows
}

// costOf returns the cost of the given number of rows in stages with the given numbers of columns. The rows have width
// features, which become inputs, and k classes. If pca is set, the inputs are principal components.
func costOf(rows int64, list []schemas.Stage, columns []int, width, inputs int, pca bool, k int) (c cost) {
	row := perValue * float64(width) // nanoseconds
	if pca {
		row += perMoment * float64(width) * float64(width)
	}
	for t, s := range list {
		p, visits := int64(columns[t]), int64(s.Passes+1)
		c.grams += 4 * p * p
		c.gradients += 8 * p * int64(k) * visits
		c.residuals += rows * 8 * int64(k)
		part := float64(solve.GramRows(s, columns[t], false, rows)) / float64(rows) // fraction of the rows in the Gram matrix
		row += float64(p) * (perMoment*float64(p)*part + perInput*float64(inputs) + (perFeature+perGradient*float64(k))*float64(visits))
	}
	c.seconds = row * float64(rows) / 1e9
	return c
}

// costs returns lines with the cost of a run; nil if its stages have no formula: the cost of stages on sparse rows and
// of trees depends on the values of the rows.
func costs(c *config.Config, width int) []string {
	list, columns := c.Job().Stages, columnsOf(c, width)
	if c.Examples.Text != "" || len(columns) == 0 || slices.ContainsFunc(list, func(s schemas.Stage) bool {
		return onlySparse(s) || stages.KindOf(s.Features).Grown
	}) {
		return nil
	}
	k, of := len(c.Examples.Classes)+len(c.Examples.Targets), ""
	if k == 0 {
		k, of = costClasses, fmt.Sprintf(" of %d classes", costClasses)
	}
	run, names := costOf(costRows, list, columns, width, inputsOf(c, width), c.Prepare.PCA > 0, k), protocol.TopicsOf(c.Name)
	lines := []string{
		fmt.Sprintf("a worker writes %s of Gram matrices and %s of gradients%s to %s", amount(run.grams), amount(run.gradients), of,
			names.Statistics),
		fmt.Sprintf("a million rows write %s to %s", amount(run.residuals), names.Residuals),
	}
	if width > 0 && !slices.ContainsFunc(list, func(s schemas.Stage) bool { return stages.KindOf(s.Features).Learns() }) {
		lines[1] += fmt.Sprintf(", and take about %s core-seconds", humanize.Comma(int64(math.Ceil(run.seconds))))
		if n := c.Job().Examples.Partitions; n > 0 {
			if more := perPartition * float64(n*len(list)) / 1e9; more >= 1 {
				lines[1] += fmt.Sprintf("; %s partitions add about %s", humanize.Comma(int64(n)), humanize.Comma(int64(math.Ceil(more))))
			}
		}
	}
	return lines
}

// inputsOf returns the number of inputs of rows with width features.
func inputsOf(c *config.Config, width int) int {
	if c.Prepare.PCA > 0 {
		return c.Prepare.PCA
	}
	return width
}

// columnsOf returns the number of columns of each stage. It returns nil if a number depends on the number of features,
// width, which is 0 if it is unknown.
func columnsOf(c *config.Config, width int) (columns []int) {
	for t, s := range c.Job().Stages {
		p := cmp.Or(s.Features.Size, inputsOf(c, width))
		if p == 0 {
			return nil
		}
		if t == 0 && c.Intercept {
			p++
		}
		columns = append(columns, p)
	}
	return columns
}
