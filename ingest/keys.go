package ingest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/ingest/archive"
	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/typed"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/internal/signature"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Keys is the table of the keys under `examples` of the configuration, in the order of the documentation. [Options.Check] has the rules
// that depend on the format of files or messages, or on the columns that several keys name.
func Keys() []option.Key {
	const (
		onlyTopic  = "examples.from_topic too: it describes the messages of a topic"
		onlyRead   = "with it: they would be written to that topic, which is only read"
		noRange    = "no files in examples.train and examples.test: a run of files uses all of their rows"
		followed   = "with it: ingest files first, or follow the topic"
		noFiles    = "no files under examples.train and examples.test "
		oneLabel   = ", because examples.labels is one"
		ofOutcome  = "no value with examples.outcome: set examples.outcome.label instead"
		labelTexts = "`csv`, `libsvm`, `arrow`, `parquet`, `jsonl`, `json`, `avro` and `protobuf`"
	)
	ofFiles, schemas, pairs := []string{}, []string{}, ""
	for _, f := range formats() {
		if f.IsOfFiles() {
			ofFiles = append(ofFiles, fmt.Sprintf("`%s` (%s)", f.Name, f.Meaning))
		}
		if f.Files > 1 {
			pairs += fmt.Sprintf(". `%s`: %s", f.Name, f.WantFiles)
		}
		if f.Schema.Type != "" {
			schemas = append(schemas, fmt.Sprintf("`%s` for `%s`", f.Schema.Ending, f.Name))
		}
	}
	keys := []option.Key{
		{Name: "train", Meaning: "training files: a file or a list, relative to the folder of the configuration. A pattern such as " +
			"`data/*.csv` selects the matching files, a folder the tables in it; with Parquet and Arrow, folder names such as " +
			"`kind=iris` become columns, those of a sink (`partition=0`, `dt=2026-11-01`; `year`, `month` and `day`) only if another key " +
			"names them. Names that start with a dot or an underscore are hidden. `\"-\"` is the standard input; none: the topic " +
			"already has the examples" + pairs},
		{Name: "test", Meaning: "test files: a file or a list, as for `train`"},
		{Name: "from_topic", Excludes: map[string]string{"train": noFiles + followed, "test": noFiles + followed},
			Meaning: "source topic that `run` and `ingest` follow, and `train` reads to its end: see " +
				"[producers](producers.md#topics-of-your-own). Not with `train` and `test`; none: no topic"},
		{Name: "on_changed_topic", Rule: option.OneOf(ChangedTopicStop, ChangedTopicBehind, ChangedTopicAnew, ""),
			Meaning: "if `from_topic` no longer has the last message that was read: `stop` with an error, go on " +
				"`behind` its offset, or read the topic `anew`. See [producers](producers.md#failures)"},
		{Name: "topic", Rule: option.Topic(), Excludes: map[string]string{"train": noFiles + onlyRead, "test": noFiles + onlyRead,
			"from_topic": "no examples.from_topic with it: ingest would write to that topic, which is only read"},
			Meaning: "the examples topic of another pipeline, such as `mnist.examples`, or any topic with examples: `train` " +
				"and `run` read it and never write to it. Not with `train`, `test` and `from_topic`; none: the topic of the pipeline"},
		{Name: "from", Rule: isBound(), Excludes: map[string]string{"train": noRange, "test": noRange},
			Meaning: "start of the examples of a run: a time, such as `2026-11-01T00:00:00Z`, one offset for all " +
				"partitions, or a list with an offset for each; none: the beginning of the topic. The time of ingested rows is " +
				"that of the messages that they come from"},
		{Name: "to", Rule: isBound(), Excludes: map[string]string{"train": noRange, "test": noRange},
			Meaning: "end of the examples of a run, as for `from`: before the first message with that time or offset; none: " +
				"the current end of the topic"},
		{Name: "format", Meaning: english.WordSeries(ofFiles, "or") + "; none: detected from the file name, then from the first bytes. Of " +
			"`from_topic`: " + formatNames("`", "or", format.Format.IsOfMessages) + "; see [producers](producers.md#topics-of-your-own)"},
		{Name: "rows", Meaning: fmt.Sprintf("LIBSVM: `dense` or `sparse` rows, or `auto`: dense if a stage or `prepare` needs it, with at "+
			"most %d columns: see [LIBSVM files](your-own-data.md#libsvm-files). With `from_topic`, also the path of the rows in a message, "+
			"such as `payload.after`: see [nested values](producers.md#nested-values). `json`, `arrow`, `avro` and `protobuf`; none: `auto`, "+
			"and a message is a row, or a list of rows", maxDense)},
		{Name: "schema", Needs: map[string]string{"from_topic": onlyTopic},
			Meaning: "schema file for the messages of `from_topic`: " + english.WordSeries(schemas, "or") +
				". `avro` and `protobuf`; none: the registry has it"},
		{Name: "message", Needs: map[string]string{"from_topic": onlyTopic},
			Meaning: "full name of the message in `schema`, such as `shop.Order`, if the file has several; none: its only one"},
	}
	keys = append(keys, archive.Keys()...)
	keys = append(keys, typed.RegistryKeys("registry", "URL of the schema registry of `from_topic`, such as `https://registry:8081`; none: "+
		"no registry. `avro` and `protobuf` need it, or a file `schema`: see [schemas](producers.md#schemas)", "from_topic", onlyTopic)...)
	keys = append(keys, option.Key{Name: "key",
		Needs:   map[string]string{"outcome.topic": "examples.outcome too: rows are joined with outcomes by the key"},
		Meaning: "with `outcome`: path of the join key in a row, such as `impression_id`; none: the message key"})
	keys = append(keys, outcome.Keys()...)
	return append(keys, []option.Key{
		{Name: "label", Rule: isColumn(), Excludes: map[string]string{"outcome.topic": ofOutcome,
			"targets": "no label with examples.targets: a model predicts one or the other"},
			Meaning: "tables: label column, by number from 0 or by name; none: column 0 of CSV, otherwise the column `label`"},
		{Name: "weight", Rule: isColumn(),
			Meaning: "tables: weight column, by number from 0 or by name; none: every example has weight 1"},
		{Name: "served.label", Needs: map[string]string{"from_topic": "examples.from_topic too: served predictions are read from messages",
			"served.version": "examples.served.version too, the path of the version that served"},
			Excludes: map[string]string{"targets": "no value with examples.targets: it needs one label per row",
				"labels: several": "no value with several labels: it needs one label per row"},
			Meaning: "with `from_topic`: path of the label that was served for the row, such as `prediction.label`: " +
				"see [answers](serving.md#answers-on-a-topic)"},
		{Name: "served.version", Needs: map[string]string{
			"served.label": "examples.served.label too, the path of the label that was served, such as prediction.label"},
			Meaning: "path of the version number that served this label, such as `version`"},
		{Name: "text", Rule: isColumn(),
			Meaning: "tables: text column, by number or by name, whose word counts are the features. Others are " +
				"features too only if `columns`, `categorical` or `times` is set: see [events](texts.md#events); none: no texts"},
		{Name: "words.vocabulary", When: "text", Rule: option.OneOf(layout.HashedWords, layout.CountedWords, ""),
			Meaning: "with `text`: how words are assigned to columns: `hashed` (a hash assigns each word to one of `columns`) or `counted` " +
				"(each word of `train` has its own column, up to `columns` words; others are ignored)"},
		{Name: "words.columns", When: "text", Rule: option.Whole(1, examples.MaxColumns),
			Meaning: fmt.Sprintf("with `text`: number of columns that words are hashed to, or maximum size of a "+
				"counted vocabulary, up to %d", layout.MaxVocabulary)},
		{Name: "words.phrases", When: "text", Rule: option.Whole(1, layout.MaxPhrases),
			Meaning: fmt.Sprintf("with `text`: maximum length of phrases that are also counted: 2 counts pairs of "+
				"consecutive words; at most %d", layout.MaxPhrases)},
		{Name: "labels", Rule: option.OneOf(layout.LabelsOne, layout.LabelsSeveral, ""),
			Excludes: map[string]string{"targets": "one with examples.targets: a model predicts labels or numbers"},
			Meaning: "labels of an example: `one`, or `several` (any number): see [several " +
				"labels](your-own-data.md#several-labels). With `several`, links are `identity`, `logistic` and `calibrated`, and holdout " +
				"rows (a fifth by default) choose thresholds"},
		{Name: "label_separator", Needs: map[string]string{"labels: several": "no separator" + oneLabel},
			Meaning: labelTexts + ": with several labels, the separator between the labels in a text; none: a comma, a semicolon or a bar"},
		{Name: "label_columns", Rule: areColumns(), Needs: map[string]string{"labels: several": "no columns" + oneLabel},
			Excludes: map[string]string{"label": "no columns with examples.label: the labels are in several columns or in one",
				"label_separator": "no columns with examples.label_separator: the labels are in several columns or in one"},
			Meaning: "tables: with several labels, a column for each label, with 1 in the " +
				"rows that have it and 0 in the others; none: the column `label` has all labels of a row"},
		{Name: "targets", Rule: areColumns(),
			Meaning: "tables: the numeric columns to predict instead of a label, by number or name: see " +
				"[numbers](your-own-data.md#numbers); none: predict a label"},
		{Name: "header", Meaning: "`csv`: whether the first row has the column names; none: true if a key gives a column by name"},
		{Name: "delimiter", Rule: option.Rule{Want: "one character", Holds: func(v any) bool {
			s := v.(string)
			return s == "" || utf8.RuneCountInString(s) == 1 && !strings.ContainsAny(s, "\"\r\n\ufffd")
		}}, Meaning: "`csv`: field delimiter, one character; none: detected from the first rows"},
		{Name: "encoding", Rule: option.Rule{Want: "the name of an encoding, such as latin-1, windows-1252 or utf-16",
			Holds: func(v any) bool { return v == "" || signature.IsEncoding(v.(string)) }},
			Meaning: formatNames("`", "and", func(f format.Format) bool { return f.IsText && f.IsOfFiles() }) +
				", and the values of `from_topic`: text encoding, such as `latin-1`, `windows-1252` or `utf-16`; none: UTF-8"},
		{Name: "columns.use", Rule: areColumns(),
			Meaning: "tables: feature columns, by number or name; none: all except the label, the weight and dropped columns"},
		{Name: "columns.drop", Rule: areColumns(),
			Meaning: "`csv`, `arrow`, `parquet` and `jsonl`: columns to leave out, such as ids"},
		{Name: "categorical", Rule: areColumns(),
			Meaning: "tables: categorical columns. Each becomes one feature for each value in " +
				"`train`, or in `from_topic` when first read, and one for all other values"},
		{Name: "times", Rule: option.Rule{Want: "for each column, different parts of " + english.WordSeries(value.TimeParts(), "and") +
			", and a unit: auto, s, ms, us, ns, days, excel or yyyymmdd", Holds: func(v any) bool { return v.(layout.Times).Valid() }},
			Meaning: "tables: date and time columns, and the features to derive from each: " +
				"`{column: [hour, weekday, month, age]}`, or with the unit of numbers `{column: {parts: [hour], unit: ms}}`. See " +
				"[dates and times](your-own-data.md#dates-and-times)"},
		{Name: "offsets", Meaning: "`{column: number, …}`: offsets subtracted from columns of [large numbers](values.md#large-numbers); " +
			"none: detected from the first rows of files; for `from_topic`, a notice says which to set"},
		{Name: "classes", Rule: option.Rule{Want: "distinct, non-empty labels without surrounding space", Holds: areLabels},
			Excludes: map[string]string{"targets": "no classes with examples.targets: numbers have none"},
			Meaning:  "the allowed labels, in order; none: all labels found"},
		{Name: "missing", Rule: option.Rule{Want: "error or mean", Holds: func(v any) bool {
			return v.(layout.Missing).Mode == layout.MissingError || v.(layout.Missing).Mode == layout.MissingMean
		}}, Meaning: "what to do with a missing value: `error`; `mean` replaces it with the mean of its feature; " +
			"`{column: mean, …}` is `mean`, and rows of `from_topic` may stop to have these columns. Then such rows raise no drift alarm, and " +
			"versions are withheld until [the gate](retraining.md#the-gate) has compared one. Rows that lack another column go to " +
			"[quarantine](producers.md#invalid-values), if most new rows do"},
		{Name: "missing_values",
			Meaning: labelTexts + ": words that mark a [missing value](values.md#missing-values), like an " +
				"empty field; also of the label, unless `classes` includes it"},
		{Name: "image", Rule: option.Rule{Want: "height, width and channels, each from 1 to 65536, such as [28, 28, 1]", Holds: func(v any) bool {
			return len(v.([]string)) == 0 || layout.Options{Image: v.([]string)}.Shape() != (examples.Image{})
		}}, Meaning: "shape of image examples: height, width and channels, such as `[28, 28, 1]`. See " +
			"[images](images.md#tables-of-pixels); none: the shape in the file, or no images"},
		{Name: "batch_rows", Rule: option.Whole(1, 0),
			Meaning: fmt.Sprintf("maximum number of examples in a message; fewer if they are wide, because a message "+
				"has at most %d bytes", wire.MaxMessage)},
		{Name: "class_weight", Excludes: map[string]string{"targets": "none with examples.targets: numbers have no classes",
			"labels: several": "none, as a row may have several labels"},
			Meaning: "factor of the weights of training rows, by class: `none`, `balanced` (equal total weight of " +
				"each class), or `{label: number, …}`, with 1 for other labels. It applies to errors and losses of training rows, and in " +
				"`retrain.gate`"},
		{Name: "augment.mirror", Meaning: "also train on the mirror image of each training image; not for `run`"},
		{Name: "augment.shift", Rule: option.Whole(0, maxShift),
			Meaning: "also train on each training image moved by 1 to this many pixels in each direction: see " +
				"[images](images.md#more-accuracy); not for `run`"},
		{Name: "holdout", Rule: option.Rule{Want: "a fraction, at least 0 and less than 1",
			Holds: func(v any) bool { return v.(float64) >= 0 && v.(float64) < 1 }},
			Meaning: "fraction of the training rows that are scored but not fitted, from 0 to less than 1, chosen by a hash"},
		{Name: "partitions", Rule: option.Whole(1, 0), Meaning: "number of partitions of a created examples topic"},
	}...)
}

// isColumn allows a column, or none.
func isColumn() option.Rule {
	return option.Rule{Want: "a column's number, from 0, or its name", Holds: func(v any) bool {
		n, isNumber := v.(layout.Column).Number()
		return !isNumber || n >= 0
	}}
}

// areColumns allows different columns.
func areColumns() option.Rule {
	return option.Rule{Want: "different columns, each by its number, from 0, or by its name", Holds: func(v any) bool {
		return layout.AreColumns(v.([]string))
	}}
}

// areLabels reports whether texts are different labels.
func areLabels(v any) bool {
	known := map[string]bool{}
	for _, class := range v.([]string) {
		if known[class] || class == "" || class != strings.TrimSpace(class) {
			return false
		}
		known[class] = true
	}
	return true
}

// isBound allows the start or the end of a run.
func isBound() option.Rule {
	const want = "a time, as 2026-11-01T00:00:00Z, an offset of at least 0 for all partitions, or a list with an offset for each partition"
	return option.Rule{Want: want, Holds: func(v any) bool {
		_, ok := ParseBound(v.([]string))
		return ok || len(v.([]string)) == 0
	}}
}

// Check returns a Problem for each value that is invalid for any file content. It does not open the files.
func (o Options) Check() option.Problems { return o.check(slices.Concat(o.Train, o.Test)) }

// check is Check for the given files. It checks the table of keys first.
func (o Options) check(files []string) option.Problems {
	p := option.Check(Keys(), o, Defaults())
	told := o.formatsOf(files)
	if o.FromTopic != "" {
		told = o.checkMessages(&p)
	} else {
		o.checkFiles(&p)
		o.checkFormats(&p, told, len(files) > 0)
	}
	rows, labels := o.Options, []layout.Column{}
	if o.Outcome.Topic != "" {
		rows = rows.WithLabelLater() // of outcomes
	}
	for _, f := range told {
		labels = append(labels, f.Label)
	}
	p.Under("", rows.CheckColumns(labels...))
	o.checkOutcome(&p)
	from, _ := ParseBound(o.From)
	if to, ok := ParseBound(o.To); ok && len(o.From) > 0 && !from.Before(to) {
		p.Add("to", option.Shown(o.To), "a later one than examples.from, which is "+strings.Join(o.From, ", "))
	}
	if o.density() == rowsDense && o.FromTopic != "" {
		p.Add("rows", o.Rows, "auto or sparse, because the number of columns of sparse rows of a topic is unknown before they are read; or "+
			"the path of the rows, in which a member of that name is written ./dense")
	} else if o.density() == rowsDense && o.Text != "" {
		p.Add("rows", o.Rows, "auto or sparse, because examples.text is set: counts of words are sparse")
	}
	if most := o.Words.MaxColumns(); o.Text != "" && o.Words.Columns > most {
		p.Add("words.columns", option.Shown(o.Words.Columns), fmt.Sprintf("a whole number from 1 to %d", most))
	}
	if o.Text != "" && o.Words.Found() && o.Mode != layout.Predicting && len(o.Train) == 0 {
		p.Add("words.vocabulary", o.Words.Vocabulary, "files under examples.train, in which its words are found")
	}
	if len(o.Classes) == 1 && !o.Several() {
		p.Add("classes", option.Shown(o.Classes), "at least two labels, because one is not learnt; or none: all labels found")
	}
	for _, label := range slices.Sorted(maps.Keys(o.ClassWeight.By)) {
		isLabel := func(class string) bool { return value.Label(class) == value.Label(label) }
		if len(o.Classes) > 0 && !slices.ContainsFunc(o.Classes, isLabel) {
			p.Add("class_weight", label, "labels that are among examples.classes")
		}
	}
	return p
}

// checkFiles checks the file names. Checks that need the content are left to Sources.
func (o Options) checkFiles(p *option.Problems) {
	_, ofFiles := o.formatByName("")
	_, ofMessages := o.messageFormat()
	archived := ofMessages && o.Archive.Files != "" // by the pipeline whose examples are read
	if o.Format != "" && !ofFiles && !archived {
		p.Add("format", o.Format, formatNames("", "or", format.Format.IsOfFiles))
	}
	if path := o.rowsPath(); path != "" {
		p.Add("rows", path, "examples.from_topic too: it describes the messages of a topic")
	}
	fromInput := 0
	for i, files := range [][]string{o.Train, o.Test} {
		key := []string{"train", "test"}[i]
		if slices.Contains(files, "") {
			p.Add(key, "", "the name of a file")
		} else if f, ok := o.brokenSource(files); ok {
			p.Add(key, fmt.Sprint(files), f.Name+" "+f.WantFiles)
		}
		for _, name := range files {
			if name != StandardInput {
				continue
			}
			if fromInput++; fromInput > 1 {
				p.Add(key, StandardInput, "the standard input (-) in one place only: it can be read once")
			}
		}
	}
}

// brokenSource returns the format of a source that lacks files, judging by the names of the files.
func (o Options) brokenSource(files []string) (f format.Format, ok bool) {
	if slices.ContainsFunc(files, input.IsPattern) {
		return f, false // the files are unknown
	}
	for rest := files; len(rest) > 0; rest = rest[f.Files:] {
		if f, ok = o.formatByName(rest[0]); !ok {
			return f, false // the number of files of a source is unknown too
		}
		if len(rest) < f.Files || slices.ContainsFunc(rest[1:f.Files], func(name string) bool {
			other, ok := o.formatByName(name)
			return ok && other.Name != f.Name
		}) {
			return f, true
		}
	}
	return f, false
}

// checkFormats checks the keys that files of some formats do not support.
func (o Options) checkFormats(p *option.Problems, told []format.Format, named bool) {
	for _, f := range told {
		switch {
		case !named:
		case len(o.Targets) > 0 && !f.IsTable():
			p.Add("targets", option.Shown(o.Targets), "no targets in files of the format "+f.Name+": their examples have labels")
		case o.Several() && f.OneLabel:
			p.Add("labels", o.Labels, "one, as files of the format "+f.Name+" have one label a row")
		}
		if f.HasHeader && o.Header != nil && !*o.Header && slices.ContainsFunc(o.NamedColumns(), layout.Column.IsName) {
			p.Add("header", "false", "true, because a column is given by its name")
		}
	}
	for _, c := range o.Missing.Columns {
		p.Add("missing", c, "error or mean: columns only with examples.from_topic")
	}
}

// checkMessages checks the keys that depend on the format of messages, and returns that format.
func (o Options) checkMessages(p *option.Problems) []format.Format {
	f, ok := o.messageFormat()
	if !ok {
		p.Add("format", option.Shown(o.Format), formatNames("", "or", format.Format.IsOfMessages)+", as examples.from_topic is set")
		return nil
	}
	if o.Header != nil && *o.Header {
		p.Add("header", "true", "false: the values of a topic have no header")
	}
	for _, name := range slices.Sorted(maps.Keys(o.Offsets)) {
		_, notNumber := strconv.Atoi(name)
		if isFeature := slices.Contains(o.Columns.Use, name); !isFeature && (f.Width == nil || notNumber != nil) {
			p.Add("offsets", name, "columns of examples.columns.use; of CSV, the numbers of columns")
		}
	}
	o.checkSchema(p, f)
	for _, c := range o.Missing.Columns {
		if len(o.Columns.Use) > 0 && !slices.Contains(o.Columns.Use, c) {
			p.Add("missing", c, "columns that become features, and "+value.Quote(c)+" is none of examples.columns.use")
		}
	}
	if o.Outcome.Topic != "" { // which has the labels
		o.Options = o.Options.WithLabelLater()
	}
	switch {
	case f.Width != nil && o.rowsPath() != "":
		p.Add("rows", o.Rows, "no path: each line is a row")
	case f.Width == nil && len(o.Columns.Use) == 0 && o.Text == "":
		p.Add("columns.use", "[]", "the columns that become features: each message may have others")
	case f.Width == nil && len(o.Columns.Drop) > 0:
		p.Add("columns.drop", option.Shown(o.Columns.Drop), "no columns: only those of columns.use become features")
	}
	for _, c := range o.NamedColumns() {
		if f.Width != nil && c.IsName() {
			p.Add("format", o.Format, fmt.Sprintf("columns by their numbers, from 0, unlike %s: the values of a topic have no header",
				value.Quote(string(c))))
		}
	}
	return []format.Format{f}
}

// checkSchema checks the keys for the schema of a message format.
func (o Options) checkSchema(p *option.Problems, f format.Format) {
	kind := f.Schema
	switch {
	case kind.Type == "" && o.Schema != "":
		p.Add("schema", o.Schema, "no file: values in "+f.Name+" need no schema")
	case kind.Type != "" && o.Schema == "" && o.Registry.URL == "":
		p.Add("schema", "not set", "a file, such as events"+kind.Ending+", or examples.registry.url: values in "+f.Name+" need a schema")
	case o.Schema != "" && o.Registry.URL != "" && !kind.Beside:
		p.Add("schema", o.Schema, "no file with examples.registry: in "+f.Name+" each message says its schema there")
	}
	if o.Message != "" && (!kind.Named || o.Schema == "") {
		p.Add("message", o.Message, "no name: it is for formats whose files under examples.schema describe several messages")
	}
	if strings.HasPrefix(o.Registry.URL, "http:") && o.Registry.CA+o.Registry.Cert != "" {
		p.Add("registry.url", o.Registry.URL, "https, as certificates are set")
	}
	if f.Unframed && o.Registry.URL != "" {
		p.Add("registry.url", o.Registry.URL, "no registry: values in "+f.Name+" have no schema there")
	}
}
