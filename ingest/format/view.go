package format

// Column is a column of a table as its file describes it.
type Column struct {
	Name    string // "": the file has no names
	Type    string // the file's name of its type; "": its cells are text without types
	Numbers bool   // its cells may be numbers to learn from
	Words   bool   // its cells may be words
	List    bool   // each cell is a list of numbers
}

// Viewer is shown a table: its columns, then their cells. The cells of a column come in the order of the rows; those of lists, and of
// types that are not read, don't come. A missing cell is "". The files of one table are shown one after the other.
type Viewer interface {
	// Columns takes the columns of a file.
	Columns(columns []Column)
	// Cell takes a cell. text is valid during the call.
	Cell(column int, text string)
}
