package examples

// LabelRows is the number of rows with a label.
type LabelRows struct {
	Label string `json:"label"` // label
	Rows  int64  `json:"rows"`  // number of rows
}
