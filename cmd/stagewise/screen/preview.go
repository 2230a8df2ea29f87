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

// preview is the table of what train and run would do.
type preview struct {
	*config.Config
	Table
	job   topics.Job
	names protocol.Topics
	width int    // number of features; 0: unknown
	title string // of the last line
}

// say adds a line, with its title if that differs from the title of the last line.
func (p *preview) say(title, format string, values ...any) {
	shown := title
	if title == p.title {
		shown = ""
	}
	p.title = title
	p.Row(shown, fmt.Sprintf(format, values...))
}

// WritePreview writes what train would do. It returns an error for each missing file, or else for each column that
// train would reject, and one for a chain whose state would exceed its limit.
func WritePreview(ctx context.Context, w io.Writer, c *config.Config, blas *kernel.BLAS) error {
	p := &preview{Config: c, job: c.Job(), names: protocol.TopicsOf(c.Name)}
	p.say("pipeline", "%s on %s", c.Name, Brokers(c))
	p.say("arithmetic", "%s, %s", blas.Name(), blas.Vector())
	if hint := blas.Hint(); hint != "" {
		p.say("arithmetic", "%s", hint)
	}
	memory := "half of the free memory"
	if c.Memory > 0 {
		memory = c.Memory.String()
	}
	p.say("memory", "%s", memory)
	wrong := p.files(ctx)
	if o := c.Examples.Outcome; o.Topic != "" {
		const rate, size = 1000, 1000 // round numbers, which are easy to scale to another topic
		rows, bytes := o.Waiting(rate, size)
		p.say("outcomes", "rows of %s wait for %s at most for an outcome on %s", c.Examples.FromTopic, o.Within, o.Topic)
		p.say("outcomes", "with %s rows a second in messages of %s, %s rows wait, and take %s: %s in memory, the rest in %s",
			humanize.Comma(rate), amount(size), humanize.Comma(rows), amount(bytes), o.Memory, c.DataDir)
	}
	switch from, after := c.Examples.FromTopic, p.job.Topics.Retention.Examples; {
	case from == "":
	case after == 0:
		p.say("retention", "examples are a second copy of the rows of %s, forever: topics.retention.examples", from)
	case p.job.Remakes():
		p.say("retention", "examples expire after %v, and are made again from %s as long as it has their messages", after, from)
	default:
		p.say("retention", "examples expire after %v: those with outcomes can't be made again", after)
	}
	if wrong == nil {
		wrong = p.rows(ctx)
	}
	for _, t := range topics.Topics(p.job) {
		p.say("topics", "%s (%d)", t.Name, t.Partitions)
	}
	p.say("prepare", "%s", Preparation(c.Prepare.Prepare))
	if h := p.job.Examples.Hashes(); h.Columns > 0 {
		crosses := ""
		for _, cross := range h.Cross {
			crosses += ", and " + strings.Join(cross, " with ")
		}
		p.say("prepare", "words of %s hashed to %s columns%s", strings.Join(c.Examples.Categorical, ", "), humanize.Comma(int64(h.Columns)),
			crosses)
	}
	if p.job.Untuned && len(p.job.Stages) > 0 {
		p.say("prepare", "of sparse rows, train, run and search choose values, idf, scale, ridge and passes by held-out rows")
	}
	p.cost()
	tooMuch := p.retrain()
	// Producers may hold rows out, and without updates no versions are compared.
	if rows := c.Retrain.GateRows(c.Examples.Holdout); rows > 0 && topics.Updatable(p.job.Stages) {
		few := ""
		if rows < topics.EnoughGateRows {
			few = fmt.Sprintf("; with fewer than %s, the gate withholds less than 90 %% of the versions whose loss is 10 %% higher: "+
				"increase examples.holdout, retrain.rows or retrain.refresh", humanize.Comma(topics.EnoughGateRows))
		}
		p.say("retrain", "an update compares versions on about %s holdout rows%s", humanize.Comma(rows), few)
	}
	p.Write(w)
	writeStages(w, c.Stages)
	if c.Average > 1 {
		fmt.Fprintf(w, "\n%d models of these stages are trained and averaged\n", c.Average)
	}
	// With prepare.min_rows, only the survey of a run finds the number of kept columns.
	if c.Memory > 0 && c.Prepare.MinRows <= 1 && slices.ContainsFunc(p.job.Stages, onlySparse) {
		tooMuch = errors.Join(tooMuch, protocol.CheckSparse(int64(c.Memory), int64(p.width), int64(max(p.classes(), 1)), true))
	}
	return errors.Join(wrong, tooMuch)
}

// onlySparse reports whether a stage supports only sparse rows.
func onlySparse(s schemas.Stage) bool { return stages.KindOf(s.Features).OnlySparse }

// classes returns the number of classes, or of targets; 0: unknown.
func (p *preview) classes() int { return len(p.Examples.Classes) + len(p.Examples.Targets) }

// files says which files there are, or what is used instead. It returns an error for each file that can't be read.
func (p *preview) files(ctx context.Context) (missing error) {
	o := p.Examples
	for _, of := range []struct {
		split string
		names []string
	}{{"train", o.Train}, {"test", o.Test}} {
		wrong := func(err error) { missing = errors.Join(missing, fmt.Errorf("examples.%s: %w", of.split, err)) }
		for _, name := range of.names {
			files, err := ingest.Files([]string{name})
			if err != nil {
				wrong(err)
				p.say("files", "%s: %s (no file matches)", of.split, name)
			}
			for _, file := range files {
				info, err := os.Stat(file)
				switch {
				case file == ingest.StandardInput:
					file = "standard input"
				case err != nil:
					wrong(err)
					file += " (missing)"
				case info.IsDir():
					file += " (a folder of images)"
				default:
					file = fmt.Sprintf("%s (%s)", file, amount(info.Size()))
				}
				p.say("files", "%s: %s", of.split, file)
			}
		}
	}
	if len(o.Train)+len(o.Test) > 0 {
		return missing
	}
	uses := "the topic"
	if o.Topic != "" {
		uses = o.Topic + " (read-only)"
	}
	if len(o.From) > 0 {
		uses += ", from " + strings.Join(o.From, ", ") + " on"
	}
	if len(o.To) > 0 {
		uses += ", before " + strings.Join(o.To, ", ")
	}
	p.say("files", "none; train uses the examples on %s", uses)
	if o.FromTopic == "" {
		return nil
	}
	p.say("files", "the topic %s is ingested", o.FromTopic)
	_, err := ingest.NewValues(o) // which reads the schema and the files of the registry's keys
	if o.Archive.Files != "" && err == nil {
		p.say("files", "its earlier messages are in the archive %s", o.Archive.Files)
		_, err = o.OpenArchive(ctx)
	}
	return err
}

// rows reads the files as train would, but only the first rows of large ones. It returns an error for each column that train would reject.
// It skips the standard input, which it would consume.
func (p *preview) rows(ctx context.Context) error {
	o := p.job.Examples
	if o.FindsWords() && slices.Contains(o.Train, ingest.StandardInput) {
		return nil // the words of the files to train on are features
	}
	isInput := func(name string) bool { return name == ingest.StandardInput }
	o.Train, o.Test = slices.DeleteFunc(slices.Clone(o.Train), isInput), slices.DeleteFunc(slices.Clone(o.Test), isInput)
	sources, whole, troubles := ingest.Troubles(ctx, o)
	if len(troubles) > 0 || len(sources) == 0 {
		return errors.Join(troubles...)
	}
	if p.width = sources[0].Width; p.width > 0 { // the same for all sources
		p.say("features", "%d", p.width)
	}
	if !whole {
		p.say("rows", "only the first rows were read: check stops there")
	}
	return solve.CheckWidth(p.Prepare.PCA, p.width)
}

// retrain says how large the state of a chain is. It returns an error if that exceeds its limit, or if a chain does not support the stages,
// and the configuration sets keys of a chain.
func (p *preview) retrain() error {
	switch {
	case p.Average > 1:
		p.say("retrain", "run does not support averaging")
		return nil
	case len(p.job.Stages) == 0:
		p.say("retrain", "run chooses the stages by the rows of the first version")
		return nil
	}
	problems, full := p.CheckChained(), topics.AlwaysFull(p.job.Stages)
	sparse := full == "" && (p.Examples.Text != "" || slices.ContainsFunc(p.job.Stages, onlySparse))
	if len(problems) == 0 && sparse {
		problems = model.CheckOccurring(model.Chained(p.job.Stages))
	}
	columns := p.columns()
	switch {
	case len(problems) > 0 && p.Retrain == topics.DefaultRetrain():
		p.say("retrain", "run does not support these stages: %v", problems[0])
		return nil
	case len(problems) > 0:
		p.say("retrain", "run does not support these stages")
		return problems[0]
	case full != "":
		p.say("retrain", "every version of a chain is full, as %s: updates are not possible", full)
		return nil
	case sparse:
		p.say("retrain", "8 bytes for each class and column that occurs in an increment, and stage, on %s", p.names.State)
		return nil
	case len(columns) == 0:
		p.say("retrain", "the state of a chain on %s depends on the number of features, which is not known yet", p.names.State)
		return nil
	}
	classes, each := p.classes(), ""
	if classes == 0 {
		classes, each = 1, " and class"
	}
	size := p.Retrain.StateSize(columns, classes)
	text := fmt.Sprintf("%s for each increment%s, and %s for a snapshot, on %s", amount(size.Increment), each, amount(size.Grams),
		p.names.State)
	switch {
	case size.Increments == 0 && p.Retrain.Decay == 1:
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
		size = p.Retrain.StateSize(columns, 2) // at least two classes
	}
	var tooMuch error
	switch {
	case size.Total() <= int64(p.Topics.State):
	case p.Retrain == topics.DefaultRetrain() && p.Topics.State == topics.DefaultTopics().State:
		text += ": more than topics.state, which limits only stagewise run"
	default:
		tooMuch = option.Problem{
			Key: "topics.state", Value: p.Topics.State.String(),
			Want: fmt.Sprintf("at least %s, for a snapshot and the increments of the window: fewer or smaller stages, a shorter "+
				"retrain.window or more retrain.rows need less", amount(size.Total())),
		}
	}
	p.say("retrain", "%s", text)
	return tooMuch
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

// secondsOf returns the seconds of a core that the given number of rows take in stages with the given numbers of columns, by the formula of
// docs/scaling.md, in addition to those of a run without rows. The rows have width features, which become inputs, and k classes. If pca is
// set, the inputs are principal components.
func secondsOf(rows int64, list []schemas.Stage, columns []int, width, inputs int, pca bool, k int) float64 {
	row := perValue * float64(width) // nanoseconds
	if pca {
		row += perMoment * float64(width) * float64(width)
	}
	for t, s := range list {
		p, visits := float64(columns[t]), float64(s.Passes+1)
		part := float64(solve.GramRows(s, columns[t], false, rows)) / float64(rows) // fraction of the rows in the Gram matrix
		row += p * (perMoment*p*part + perInput*float64(inputs) + (perFeature+perGradient*float64(k))*visits)
	}
	return row * float64(rows) / 1e9
}

// cost says what a run writes and computes, by the formulas of docs/scaling.md; nothing if its stages have no formula: the cost of stages
// on sparse rows and of trees depends on the values of the rows.
func (p *preview) cost() {
	list, columns := p.job.Stages, p.columns()
	grown := func(s schemas.Stage) bool { return onlySparse(s) || stages.KindOf(s.Features).Grown }
	if p.Examples.Text != "" || len(columns) == 0 || slices.ContainsFunc(list, grown) {
		return
	}
	k, of := int64(p.classes()), ""
	if k == 0 {
		k, of = costClasses, fmt.Sprintf(" of %d classes", costClasses)
	}
	var grams, gradients int64 // bytes that a worker with whole groups of partitions writes
	for t, s := range list {
		size := int64(columns[t])
		grams, gradients = grams+4*size*size, gradients+8*size*k*int64(s.Passes+1)
	}
	p.say("cost", "a worker writes %s of Gram matrices and %s of gradients%s to %s", amount(grams), amount(gradients), of, p.names.Statistics)
	seconds := ""
	if p.width > 0 && !slices.ContainsFunc(list, func(s schemas.Stage) bool { return stages.KindOf(s.Features).Learns() }) {
		whole := func(seconds float64) string { return humanize.Comma(int64(math.Ceil(seconds))) }
		seconds = fmt.Sprintf(", and take about %s core-seconds",
			whole(secondsOf(costRows, list, columns, p.width, p.inputs(), p.Prepare.PCA > 0, int(k))))
		n := p.job.Examples.Partitions
		if more := perPartition * float64(n*len(list)) / 1e9; more >= 1 {
			seconds += fmt.Sprintf("; %s partitions add about %s", humanize.Comma(int64(n)), whole(more))
		}
	}
	p.say("cost", "a million rows write %s to %s%s", amount(costRows*8*k*int64(len(list))), p.names.Residuals, seconds)
}

// inputs returns the number of inputs; 0: unknown.
func (p *preview) inputs() int { return cmp.Or(p.Prepare.PCA, p.width) }

// columns returns the number of columns of each stage; nil if a number depends on the number of features, which is unknown.
func (p *preview) columns() (columns []int) {
	for t, s := range p.job.Stages {
		size := cmp.Or(s.Features.Size, p.inputs())
		if size == 0 {
			return nil
		}
		if t == 0 && p.Intercept {
			size++
		}
		columns = append(columns, size)
	}
	return columns
}

// writeStages writes a row for each entry of a configuration's stages.
func writeStages(w io.Writer, list []config.Stage) {
	if len(list) == 0 {
		fmt.Fprintln(w, "\nstages: not set; train chooses them by the loss of held-out rows")
		return
	}
	var rows Table
	fmt.Fprintln(w)
	rows.Row("stage", "features", "link", "passes", "ridge", "method", "gram rows", "stop")
	first := 1
	for _, s := range list {
		number, stop := strconv.Itoa(first), none
		if s.Repeat > 1 {
			number += fmt.Sprintf("-%d", first+s.Repeat-1)
		}
		if s.Stop != nil && s.Stop.Stages {
			stop = "ends the stages by the loss of " + s.Stop.Split + " rows"
		} else if s.Stop != nil {
			stop = fmt.Sprintf("%s, patience %d", s.Stop.Split, s.Stop.Patience)
		}
		rows.Row(number, features(s.Stage), s.Link, s.Passes, s.Ridge, s.Method, s.GramRows, stop)
		first += s.Repeat
	}
	rows.Write(w)
}
