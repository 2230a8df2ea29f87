package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/client"
	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/explain"
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/score"
)

func newPredict() *cobra.Command {
	var (
		modelFile     string
		rows          rowFlags
		contributions int
	)
	output := screen.StandardOutput
	cmd := &cobra.Command{
		Use: "predict --model FILE -i FILE", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			blas, err := openBLAS()
			if err != nil {
				return err
			}
			m, err := readModel(modelFile)
			if err != nil {
				return failed(err)
			}
			if contributions > 0 {
				if err := m.CheckContributions(); err != nil {
					return failed(fmt.Errorf("--contributions: %w", err))
				}
			}
			return rows.read(cmd, m, func(o ingest.Options) error {
				return screen.Write(output, cmd.OutOrStdout(), func(w io.Writer) error {
					return predict(cmd.Context(), w, blas, m, rows.input, contributions, o)
				})
			})
		},
	}
	cmd.Flags().StringVar(&modelFile, "model", "", "read the model from a `file` that train or weights export wrote")
	cmd.Flags().StringVarP(&rows.input, "input", "i", "", "read the rows from a `file` (-: standard input), with or without labels, in any "+
		"ingest format; named columns may be in any order")
	addOutput(cmd, &output, "output", "o", "write the predictions to a `file` (-: standard output)")
	cmd.Flags().StringVar(&rows.format, "format", "", "input `format`; default: the format of the training files or of the file name's "+
		"extension")
	cmd.Flags().StringVar(&rows.label, "label", "", "the label `column`; default: as in the training files")
	cmd.Flags().StringVar(&rows.delimiter, "delimiter", "",
		"field delimiter `character`; default: as in the training files, or detected from the first rows")
	cmd.Flags().StringVar(&rows.encoding, "encoding", "", "the `name` of the text encoding, such as latin-1; default: as in the training "+
		"files, or UTF-8")
	cmd.Flags().BoolVar(&rows.header, "header", false, "the first row has the column names (--header=false: it is an example); default: "+
		"detected from the row")
	cmd.Flags().Var(whole{&contributions, 1, 0}, "contributions", "add a field contributions with the `number` of columns that add the most "+
		"to each score, as JSON")
	markRequired(cmd, "model", "input")
	return cmd
}

// rowFlags are the flags for reading a file of rows. Zero values mean those of the training files.
type rowFlags struct {
	input, format, label, delimiter, encoding string
	header                                    bool
}

// read calls do with the options for reading the file. The standard input is copied to a temporary file until do returns.
func (f *rowFlags) read(cmd *cobra.Command, m *model.Model, do func(o ingest.Options) error) error {
	o := ingest.TrainedOn(m.Manifest.Plan)
	o.Format, o.Label, o.Delimiter = cmp.Or(f.format, o.Format), cmp.Or(layout.Column(f.label), o.Label), cmp.Or(f.delimiter, o.Delimiter)
	o.Encoding = cmp.Or(f.encoding, o.Encoding)
	if cmd.Flags().Changed("header") {
		if o.Header = &f.header; !f.header && layout.Column(f.label).IsName() {
			return option.Problem{Key: "--header", Value: "false", Want: "true: --label gives a column by name"}
		}
	}
	if f.input == ingest.StandardInput {
		remove, err := o.Spool(cmd.Context(), cmd.InOrStdin())
		if err != nil {
			return failed(err)
		}
		defer remove()
	}
	err := do(o)
	if problem, ok := errors.AsType[option.Problem](err); ok && cmd.Flags().Lookup(problem.Key) != nil {
		problem.Key = "--" + problem.Key // the options of ingest are flags here
		return problem
	}
	return failed(err)
}

// modelFlags choose a model: a version of the pipeline of a configuration, or a file.
type modelFlags struct {
	from          configFlags
	version, file string
}

// add defines the flags of cmd, given the usages of --version and --model.
func (f *modelFlags) add(cmd *cobra.Command, version, file string) {
	f.from.add(cmd)
	cmd.Flags().StringVar(&f.version, "version", "", version)
	cmd.Flags().StringVar(&f.file, "model", "", file)
	cmd.MarkFlagsOneRequired("config", "model")
}

// use calls do with the model, and with its pipeline, which is nil for a file.
func (f *modelFlags) use(cmd *cobra.Command, do func(m *model.Model, p *topics.Pipeline) error) error {
	if f.file != "" {
		m, err := readModel(f.file)
		if err != nil {
			return failed(err)
		}
		return do(m, nil)
	}
	c, err := f.from.load()
	if err != nil {
		return err
	}
	return failed(withPipeline(cmd.Context(), c, waitRecorder(cmd), func(log *kafkalog.Log) error {
		p := openExamples(log, c, c.Name)
		m, err := p.Model(cmd.Context(), cmp.Or(f.version, protocol.Latest))
		if err != nil {
			return err
		}
		return do(m, p)
	}))
}

// readModel reads a model file.
func readModel(path string) (*model.Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read model: %w", err)
	}
	defer f.Close()
	m, err := model.Read(f)
	if err != nil {
		return nil, fmt.Errorf("read model %s: %w", path, err)
	}
	return m, nil
}

// predict reads a file batch by batch and writes a row for each of its rows: the most probable label and the
// probabilities of all classes; with several labels per row, the predicted labels and the probabilities; or the
// predicted numbers; then up to the given number of contributions to each score.
func predict(ctx context.Context, w io.Writer, blas *kernel.BLAS, m *model.Model, input string, contributions int, o ingest.Options) error {
	out := csv.NewWriter(w)
	var fields []string // the predicted labels of a row, unless they are numbers; then all probabilities, or the numbers
	switch m.Task() {
	case examples.OneLabel:
		fields = []string{"label"}
	case examples.SeveralLabels:
		fields = []string{"labels"}
	}
	first, k := len(fields), len(m.Labels())
	fields = append(fields, m.Labels()...)
	if contributions > 0 {
		fields = append(fields, "contributions")
	}
	if err := out.Write(fields); err != nil {
		return err
	}
	predictor := m.Predictor(blas)
	trained := layout.Features{Width: m.Width(), Image: m.Image(), Sparse: m.Sparse(), Columns: m.Columns(), Labels: m.Labels()}
	for rows, err := range ingest.File(ctx, input, o, trained) {
		if err != nil {
			return err
		}
		var contributed []string // of each row
		if contributions > 0 {
			err := predictor.Contributions(rows, contributions, func(_ int, scores []model.Contributions) {
				contributed = append(contributed, string(wire.JSON(scores)))
			})
			if err != nil {
				return err
			}
		}
		probabilities, numbers := predictor.PredictRows(rows)
		for i := range rows.Rows {
			for c := range k {
				if numbers != nil {
					fields[first+c] = strconv.FormatFloat(numbers[i*k+c], 'g', -1, 64)
				} else {
					fields[first+c] = strconv.FormatFloat(float64(probabilities[i*k+c]), 'g', -1, 32)
				}
			}
			if numbers == nil {
				var labels []string
				for _, class := range m.Given(nil, probabilities[i*k:][:k]) {
					labels = append(labels, m.Labels()[class])
				}
				fields[0] = strings.Join(labels, ";")
			}
			copy(fields[first+k:], contributed[min(i, len(contributed)):])
			if err := out.Write(fields); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

func newExplain() *cobra.Command {
	var (
		of             modelFlags
		jsonFile, page string
		input          rowFlags
	)
	limit, top, o := 10_000, 10, explain.Defaults()
	cmd := &cobra.Command{
		Use:  "explain (--model FILE -i FILE | -c FILE)",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			blas, err := openBLAS()
			if err != nil {
				return err
			}
			o.Wrong = top
			return of.use(cmd, func(m *model.Model, p *topics.Pipeline) error {
				if err := explain.CheckModel(m); err != nil {
					return err
				}
				write := func(rows *explain.Rows, name string) error {
					r, err := explain.Explain(cmd.Context(), m, blas, rows, o)
					if err != nil {
						return err
					}
					return screen.WriteExplanation(cmd.OutOrStdout(), r, screen.Explained{File: name, Top: top, JSON: jsonFile, HTML: page})
				}
				if p != nil {
					rows, _, err := screen.HeldOut(cmd.Context(), p, m, limit, o.Seed)
					if err != nil {
						return err
					}
					return write(rows, p.Topics.Name)
				}
				return input.read(cmd, m, func(from ingest.Options) error {
					rows, err := screen.ReadLabelled(cmd.Context(), m, input.input, from, limit, o.Seed)
					if err != nil {
						return err
					}
					return write(rows, input.input)
				})
			})
		},
	}
	of.add(cmd, "with -c, the `version`: a version number, a run id, or "+protocol.Latest+" (default "+protocol.Latest+")",
		"read the model from a `file` that train or weights export wrote")
	cmd.Flags().StringVarP(&input.input, "input", "i", "", "read the labelled rows from a table in a `file` (-: standard input)")
	cmd.Flags().StringVar(&input.label, "label", "", "the label `column`; default: as in the training files")
	cmd.Flags().BoolVar(&input.header, "header", false, "the first row has the column names; default: as in the training files")
	cmd.Flags().Var(whole{&limit, 1, 0}, "rows", "sample this many `rows` if there are more")
	cmd.Flags().Var(whole{&top, 1, 0}, "top", "show this many columns and `rows` with the largest loss")
	cmd.Flags().Var(whole{&o.Curves, 0, 0}, "curves", "show the partial dependence on the most important `columns`")
	cmd.Flags().StringArrayVar(&o.Slices, "slice", nil, "show the errors by the values of a `column`; repeatable; default: as --curves")
	cmd.Flags().Var(whole{&o.Shuffles, 1, 0}, "permutations", "permute each column this many `times`")
	cmd.Flags().Uint64Var(&o.Seed, "seed", o.Seed, "`seed` of the permutations, and of --rows")
	addOutput(cmd, &jsonFile, "json", "", "write all numbers as JSON to a `file` (-: standard output)")
	addOutput(cmd, &page, "html", "", "write a page to a `file` (-: standard output)")
	cmd.MarkFlagsRequiredTogether("model", "input")
	excludes(cmd, "config", "the model and the rows are on the topics", "model", "input", "label", "header")
	excludes(cmd, "model", "it selects the version, and needs no configuration", "version", "set")
	return cmd
}

func newScore() *cobra.Command {
	var (
		topic, to, version, stop string
	)
	cmd := new(configFlags).command("score -c FILE", cobra.NoArgs, &displayFlags{}, func(c *call) error {
		topics := protocol.TopicsOf(c.config.Name)
		o := score.Options{
			From: cmp.Or(topic, c.config.Examples.Topic, topics.Examples), To: cmp.Or(to, topics.Predictions), UntilEnd: stop == untilEnd,
			Contributions: c.config.Score.Contributions,
		}
		if o.From == o.To {
			return fmt.Errorf("--to: %s: expected a topic other than the one with the examples", o.To)
		}
		if o.To != topics.Predictions && slices.Contains(topicNames(c.config), o.To) {
			return fmt.Errorf("--to: %s: expected a topic for predictions: the pipeline uses this one for something else", o.To)
		}
		if _, err := openBLAS(); err != nil { // each predictor opens the BLAS itself
			return err
		}
		return c.session(session{role: protocol.RoleScore, ends: o.UntilEnd, with: withLog}, func() error {
			if !o.UntilEnd {
				c.recorder.Record(event.Following{Topic: o.From})
			}
			err := scoreTopic(c.Context(), c.log, c.config, o, version, c.recorder)
			if err == nil {
				c.recorder.Record(event.Predicted{From: o.From, To: o.To})
			}
			return err
		})
	})
	cmd.Flags().StringVar(&topic, "topic", "", "predict the messages of this `topic` (default: the examples topic that runs read)")
	cmd.Flags().StringVar(&to, "to", "", "write to this `topic`, which is created (default NAME.predictions)")
	cmd.Flags().StringVar(&version, "version", "", "predict by this `version` only: a version number or run id (default "+
		protocol.Latest+")")
	choose(cmd, &stop, "until", "`end`: stop at the current end of the topic, and predict by the currently newest version", untilEnd)
	return cmd
}

// scoreTopic predicts for the partitions that this process owns, with a version; "" means the newest.
func scoreTopic(ctx context.Context, log *kafkalog.Log, c *config.Config, o score.Options, version string,
	recorder event.Recorder) (err error) {
	partitions, err := log.Partitions(ctx, o.From)
	if errors.Is(err, kafkalog.ErrUnknownTopic) {
		location := "data_dir"
		if len(c.Brokers) > 0 {
			location = "brokers"
		}
		return fmt.Errorf("read %s: %w; write examples to it first, or check name, --topic and %s", o.From, kafkalog.ErrUnknownTopic, location)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", o.From, err)
	}
	if err := log.Create(ctx, topics.PredictionsTopic(c.Job(), o.To, partitions)); err != nil {
		return err
	}
	if o.From == cmp.Or(c.Examples.Topic, protocol.TopicsOf(c.Name).Examples) {
		o.Forgotten = source.ForgottenRows(log, c.Job())
		if c.Examples.FromTopic != "" {
			defer ingestBeside(ctx, log, c, o.UntilEnd, recorder)()
		}
	}
	topics := protocol.NewClient(log, c.Name, nil)
	var versions score.Versions
	if o.UntilEnd {
		m, err := topics.Model(ctx, cmp.Or(version, protocol.Latest))
		if err != nil {
			return err
		}
		versions = score.Fixed(m)
	} else {
		follower, err := client.FollowOn(ctx, log, client.Options{Name: c.Name, Version: version})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, follower.Close()) }()
		defer tellVersions(ctx, follower, recorder)()
		versions = follower
	}
	var group *kafkalog.Member // of the processes that write to o.To
	if !log.Embedded() {
		group = log.Join(o.To, o.From)
		defer func() { err = errors.Join(err, group.Leave()) }()
	}
	for {
		if err := log.AddPartitions(ctx, o.To, partitions); err != nil {
			return err
		}
		var owner protocol.Owner = group
		if group == nil {
			owner = protocol.NewSoleOwner(partitions)
		}
		err := score.Run(ctx, topics, o, versions, owner, recorder)
		added, grown := errors.AsType[*score.AddedError](err)
		if !grown {
			return err
		}
		event.Notice(recorder, "%s grew from %d to %d partitions: adding partitions to %s; all partitions get predictions", added.From,
			added.Had, added.Have, o.To)
		partitions = added.Have
	}
}

// ingestBeside ingests the source topic of the examples until stop is called or ctx ends; with untilEnd it returns at
// the current end of the topic. A process that may not write examples predicts for those of other processes.
func ingestBeside(ctx context.Context, log *kafkalog.Log, c *config.Config, untilEnd bool, recorder event.Recorder) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := source.Follow(ctx, log, c.Job(), untilEnd, recorder); err != nil && ctx.Err() == nil {
			event.Notice(recorder, "this process can't ingest %s, and predicts only what other processes ingest: %v", c.Examples.FromTopic, err)
		}
	}()
	if untilEnd {
		<-ended
	}
	return func() {
		cancel()
		<-ended
	}
}
