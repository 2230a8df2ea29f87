package compare

// Bars are a table of which each row has a bar, such as the importance of columns.
type Bars struct {
	Title   string
	Caption string
	Head    []string // of the first column, and of the cells
	Rows    []Bar
	Wrong   bool // the bars show what is wrong
}

// Bar is a row.
type Bar struct {
	Name   string
	Cells  []string
	Length float64 // of the bar: 0 to 1, which the longest one has
}

// Pixels returns the length of the bar in a drawing.
func (b Bar) Pixels() int { return int(240*min(max(b.Length, 0), 1) + 0.5) }
