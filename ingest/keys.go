package ingest

import (
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/schemas"
)

// Keys documents the keys under `examples` of the configuration, in the order
// of the documentation.
func Keys() []schemas.Key {
	var values []string
	pairs := ""
	for _, f := range formats() {
		values = append(values, fmt.Sprintf("`%s` (%s)", f.name, f.meaning))
		if f.files > 1 {
			pairs += fmt.Sprintf(". `%s`: %s", f.name, f.wantFiles)
		}
	}
	var ofTopics []string
	for _, f := range valueFormats() {
		ofTopics = append(ofTopics, fmt.Sprintf("`%s` (%s)", f.name, f.meaning))
	}
	return []schemas.Key{
		{Name: "train", Meaning: "a file to train on, or a list of files; a path is relative to the configuration's folder; a pattern such as `data/*.csv` stands for the files that match, sorted; " +
			"`\"-\"` is the standard input; none: the topic already has the examples" + pairs},
		{Name: "test", Meaning: "a file to test on, or a list of files, as for `train`"},
		{Name: "from_topic", Meaning: "a topic that `ingest` follows: each message has an example or several in its value, in the format that `format` says; not beside `train` and `test`; none: no topic"},
		{Name: "on_changed_topic", Meaning: "what `ingest` does if `from_topic` no longer has the message that was read last, by its offset, time and content: `stop` (with an error), " +
			"`behind` (go on where reading had got to, or where the topic ends now: no offset is read twice, as after the loss of messages) or `anew` (read it from its beginning, as another topic)"},
		{Name: "topic", Meaning: "the examples topic of another pipeline, as `mnist.examples`, or any topic with examples: `train` and `run` read it and never write there; what that pipeline says of its sources, and of rows to forget, " +
			"counts here too; not beside `train`, `test` and `from_topic`; none: the pipeline's own"},
		{Name: "from", Meaning: "where a run of the topic begins: a time, as `2026-11-01T00:00:00Z`, an offset of every partition, or a list with an offset for each; none: where the topic begins"},
		{Name: "to", Meaning: "where a run of the topic ends, as for `from`: before the first message with that time or offset; none: where the topic ends now"},
		{Name: "format", Meaning: enumerate(values, "or") + "; none: told by the file's name, then by its first bytes. With `from_topic`: " + enumerate(ofTopics, "or")},
		{Name: "label", Meaning: readBy("label") + ": the column of the label, by its number from 0 or by its name; none: column 0 of CSV, and otherwise the column `label`"},
		{Name: "weight", Meaning: readBy("weight") + ": the column of the weight, by its number from 0 or by its name; none: every example weighs 1"},
		{Name: "text", Meaning: readBy("text") + ": a column of texts, by its number from 0 or by its name: its words are counted, and the counts are the features, sparse rows; other columns than it, the label and the weight are left out; none: no texts"},
		{Name: "words.vocabulary", Meaning: "with `text`: how words get columns: " + vocabularyMeanings()},
		{Name: "words.columns", Meaning: fmt.Sprintf("with `text`: how many columns the words are hashed to, or the most that a counted vocabulary has, which may be %d", maxVocabulary)},
		{Name: "words.phrases", Meaning: fmt.Sprintf("with `text`: the most words that are counted together too, as 2 counts each pair of words that follow one another; at most %d", maxPhrases)},
		{Name: "labels", Meaning: "how many labels an example may have: `one`, or `several`, or none of them: a list of `arrow` and `jsonl`, a text with separators, or columns of 0 and 1. " +
			"Links are then `identity`, `logistic` and `calibrated`; thresholds are chosen on the holdout rows, one for each metric: without the key `holdout` a fifth of the training rows"},
		{Name: "label_separator", Meaning: readBy("label_separator") + ": with several labels, what stands between those of a text; none: a comma, a semicolon or a bar"},
		{Name: "label_columns", Meaning: readBy("label_columns") + ": with several labels, the columns that have 1 in the rows with the label that the column is called and 0 in the others; none: the column `label` has all labels of a row"},
		{Name: "targets", Meaning: readBy("targets") + ": the columns of numbers that are predicted in place of a label, by their numbers or names; in messages of the examples topic the column `targets`, a list of so many numbers. " +
			"Errors are then in percent of the variance; the report has the root mean squared error, the mean absolute error and R² of each; none: a label is predicted"},
		{Name: "header", Meaning: readBy("header") + ": whether the first row has the names of the columns; none: it has them if a key gives a column by its name"},
		{Name: "delimiter", Meaning: readBy("delimiter") + ": the character between the fields of a row; none: told by the first rows"},
		{Name: "columns.use", Meaning: readBy("columns.use") + ": the columns that become features, by number or name; none: all but the label, the weight and those that are dropped"},
		{Name: "columns.drop", Meaning: readBy("columns.drop") + ": columns that are left out, as those of ids"},
		{Name: "categorical", Meaning: readBy("categorical") + ": columns of words. Each becomes a feature for each word that it has in `train`, and one for all other words"},
		{Name: "classes", Meaning: "the labels that are allowed, in order; none: the labels that are found"},
		{Name: "class_weight", Meaning: "by what the weights of training rows are multiplied, by their class: `none`, `balanced` (every class weighs the same: n/(k·c) for a class with c of n rows, of k classes), " +
			"or `{label: number, …}`, with 1 for labels that it does not name. Errors and losses of the training rows are weighted so too, those of other rows are not"},
		{Name: "missing", Meaning: "what to do with a missing value, which is an empty field, a null or NaN of a file (" + readBy("missing") + ") or a null in a message: `error` refuses it, `mean` replaces it with the mean of its feature"},
		{Name: "missing_values", Meaning: readBy("missing_values") + ": words that say that a value is missing, as an empty field does; in tables with types only those of columns of words"},
		{Name: "image", Meaning: "the shape of examples that are images: height, width and channels, such as `[28, 28, 1]`; the features are the rows of the image from the top, each pixel with its channels; none: the file says it, as `idx` does, or the examples are no images"},
		{Name: "augment.mirror", Meaning: "of each image that is trained on, its mirror image is trained on too; not for `run`"},
		{Name: "augment.shift", Meaning: "each image that is trained on is also trained on moved by 1 to so many pixels to the left, to the right, up and down, with the pixels at the edges repeated. " +
			"An image and those made of it share its weight. They are on no topic but that of residuals; each takes as long as a row; not for `run`"},
		{Name: "holdout", Meaning: "fraction of the training rows that are scored but not fitted, from 0 to less than 1; a hash chooses them"},
		{Name: "partitions", Meaning: "number of partitions of the examples topic, when it is created"},
		{Name: "batch_rows", Meaning: fmt.Sprintf("maximum number of examples in a message; fewer if they are wide, as a message has at most %d bytes", schemas.MaxMessage)},
	}
}

// readBy lists the formats that read a key, in Markdown.
func readBy(key string) string {
	var names []string
	for _, f := range formats() {
		if slices.Contains(f.keys, key) {
			names = append(names, "`"+f.name+"`")
		}
	}
	for _, f := range valueFormats() {
		if name := "`" + f.name + "`"; slices.Contains(f.keys, key) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return enumerate(names, "and")
}
