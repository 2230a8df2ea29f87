package format

// Column is a column of a table as its file describes it.
type Column struct {
	Name    string // "": the file has no names
	Type    string // type name of the file format; "": untyped text
	Numbers bool   // its cells may be numeric features
	Words   bool   // its cells may be words
	List    bool   // each cell is a list of numbers
}

// Viewer receives a table: its columns, then their cells. The cells of a column come in row order; those of lists and of
// unsupported types are omitted. A missing cell is "". The files of a table are shown one after the other.
type Viewer interface {
	// Columns receives the columns of a file.
	Columns(columns []Column)
	// Cell receives a cell. text is valid during the call.
	Cell(column int, text string)
}
