package ingest

import "github.com/stagewise/stagewise/schemas"

// Keys documents the keys under `examples`.
func Keys() []schemas.Key {
	return []schemas.Key{
		{Name: "train", Meaning: "files to train on; idx files in pairs, images first. Empty: train on the examples that are on the topic"},
		{Name: "test", Meaning: "files to test on"},
		{Name: "format", Meaning: "`idx` or `csv`. None: found from the file's name, or else from its first bytes"},
		{Name: "label", Meaning: "CSV: the column of the label, by its number from 0 or by its name. None: column 0"},
		{Name: "weight", Meaning: "CSV: the column of the example's weight, by its number or name. None: every example weighs 1"},
		{Name: "header", Meaning: "CSV: whether the first row has the names of the columns. None: it has if a column is given by its name"},
		{Name: "classes", Meaning: "the labels that may occur, in order. Empty: the labels that are found"},
		{Name: "missing", Meaning: "CSV: how to treat an empty field: as an `error`, or as the column's `mean`"},
		{Name: "holdout", Meaning: "fraction of the training rows that are held out of the fit, from 0 to less than 1, chosen by hash"},
		{Name: "partitions", Meaning: "partitions of the examples topic when it is created"},
		{Name: "batch_rows", Meaning: "maximum number of examples in a message"},
	}
}
