// Package tabular has the rows of tables as their formats read them: cells, columns of values, and blocks of both. It does
// not depend on the roles of columns.
package tabular

// Kind is the kind of a column's values.
type Kind uint8

const (
	Unread   Kind = iota // unsupported
	Numeric              // floating-point numbers
	Whole                // whole numbers
	Boolean              // as numbers 0 and 1
	Text                 // words, or whole texts
	List                 // of numbers, with a fixed length
	TextList             // lists of texts
	None                 // of a null or an empty list
	Pairs                // lists of index and value: sparse rows
	Moment               // dates or times, formatted as [value.Time] parses them
	Any                  // of another kind in each row
)

// IsNumber reports whether values are numbers, or booleans, which count as 0 and 1.
func IsNumber(k Kind) bool { return k == Whole || k == Numeric || k == Boolean }

// Field is a column of a table, as its file describes it.
type Field struct {
	Name   string
	Kind   Kind
	Type   string // type name of the file format
	Digits bool   // a text column whose texts may all be numbers
	Length int    // of a list
	Advice string // how to make an unsupported column readable; "": convert it to numbers
}

// AdviseTimes is the advice for a column of dates or times that is not a feature.
const AdviseTimes = "list it under examples.times"
