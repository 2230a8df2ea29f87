package input

// Partition is a partition value from a directory name, such as kind=iris, as in Hive and Spark.
type Partition struct {
	Column, Text string
	Null         bool
	IsWhole      bool // all values of the column are integers, and so is this one
	Whole        int64
}
