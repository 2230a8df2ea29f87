package preview

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages"
)

// arithmetic says what computes products of matrices, as a BLAS does.
type arithmetic interface {
	Name() string
	Vector() string // instructions
	Hint() string   // how to get a faster one; "": it is fast
}

// Write writes what train would do. It returns an error for each file that is missing, or else for each column that train would refuse,
// and one for a chain that would keep more than it may.
func Write(ctx context.Context, w io.Writer, c *config.Config, blas arithmetic) error {
	var table screen.Table
	table.Row("pipeline", fmt.Sprintf("%s on %s", c.Name, screen.Brokers(c)))
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
		files = []string{"none; train uses the examples on " + examplesTopic(c) + bounds(c.Examples)}
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
	if err := table.Write(w); err != nil {
		return err
	}

	if err := screen.WriteStages(w, c.Stages); err != nil {
		return err
	}
	if c.Average > 1 {
		fmt.Fprintf(w, "\n%d models of these stages are trained and averaged\n", c.Average)
	}
	return errors.Join(wrong, tooMuch, checkMatrices(c, width))
}

// checkMatrices returns an error if the matrices of sparse rows of that many columns exceed the configured memory. Unless all of them
// count, only the survey of a run tells how many do.
func checkMatrices(c *config.Config, width int) error {
	onlySparse := func(s schemas.Stage) bool { return stages.OnlySparse(s.Features) }
	if c.Memory == 0 || c.Prepare.MinRows > 1 || !slices.ContainsFunc(c.Job().Stages, onlySparse) {
		return nil
	}
	return protocol.CheckSparse(int64(c.Memory), int64(width), int64(max(len(c.Examples.Classes)+len(c.Examples.Targets), 1)), true)
}

// checkOutcomes returns lines that say what waits for labels that come later; none if there are none.
func checkOutcomes(c *config.Config) []string {
	o := c.Examples.Outcome
	if o.Topic == "" {
		return nil
	}
	const rate, size = 1000, 1000 // of a topic that is a round number of times larger or smaller
	rows, bytes := o.Waiting(rate, size)
	return []string{
		fmt.Sprintf("rows of %s wait for %s at most for an outcome on %s", c.Examples.FromTopic, o.Within, o.Topic),
		fmt.Sprintf("with %s rows a second in messages of %s, %s rows wait, and take %s: %s in memory, the rest in %s", humanize.Comma(rate),
			screen.Amount(size), humanize.Comma(rows), screen.Amount(bytes), o.Memory, c.DataDir),
	}
}

// checkRetention returns a line that says how long the rows of a followed topic are on the examples topic too; none if there is no
// such topic.
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

// examplesTopic says which topic a run reads.
func examplesTopic(c *config.Config) string {
	if c.Examples.Topic != "" {
		return c.Examples.Topic + " (read-only)"
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

// checkRetrain returns a line that says what a chain of versions keeps on the state topic, and an error if that is more
// than it may keep and the configuration says anything about a chain. width is the number of raw features; 0: not
// known.
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
	onlySparse := func(s schemas.Stage) bool { return stages.OnlySparse(s.Features) }
	if c.Examples.Text != "" || slices.ContainsFunc(job.Stages, onlySparse) {
		return checkSparse(c, job.Stages)
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
	text := fmt.Sprintf("%s for each increment%s, and %s for a snapshot, on %s", screen.Amount(size.Increment), each,
		screen.Amount(size.Grams), state(c))
	switch {
	case size.Increments == 0 && c.Retrain.Decay == 1:
		text += "; retrain.window does not limit increments: adjacent ones are merged when topics.state is full"
	case size.Increments == 0:
		text += "; retrain.window does not limit increments, and retrain.decay prevents merging: the oldest are dropped when " +
			"topics.state is full"
	case each == "":
		text += fmt.Sprintf("; %s with %d increments", screen.Amount(size.Total()), size.Increments)
	default:
		text += fmt.Sprintf("; at most %d increments", size.Increments)
	}
	if each != "" {
		size = c.Retrain.StateSize(columns, 2) // there are at least so many
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
			"retrain.window or more retrain.rows need less", screen.Amount(size.Total())),
	}
}

// preparation returns lines that say how rows are prepared.
func preparation(c *config.Config) []string {
	job, lines := c.Job(), []string{screen.Preparation(c.Prepare.Prepare)}
	if h := job.Examples.Hash(); h.Columns > 0 {
		line := fmt.Sprintf("words of %s hashed to %s columns", strings.Join(c.Examples.Categorical, ", "), humanize.Comma(int64(h.Columns)))
		for _, cross := range h.Cross {
			line += ", and " + strings.Join(cross, " with ")
		}
		lines = append(lines, line)
	}
	if job.Untuned {
		lines = append(lines, "of sparse rows, train, run and search choose values, idf, scale, ridge and passes by held-out rows")
	}
	return lines
}

// checkSparse is checkRetrain for sparse rows.
func checkSparse(c *config.Config, list []schemas.Stage) (string, error) {
	if problems := model.CheckOccurring(model.Chained(list)); len(problems) > 0 {
		return unsupported(c, problems[0])
	}
	return fmt.Sprintf("8 bytes for each class and column that occurs in an increment, and stage, on %s", state(c)), nil
}

// unsupported returns a line that says why a chain does not support the stages, which is an error if the configuration says anything
// about a chain.
func unsupported(c *config.Config, problem option.Problem) (string, error) {
	if c.Retrain == topics.DefaultRetrain() {
		return fmt.Sprintf("run does not support these stages: %v", problem), nil
	}
	return "run does not support these stages", problem
}

// state returns the name of the state topic.
func state(c *config.Config) string { return protocol.TopicsOf(c.Name).State }

// section writes a title with its lines: the title stands before the first.
func section(table *screen.Table, title string, lines []string) {
	for _, line := range lines {
		table.Row(title, line)
		title = ""
	}
}

// checkGate returns a line that says by how many rows an update compares versions; none if nothing is held out, if
// producers say what is, or if there are no updates.
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
