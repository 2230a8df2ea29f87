package input

import "fmt"

// Partition is a partition value from a directory name, such as kind=iris, as in Hive and Spark.
type Partition struct {
	Column, Text string
	Null         bool
	IsWhole      bool // all values of the column are integers, and so is this one
	Whole        int64
	IsLayout     bool // the column only says when and where its writer stored the rows
}

// NullError adds to the error about a null that it is from a directory name, and how to leave its rows out.
func (p Partition) NullError(err error) error {
	return fmt.Errorf("%w. The column %s is null in the folder %[2]s=%[3]s: start the folder's name with a dot to leave its rows out",
		err, p.Column,
		p.Text)
}
