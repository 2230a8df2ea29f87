package ingest

import (
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/ingest/vocabulary"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Keys documents the keys under `examples` of the configuration, in the order of the documentation.
func Keys() []option.Key {
	var values []string
	pairs := ""
	for _, f := range formats() {
		values = append(values, fmt.Sprintf("`%s` (%s)", f.Name, f.Meaning))
		if f.Files > 1 {
			pairs += fmt.Sprintf(". `%s`: %s", f.Name, f.WantFiles)
		}
	}
	var ofTopics []string
	for _, f := range messageFormats() {
		ofTopics = append(ofTopics, "`"+f.Name+"`")
	}
	keys := []option.Key{
		{Name: "train", Meaning: "training files: a file or a list, relative to the folder of the configuration. A pattern such as " +
			"`data/*.csv` selects the matching files, a folder the tables in it; with Parquet and Arrow, folder names such as " +
			"`kind=iris` become columns, those of a sink (`partition=0`, `dt=2026-11-01`; `year`, `month` and `day`) only if another key " +
			"names them. Names that start with a dot or an underscore are hidden. `\"-\"` is the standard input; none: the topic " +
			"already has the examples" + pairs},
		{Name: "test", Meaning: "test files: a file or a list, as for `train`"},
		{Name: "from_topic", Meaning: "source topic that `run` and `ingest` follow, and `train` reads to its end: see " +
			"[producers](producers.md#topics-of-your-own). Not with `train` and `test`; none: no topic"},
		{Name: "on_changed_topic", Meaning: "if `from_topic` no longer has the last message that was read: `stop` with an error, go on " +
			"`behind` its offset, or read the topic `anew`. See [producers](producers.md#failures)"},
		{Name: "topic", Meaning: "the examples topic of another pipeline, such as `mnist.examples`, or any topic with examples: `train` " +
			"and `run` read it and never write to it. Not with `train`, `test` and `from_topic`; none: the topic of the pipeline"},
		{Name: "from", Meaning: "start of the examples of a run: a time, such as `2026-11-01T00:00:00Z`, one offset for all " +
			"partitions, or a list with an offset for each; none: the beginning of the topic. The time of ingested rows is " +
			"that of the messages that they come from"},
		{Name: "to", Meaning: "end of the examples of a run, as for `from`: before the first message with that time or offset; none: " +
			"the current end of the topic"},
		{Name: "format", Meaning: option.Enumerate(values, "or") + "; none: detected from the file name, then from the first bytes. Of " +
			"`from_topic`: " + option.Enumerate(ofTopics, "or") + "; see [producers](producers.md#topics-of-your-own)"},
		{Name: "rows", Meaning: rowsMeaning()},
		{Name: "schema", Meaning: "schema file for the messages of `from_topic`: " + schemaFiles() + ". " + readBy("schema") +
			"; none: the registry has it"},
		{Name: "message", Meaning: "full name of the message in `schema`, such as `shop.Order`, if the file has several; none: its " +
			"only one"},
		{Name: "registry.url", Meaning: "URL of the schema registry of `from_topic`, such as `https://registry:8081`; none: no registry. " +
			readBy("registry.url") + " need it, or a file `schema`: see [schemas](producers.md#schemas)"},
		{Name: "registry.user", Meaning: "user name at the registry; none: no authentication"},
		{Name: "registry.password_file", Meaning: "file whose first line is the password of `registry.user`"},
		{Name: "registry.ca", Meaning: "PEM file with the CA certificates that sign the registry's certificate; none: the CAs of the " +
			"system"},
		{Name: "registry.cert", Meaning: "PEM file with the client certificate, for registries that require one"},
		{Name: "registry.key", Meaning: "PEM file with the private key of `registry.cert`"},
	}
	keys = append(keys, option.Key{Name: "key", Meaning: "with `outcome`: path of the join key in a row, such as `impression_id`; " +
		"none: the message key"})
	keys = append(keys, option.Under("outcome", outcome.Keys())...)
	return append(keys, []option.Key{
		{Name: "label", Meaning: readBy("label") + ": label column, by number from 0 or by name; none: column 0 of CSV, " +
			"otherwise the column `label`"},
		{Name: "weight", Meaning: readBy("weight") + ": weight column, by number from 0 or by name; none: every example has weight 1"},
		{Name: "served.label", Meaning: "with `from_topic`: path of the label that was served for the row, such as `prediction.label`: " +
			"see [answers](serving.md#answers-on-a-topic)"},
		{Name: "served.version", Meaning: "path of the version number that served this label, such as `version`"},
		{Name: "text", Meaning: readBy("text") + ": text column, by number or by name, whose word counts are the features. Others are " +
			"features too only if `columns`, `categorical` or `times` is set: see [events](texts.md#events); none: no texts"},
		{Name: "words.vocabulary", Meaning: "with `text`: how words are assigned to columns: " + vocabulary.VocabularyMeanings()},
		{Name: "words.columns", Meaning: fmt.Sprintf("with `text`: number of columns that words are hashed to, or maximum size of a "+
			"counted vocabulary, up to %d", vocabulary.MaxVocabulary)},
		{Name: "words.phrases", Meaning: fmt.Sprintf("with `text`: maximum length of phrases that are also counted: 2 counts pairs of "+
			"consecutive words; at most %d", vocabulary.MaxPhrases)},
		{Name: "labels", Meaning: "labels of an example: `one`, or `several` (any number): see [several " +
			"labels](your-own-data.md#several-labels). With `several`, links are `identity`, `logistic` and `calibrated`, and holdout " +
			"rows (a fifth by default) choose thresholds"},
		{Name: "label_separator", Meaning: readBy("label_separator") +
			": with several labels, the separator between the labels in a text; none: a comma, a semicolon or a bar"},
		{Name: "label_columns", Meaning: readBy("label_columns") + ": with several labels, a column for each label, with 1 in the " +
			"rows that have it and 0 in the others; none: the column `label` has all labels of a row"},
		{Name: "targets", Meaning: readBy("targets") + ": the numeric columns to predict instead of a label, by number or name: see " +
			"[numbers](your-own-data.md#numbers); none: predict a label"},
		{Name: "header", Meaning: readBy("header") + ": whether the first row has the column names; none: true if a key gives a " +
			"column by name"},
		{Name: "delimiter", Meaning: readBy("delimiter") + ": field delimiter, one character; none: detected from the first rows"},
		{Name: "encoding", Meaning: textFormats() + ", and the values of `from_topic`: text encoding, such as `latin-1`, " +
			"`windows-1252` or `utf-16`; none: UTF-8"},
		{Name: "columns.use", Meaning: readBy("columns.use") +
			": feature columns, by number or name; none: all except the label, the weight and dropped columns"},
		{Name: "columns.drop", Meaning: readBy("columns.drop") + ": columns to leave out, such as ids"},
		{Name: "categorical", Meaning: readBy("categorical") + ": categorical columns. Each becomes one feature for each value in " +
			"`train`, or in `from_topic` when first read, and one for all other values"},
		{Name: "times", Meaning: readBy("times") + ": date and time columns, and the features to derive from each: " +
			"`{column: [hour, weekday, month, age]}`, or with the unit of numbers `{column: {parts: [hour], unit: ms}}`. See " +
			"[dates and times](your-own-data.md#dates-and-times)"},
		{Name: "offsets", Meaning: "`{column: number, …}`: offsets subtracted from columns of [large numbers](values.md#large-numbers); " +
			"none: detected from the first rows of files; for `from_topic`, a notice says which to set"},
		{Name: "classes", Meaning: "the allowed labels, in order; none: all labels found"},
		{Name: "missing", Meaning: "what to do with a missing value: `error`; `mean` replaces it with the mean of its feature; " +
			"`{column: mean, …}` is `mean`, and rows of `from_topic` may stop to have these columns. Then such rows raise no drift alarm, and " +
			"versions are withheld until [the gate](retraining.md#the-gate) has compared one. Rows that lack another column go to " +
			"[quarantine](producers.md#invalid-values), if most new rows do"},
		{Name: "missing_values", Meaning: readBy("missing_values") + ": words that mark a [missing value](values.md#missing-values), like an " +
			"empty field; also of the label, unless `classes` includes it"},
		{Name: "image", Meaning: "shape of image examples: height, width and channels, such as `[28, 28, 1]`. See " +
			"[images](images.md#tables-of-pixels); none: the shape in the file, or no images"},
		{Name: "batch_rows", Meaning: fmt.Sprintf("maximum number of examples in a message; fewer if they are wide, because a message "+
			"has at most %d bytes", wire.MaxMessage)},
		{Name: "class_weight", Meaning: "factor of the weights of training rows, by class: `none`, `balanced` (equal total weight of " +
			"each class), or `{label: number, …}`, with 1 for other labels. It applies to errors and losses of training rows, and in " +
			"`retrain.gate`"},
		{Name: "augment.mirror", Meaning: "also train on the mirror image of each training image; not for `run`"},
		{Name: "augment.shift", Meaning: "also train on each training image moved by 1 to this many pixels in each direction: see " +
			"[images](images.md#more-accuracy); not for `run`"},
		{Name: "holdout", Meaning: "fraction of the training rows that are scored but not fitted, from 0 to less than 1, chosen by a " +
			"hash"},
		{Name: "partitions", Meaning: "number of partitions of a created examples topic"},
	}...)
}

// textFormats lists the formats whose files are text, in Markdown.
func textFormats() string {
	var names []string
	for _, f := range formats() {
		if f.IsText {
			names = append(names, "`"+f.Name+"`")
		}
	}
	return option.Enumerate(names, "and")
}

// schemaFiles lists the kinds of schema files, in Markdown.
func schemaFiles() string {
	var kinds []string
	for _, f := range messageFormats() {
		if f.Schema.Type != "" {
			kinds = append(kinds, fmt.Sprintf("`%s` for `%s`", f.Schema.Ending, f.Name))
		}
	}
	return option.Enumerate(kinds, "or")
}

// readBy lists the formats that read a key, in Markdown. Those with named columns are tables.
func readBy(key string) string {
	names := readers(key)
	if slices.Equal(names, readers("columns.use")) {
		return "tables"
	}
	return option.Enumerate(names, "and")
}

// readers returns the formats that read a key, in Markdown.
func readers(key string) []string {
	var names []string
	for _, f := range formats() {
		if slices.Contains(f.Keys, key) {
			names = append(names, "`"+f.Name+"`")
		}
	}
	for _, f := range messageFormats() {
		if name := "`" + f.Name + "`"; slices.Contains(f.Keys, key) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
