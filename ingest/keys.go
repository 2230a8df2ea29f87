package ingest

import (
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/config/option"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/ingest/vocabulary"
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
		ofTopics = append(ofTopics, fmt.Sprintf("`%s` (%s)", f.Name, f.Meaning))
	}
	keys := []option.Key{
		{Name: "train", Meaning: "training files: a file or a list. Paths are relative to the folder of the configuration. A pattern " +
			"such as `data/*.csv` selects the matching files, sorted. A folder selects the tables in it, such as Spark's part files; " +
			"with Parquet and Arrow, folder names such as `kind=iris` become columns. Names that start with a dot or an " +
			"underscore are hidden, as in Spark. `\"-\"` is the standard input; none: the topic already has the examples" + pairs},
		{Name: "test", Meaning: "test files: a file or a list, as for `train`"},
		{Name: "from_topic", Meaning: "source topic that `run` and `ingest` follow, and `train` reads to its end: each message value " +
			"has one or more examples in the format `format`; not with `train` and `test`; none: no topic"},
		{Name: "on_changed_topic", Meaning: "what to do if `from_topic` no longer has the last message that was read (same offset, " +
			"timestamp and content): `stop` (with an error), `behind` (continue at the next offset, or at the current end of the " +
			"topic; no offset is read twice, as after a loss of messages) or `anew` (read the topic from its beginning, as a " +
			"different topic)"},
		{Name: "topic", Meaning: "the examples topic of another pipeline, such as `mnist.examples`, or any topic with examples: " +
			"`train` and `run` read it and never write to it; removed sources and forgotten rows of that pipeline are excluded " +
			"here too; not with `train`, `test` and `from_topic`; none: the pipeline's own topic"},
		{Name: "from", Meaning: "start of the examples of a run: a time, such as `2026-11-01T00:00:00Z`, one offset for all " +
			"partitions, or a list with an offset for each; none: the beginning of the topic"},
		{Name: "to", Meaning: "end of the examples of a run, as for `from`: before the first message with that time or offset; none: " +
			"the current end of the topic"},
		{Name: "format", Meaning: option.Enumerate(values, "or") +
			"; none: detected from the file name, then from the first bytes. With `from_topic`: " + option.Enumerate(ofTopics, "or")},
		{Name: "rows", Meaning: rowsMeaning()},
		{Name: "schema", Meaning: "schema file for the messages of `from_topic`: " + schemaFiles() + ". " + readBy("schema") +
			"; none: the registry has it"},
		{Name: "message", Meaning: "full name of the message in `schema`, such as `shop.Order`, if the file has several; none: its " +
			"only one"},
		{Name: "registry.url", Meaning: "URL of the schema registry, such as `https://registry:8081`, that the producers of " +
			"`from_topic` use. While it is unavailable, ingest waits. " + readBy("registry.url") +
			" need it for their schemas; with `json`, the prefix that its serializers add to each value is skipped; none: no registry"},
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
		{Name: "label", Meaning: readBy("label") + ": label column, by number from 0 or by name; none: column 0 of CSV, otherwise the " +
			"column `label`"},
		{Name: "weight", Meaning: readBy("weight") + ": weight column, by number from 0 or by name; none: every example has weight 1"},
		{Name: "served.label", Meaning: "with `from_topic`: path of the label that was served for the row, such as " +
			"`prediction.label`. Reports then include the error of served predictions by version. See " +
			"[answers](serving.md#answers-on-a-topic)"},
		{Name: "served.version", Meaning: "path of the version number that served this label, such as `version`"},
		{Name: "text", Meaning: readBy("text") + ": text column, by number from 0 or by name: its word counts are the features, as " +
			"sparse rows; other columns are features too only if `columns`, `categorical` or `times` is set (see " +
			"[events](texts.md#events)); none: no texts"},
		{Name: "words.vocabulary", Meaning: "with `text`: how words are assigned to columns: " + vocabulary.VocabularyMeanings()},
		{Name: "words.columns", Meaning: fmt.Sprintf("with `text`: number of columns that words are hashed to, or the maximum size of "+
			"a counted vocabulary, up to %d", vocabulary.MaxVocabulary)},
		{Name: "words.phrases", Meaning: fmt.Sprintf("with `text`: maximum length of phrases that are also counted: 2 counts pairs of "+
			"consecutive words; at most %d", vocabulary.MaxPhrases)},
		{Name: "labels", Meaning: "number of labels of an example: `one`, or `several` (zero or more): a list in `arrow` and `jsonl`, " +
			"a text with separators, or columns of 0 and 1. With `several`, links are `identity`, `logistic` and `calibrated`, " +
			"and a threshold for each metric is chosen on the holdout rows: without the key `holdout`, a fifth of the training " +
			"rows"},
		{Name: "label_separator", Meaning: readBy("label_separator") +
			": with several labels, the separator between the labels in a text; none: a comma, a semicolon or a bar"},
		{Name: "label_columns", Meaning: readBy("label_columns") + ": with several labels, one column for each label, named after it, " +
			"with 1 in the rows that have the label and 0 in the others; none: the column `label` has all labels of a row"},
		{Name: "targets", Meaning: readBy("targets") + ": the numeric columns to predict instead of a label, by number or name; in " +
			"messages of the examples topic, the column `targets`, a list with a number for each. Errors are in percent of the " +
			"variance; the report has the root mean squared error, the mean absolute error and R² of each target; none: predict a " +
			"label"},
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
		{Name: "optional", Meaning: "columns of `from_topic` that rows may stop to have, with `missing: mean`. If most new rows lack " +
			"another column that earlier rows had, as after a producer has renamed it, these rows go to quarantine"},
		{Name: "times", Meaning: readBy("times") + ": `{column: [hour, weekday], …}`: date and time columns, such as `2026-11-01 " +
			"09:30` or numbers, and the numeric features to derive from each: `hour` (0 to less than 24, with minutes as " +
			"a fraction), `weekday` (1 is Monday), `month` and `age` (days before the newest time in the first rows of the training " +
			"files; with `from_topic`, days before 1970). Times without a zone are UTC. `{column: {parts: [hour], unit: ms}}` also sets the " +
			"unit of numbers: `s`, `ms`, `us`, `ns` or `days` since 1970, `excel` (days since 1899-12-30) or `yyyymmdd` (also `yyyymmddhhmmss`); " +
			"`auto`: the one in which the first rows are times within 1950 to 2100"},
		{Name: "offsets", Meaning: "`{column: number, …}`: offsets subtracted from columns before conversion to float32, also for " +
			"predictions, such as for times in milliseconds, which float32 can't distinguish; none: detected from the first rows " +
			"of files, with a notice. For `from_topic`, which several processes may read, the notice only says which number to " +
			"set. Not for lists of numbers"},
		{Name: "classes", Meaning: "the allowed labels, in order; none: all labels found"},
		{Name: "missing", Meaning: "how to handle a missing value: an empty field, a null or NaN in a file (" +
			readBy("missing") + ") or a null in a message: `error` rejects it, `mean` replaces it with the mean of its feature"},
		{Name: "missing_values", Meaning: readBy("missing_values") + ": words that mark a missing value, like an empty field. In " +
			"a column of numbers, words that are numbers are compared as numbers, whatever the format: `-999` also marks `-999.0`. A row " +
			"whose label is one of them, or empty, has no label and is not trained on, unless `classes` includes it"},
		{Name: "image", Meaning: "shape of image examples: height, width and channels, such as `[28, 28, 1]`; the features are the " +
			"rows of the image from the top, each pixel with its channels; none: the shape in the file, as in `idx`, or the " +
			"examples are not images"},
		{Name: "batch_rows", Meaning: fmt.Sprintf("maximum number of examples in a message; fewer if they are wide, because a message "+
			"has at most %d bytes", wire.MaxMessage)},
		{Name: "class_weight", Meaning: "factor of the weights of training rows, by class: `none`, `balanced` (equal total weight of " +
			"each class: n/(k·c) for a class with c of n rows, of k classes), or `{label: number, …}`, with 1 for other labels. " +
			"Errors and losses of training rows are also weighted, those of other rows are not, except in `retrain.gate`"},
		{Name: "augment.mirror", Meaning: "also train on the mirror image of each training image; not for `run`"},
		{Name: "augment.shift", Meaning: "also train on each training image moved by 1 to this many pixels to the left, to the right, " +
			"up and down, with edge pixels repeated. An image and its copies share its weight. The copies are only on the " +
			"residuals topic; each takes as long as a row; not for `run`"},
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

// readBy lists the formats that read a key, in Markdown.
func readBy(key string) string {
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
	return option.Enumerate(names, "and")
}
