package plain

import (
	"cmp"
	"fmt"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/schemas/value"
)

// jsonKinds records the kinds of a column's values.
type jsonKinds struct {
	seen   int          // bitmap of kinds
	length int          // length of the first list of numbers
	word   tabular.Cell // the first string that is not a number; null: none
}

// see records the kind of a value. Null and empty lists have none.
func (k *jsonKinds) see(cell tabular.Cell, missing value.Missing) {
	kind, length := cell.Kind()
	if kind == tabular.None {
		return
	}
	k.seen |= 1 << kind
	if kind == tabular.List {
		k.length = cmp.Or(k.length, length)
	}
	if _, err := cell.Number(missing); kind == tabular.Text && err != nil && k.word.Null() {
		k.word = cell
	}
}

// kind returns the kind of a column with these values: Text includes numbers, and TextList lists of numbers.
func (k *jsonKinds) kind() tabular.Kind {
	const numbers = 1<<tabular.Whole | 1<<tabular.Numeric | 1<<tabular.Boolean
	switch {
	case k.seen == 1<<tabular.Whole:
		return tabular.Whole
	case k.seen == 1<<tabular.Boolean:
		return tabular.Boolean
	case k.seen&^numbers == 0:
		return tabular.Numeric
	case k.seen&^numbers == 1<<tabular.Text:
		return tabular.Text
	case k.seen == 1<<tabular.List:
		return tabular.List
	case k.seen&^(1<<tabular.List) == 1<<tabular.TextList:
		return tabular.TextList
	case k.seen == 1<<tabular.Pairs:
		return tabular.Pairs
	}
	return tabular.Unread
}

// digits reports whether all strings of the column are numbers.
func (k *jsonKinds) digits() bool { return k.kind() == tabular.Text && k.word.Null() }

// advice returns the advice for a column of numbers and words; "" for another one.
func (k *jsonKinds) advice() string {
	if k.kind() != tabular.Text || k.word.Null() || k.seen == 1<<tabular.Text {
		return ""
	}
	return fmt.Sprintf("examples.missing_values lists the words for a missing value, if %s is one", &k.word)
}

// String lists the kinds for error messages.
func (k *jsonKinds) String() string {
	var names []string
	for i, name := range []string{tabular.Unread: "object", tabular.Numeric: "number", tabular.Whole: "whole number",
		tabular.Boolean: "boolean", tabular.Text: "string", tabular.List: "list of numbers", tabular.TextList: "list of strings",
		tabular.Pairs: "list of index and value"} {
		if k.seen&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if names == nil {
		return "null"
	}
	return english.WordSeries(names, "and")
}
