package schemas

import "fmt"

// Number is what a tensor holds: float32 for weights and sampled rows,
// float64 for sums.
type Number interface{ float32 | float64 }

// Tensor is a named array of numbers, row-major, or a named list of text
// (labels). Shape's product is the length of Data, or of Text.
type Tensor[T Number] struct {
	Name  string
	Shape []int
	Data  []T
	Text  []string
}

// Matrix makes a rows × cols tensor of data that it does not copy.
func Matrix[T Number](name string, rows, cols int, data []T) Tensor[T] {
	if rows*cols != len(data) {
		panic(fmt.Sprintf("schemas: tensor %s of %d × %d from %d values", name, rows, cols, len(data)))
	}
	return Tensor[T]{Name: name, Shape: []int{rows, cols}, Data: data}
}

// Vector makes a tensor of one dimension of data that it does not copy.
func Vector[T Number](name string, data []T) Tensor[T] {
	return Tensor[T]{Name: name, Shape: []int{len(data)}, Data: data}
}

// Words makes a tensor of text.
func Words[T Number](name string, text []string) Tensor[T] {
	return Tensor[T]{Name: name, Shape: []int{len(text)}, Text: text}
}

// Tensors is the content of a record, in a fixed order.
type Tensors[T Number] []Tensor[T]

// Find is the tensor of that name, or false.
func (t Tensors[T]) Find(name string) (Tensor[T], bool) {
	for _, tensor := range t {
		if tensor.Name == name {
			return tensor, true
		}
	}
	return Tensor[T]{}, false
}

// Shaped is the data of the tensor of that name, or a *ShapeError if it is
// absent or of another shape.
func (t Tensors[T]) Shaped(name string, shape ...int) ([]T, error) {
	tensor, ok := t.Find(name)
	if !ok {
		return nil, &ShapeError{Tensor: name, Want: shape}
	}
	if len(shape) != len(tensor.Shape) {
		return nil, &ShapeError{name, tensor.Shape, shape}
	}
	for i := range shape {
		if shape[i] != tensor.Shape[i] {
			return nil, &ShapeError{name, tensor.Shape, shape}
		}
	}
	return tensor.Data, nil
}

// ShapeError says that a record lacks a tensor or holds one of another shape
// than its plan asks for.
type ShapeError struct {
	Tensor string
	Got    []int // nil: absent
	Want   []int
}

func (e *ShapeError) Error() string {
	if e.Got == nil {
		return fmt.Sprintf("tensor %q is absent, expected shape %v", e.Tensor, e.Want)
	}
	return fmt.Sprintf("tensor %q has shape %v, expected %v", e.Tensor, e.Got, e.Want)
}

func (t Tensors[T]) write(h *hasher) {
	h.int(len(t))
	for _, tensor := range t {
		h.text(tensor.Name)
		h.int(len(tensor.Shape))
		h.int(tensor.Shape...)
		h.int(len(tensor.Data), len(tensor.Text))
		writeNumbers(h, tensor.Data)
		h.text(tensor.Text...)
	}
}
