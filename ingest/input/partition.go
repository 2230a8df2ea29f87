package input

// Partition is the value of a column that the name of a folder has, such as kind=iris, as Hive and Spark partition tables.
type Partition struct {
	Column, Text string
	Null         bool
	IsWhole      bool // all values of the column in the folder are whole numbers, and this is whole
	Whole        int64
}
