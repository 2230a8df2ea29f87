package kernel

import "fmt"

// Dense is a row-major matrix without gaps between its rows. The zero value is the 0×0 matrix.
type Dense struct {
	// Rows and Cols are the shape.
	Rows, Cols int
	// Data has Rows·Cols values.
	Data []float32
}

// NewDense returns a rows×cols matrix of zeros.
func NewDense(rows, cols int) Dense {
	return Dense{Rows: rows, Cols: cols, Data: make([]float32, rows*cols)}
}

// Reshape makes d rows×cols. It allocates only if d's memory is too small. The values are unspecified.
func (d *Dense) Reshape(rows, cols int) {
	if n := rows * cols; n <= cap(d.Data) {
		d.Data = d.Data[:n]
	} else {
		d.Data = make([]float32, n)
	}
	d.Rows, d.Cols = rows, cols
}

// Row returns row i. It shares d's memory, and its capacity ends with the row.
func (d Dense) Row(i int) []float32 {
	return d.Data[i*d.Cols : (i+1)*d.Cols : (i+1)*d.Cols]
}

// Slice returns the rows [from, to), which share d's memory.
func (d Dense) Slice(from, to int) Dense {
	return Dense{Rows: to - from, Cols: d.Cols, Data: d.Data[from*d.Cols : to*d.Cols : to*d.Cols]}
}

// check panics unless d is rows×cols and has rows·cols values: C code would read or write past a short slice.
func (d Dense) check(operation, operand string, rows, cols int) {
	if d.Rows != rows || d.Cols != cols {
		panic(fmt.Sprintf("kernel: %s: %s is %d×%d, want %d×%d", operation, operand, d.Rows, d.Cols, rows, cols))
	}
	if rows < 0 || cols < 0 || len(d.Data) != rows*cols {
		panic(fmt.Sprintf("kernel: %s: %s has %d values, want %d×%d", operation, operand, len(d.Data), rows, cols))
	}
}

// checkBelow panics if an index is not below n: assembly would read or write past the end.
func checkBelow[I int32 | uint8](operation, what string, indices []I, n int) {
	for _, index := range indices {
		if uint(index) >= uint(n) {
			panic(fmt.Sprintf("kernel: %s: %s %d of %d", operation, what, index, n))
		}
	}
}
