package serve

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/value"
)

// headerLength is the header with the length of the JSON in a body of the Open Inference Protocol. Binary tensors follow it.
const headerLength = "Inference-Header-Content-Length"

// tensor is an input of a request: values in row-major order, as JSON or in bytes.
type tensor struct {
	name     string
	datatype string
	shape    []int
	data     value.Cell // JSON; nil: they are in bytes
	bytes    []byte
}

// tensorStream returns the inputs of a request of the Open Inference Protocol as an Arrow stream, for which it reserves memory, and sets
// the requested contents of the answer.
func (p *prediction) tensorStream(body []byte) ([]byte, error) {
	text, length := body, p.request.Header.Get(headerLength)
	if length != "" {
		n, err := strconv.Atoi(length)
		if err != nil || n < 0 || n > len(body) {
			return nil, fmt.Errorf("%s %.20q: expected a length within the %d bytes of the body", headerLength, length, len(body))
		}
		text = body[:n]
	}
	object, err := parse(text)
	if err != nil {
		return nil, err
	}
	var inputs, outputs value.Cell
	err = object.Each(func(key []byte, cell value.Cell) (err error) {
		switch string(key) {
		case "id":
			if p.asks.id = bytes.Clone(cell); cell[0] != '"' {
				err = fmt.Errorf(`"id": %s: expected a text`, cell)
			}
		case "inputs":
			inputs = cell
		case "outputs":
			outputs = cell
		case "parameters":
			p.asks.binary, err = truthOf(cell, "binary_data_output", false)
		}
		return err
	})
	if err == nil {
		err = p.asks.setOutputs(outputs, p.outputs())
	}
	if err != nil {
		return nil, err
	}
	n := 0
	for range inputs.All() {
		n++
	}
	rest := body[len(text):]
	c, err := p.columns(len(body), n == 1)
	if err != nil {
		return nil, err
	}
	for input := range inputs.All() {
		t, err := tensorOf(input, &rest)
		if err == nil {
			err = c.add(&t)
		}
		if err != nil {
			return nil, fmt.Errorf("input %.40q: %w", t.name, err)
		}
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes follow the binary data of the inputs", len(rest))
	}
	return c.stream()
}

// tensorOf returns an input. Its binary data are the first bytes of rest, and are removed from it.
func tensorOf(input value.Cell, rest *[]byte) (t tensor, err error) {
	size := -1
	err = input.Each(func(key []byte, cell value.Cell) (err error) {
		switch string(key) {
		case "name":
			t.name, err = textOf(cell)
		case "datatype":
			t.datatype, err = textOf(cell)
		case "data":
			t.data = cell
		case "shape":
			for n := range cell.All() {
				length, err := strconv.Atoi(string(n))
				if t.shape = append(t.shape, length); err != nil || length < 1 || len(t.shape) > maxDimensions {
					return fmt.Errorf("shape %.60s: expected up to %d lengths of at least 1", []byte(cell), maxDimensions)
				}
			}
		case "parameters":
			return cell.Each(func(key []byte, cell value.Cell) (err error) {
				if string(key) != "binary_data_size" {
					return nil
				}
				if size, err = strconv.Atoi(string(cell)); err != nil || size < 0 || size > len(*rest) {
					err = fmt.Errorf("binary_data_size %s: the body has %d more bytes after the JSON (%s)", cell, len(*rest), headerLength)
				}
				return err
			})
		}
		return err
	})
	switch {
	case err != nil:
	case size >= 0 && t.data != nil:
		err = errors.New(`"data" and "binary_data_size": expected one of them`)
	case size >= 0:
		t.bytes, *rest = (*rest)[:size], (*rest)[size:]
	case t.data == nil:
		err = errors.New(`no "data"`)
	}
	return t, err
}

// columnStream returns an object of lists as an Arrow stream: each is a tensor, with the datatype of its first value. Whole numbers keep
// their digits, since they may be words.
func (p *prediction) columnStream(object value.Cell) ([]byte, error) {
	c, err := p.columns(len(object), false)
	if err != nil {
		return nil, err
	}
	err = object.Each(func(name []byte, column value.Cell) error {
		t := tensor{name: string(name), datatype: "FP64", shape: []int{0}, data: column}
		var first value.Cell
		whole := true
		for item := range column.All() {
			if t.shape[0]++; first.Null() {
				first = item
			}
			if whole && !item.Null() {
				_, err := strconv.ParseInt(string(item), 10, 64)
				whole = err == nil
			}
		}
		if t.shape[0] == 0 {
			return fmt.Errorf("column %.40q: %s: expected a list of values", name, column)
		}
		if !first.Null() && first[0] == '[' {
			list := first
			t.shape = append(t.shape, 0)
			for item := range list.All() {
				t.shape[1]++
				first = item
			}
		}
		switch {
		case first.Null():
		case first[0] == '"':
			t.datatype = "BYTES"
		case first[0] == 't' || first[0] == 'f':
			t.datatype = "BOOL"
		case whole:
			t.datatype = "INT64"
		}
		if err := c.add(&t); err != nil {
			return fmt.Errorf("column %.40q: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c.stream()
}

// maxDimensions limits the depth of lists in a tensor.
const maxDimensions = 8

// typeOf returns the type of columns with a datatype; nil if there is no such datatype.
func typeOf(datatype string) arrow.DataType {
	switch datatype {
	case "BYTES":
		return arrow.BinaryTypes.String
	case "BOOL":
		return arrow.FixedWidthTypes.Boolean
	case "FP16":
		return arrow.FixedWidthTypes.Float16
	case "FP32":
		return arrow.PrimitiveTypes.Float32
	case "FP64":
		return arrow.PrimitiveTypes.Float64
	case "INT8":
		return arrow.PrimitiveTypes.Int8
	case "INT16":
		return arrow.PrimitiveTypes.Int16
	case "INT32":
		return arrow.PrimitiveTypes.Int32
	case "INT64":
		return arrow.PrimitiveTypes.Int64
	case "UINT8":
		return arrow.PrimitiveTypes.Uint8
	case "UINT16":
		return arrow.PrimitiveTypes.Uint16
	case "UINT32":
		return arrow.PrimitiveTypes.Uint32
	case "UINT64":
		return arrow.PrimitiveTypes.Uint64
	}
	return nil
}

// size returns the number of bytes of a binary value; 0 for texts, which have any.
func (t *tensor) size() int {
	if fixed, ok := typeOf(t.datatype).(arrow.FixedWidthDataType); ok {
		return max(1, fixed.BitWidth()/8)
	}
	return 0
}

// check checks the shape and the number of bytes, and returns the number of values. A value takes at least one of most bytes.
func (t *tensor) check(most int) (values int, err error) {
	if typeOf(t.datatype) == nil {
		return 0, fmt.Errorf("datatype %.20q: expected BYTES, BOOL, FP16, FP32, FP64, INT8 to INT64, or UINT8 to UINT64", t.datatype)
	}
	if len(t.shape) == 0 {
		return 0, errors.New("no shape")
	}
	values = 1
	for _, n := range t.shape {
		if n < 1 || values > most/n {
			return 0, fmt.Errorf("shape %v: expected at least 1 value, and no more than the %d bytes of the request", t.shape, most)
		}
		values *= n
	}
	if size := t.size(); t.data == nil && size > 0 && values*size != len(t.bytes) {
		return 0, fmt.Errorf("binary_data_size %d: shape %v of %s has %d bytes", len(t.bytes), t.shape, t.datatype, values*size)
	}
	return values, nil
}

// columns are the columns of rows in a request.
type columns struct {
	*prediction
	names  []string // of the model; nil: none
	most   int      // bytes of the request
	single bool     // it has only one input
	rows   int
	fields []arrow.Field
	arrays []arrow.Array
}

func (p *prediction) columns(most int, single bool) (*columns, error) {
	r, err := p.reader()
	if err != nil {
		return nil, refuse(http.StatusInternalServerError, "%v", err)
	}
	defer p.keep(r)
	return &columns{prediction: p, names: r.layout.List(), most: most, single: single}, nil
}

// add adds a tensor as a column with its name: of values, or of lists. If it is the only one, and has another name than the columns of the
// model, it has all of them, in the order of the model. Otherwise one that is no column of the model is ignored.
func (c *columns) add(t *tensor) error {
	values, err := t.check(c.most)
	if err != nil {
		return err
	}
	n := t.shape[0]
	switch {
	case c.rows != 0 && n != c.rows:
		return fmt.Errorf("shape %v: another input has %d rows", t.shape, c.rows)
	case n > c.Server.options.MaxRows:
		return c.manyRows()
	}
	c.rows = n
	names, width := []string{t.name}, values/n
	if c.names != nil && !slices.Contains(c.names, t.name) {
		switch names = c.names; {
		case !c.single:
			return nil
		case width != len(names):
			return fmt.Errorf("%d values in a row: expected an input for each column of the model, with its name, or one with all %d values",
				width, len(names))
		}
	}
	c.again += 2*(values*(t.size()+8)+len(t.data)+len(t.bytes)) + columnBytes*len(names) // as columns, and as a stream
	if err := c.unpack(input.Unpacked{}); err != nil {
		return err
	}
	arrays, err := t.columns(values, len(names))
	for i, array := range arrays {
		if width > len(names) {
			array = lists(array, width)
		}
		c.fields = append(c.fields, arrow.Field{Name: names[i], Type: array.DataType(), Nullable: true})
		c.arrays = append(c.arrays, array)
	}
	return err
}

// columnBytes is the memory of a column besides its values.
const columnBytes = 1 << 10

// stream returns the columns as an Arrow stream.
func (c *columns) stream() ([]byte, error) {
	if len(c.arrays) == 0 {
		return nil, errors.New("no inputs that are columns of the model")
	}
	return stream.Encode(array.NewRecord(arrow.NewSchema(c.fields, nil), c.arrays, int64(c.rows)), memory.DefaultAllocator)
}

// lists returns a column of lists with so many of the values.
func lists(values arrow.Array, width int) arrow.Array {
	of := arrow.FixedSizeListOf(int32(width), values.DataType())
	return array.MakeFromData(array.NewData(of, values.Len()/width, []*memory.Buffer{nil}, []arrow.ArrayData{values.Data()}, 0, 0))
}

// columns returns n columns: value i is in column i mod n.
func (t *tensor) columns(values, n int) ([]arrow.Array, error) {
	of, size := typeOf(t.datatype), t.size()
	columns := make([]arrow.Array, n)
	if t.data == nil && size > 0 && t.datatype != "BOOL" {
		for j := range columns {
			column := make([]byte, 0, len(t.bytes)/n)
			for at := j * size; at < len(t.bytes); at += n * size {
				column = append(column, t.bytes[at:at+size]...)
			}
			columns[j] = array.MakeFromData(array.NewData(of, values/n, []*memory.Buffer{nil, memory.NewBufferBytes(column)}, nil, 0, 0))
		}
		return columns, nil
	}
	builders := make([]array.Builder, n)
	for j := range builders {
		builders[j] = array.NewBuilder(memory.DefaultAllocator, of)
		builders[j].Reserve(values / n)
	}
	i := 0
	err := t.each(func(text []byte, null bool) error {
		if i == values {
			return fmt.Errorf("more values than those of shape %v", t.shape)
		}
		b := builders[i%n]
		i++
		if null {
			b.AppendNull()
		} else if texts, ok := b.(*array.StringBuilder); ok {
			texts.BinaryBuilder.Append(text)
		} else if b.AppendValueFromString(string(text)) != nil {
			return fmt.Errorf("value %d: %s: expected %s", i-1, value.Cell(text), t.datatype)
		}
		return nil
	})
	if err == nil && i < values {
		err = fmt.Errorf("%d values, expected the %d of shape %v", i, values, t.shape)
	}
	for j, b := range builders {
		columns[j] = b.NewArray()
	}
	return columns, err
}

// each calls put with the text of each value.
func (t *tensor) each(put func(text []byte, null bool) error) error {
	switch {
	case t.data != nil:
		return eachItem(t.data, len(t.shape), func(item value.Cell) error {
			if t.datatype != "BYTES" || item.Null() {
				return put(item, item.Null())
			}
			text, err := textOf(item)
			if err != nil {
				return err
			}
			return put([]byte(text), false)
		})
	case t.datatype == "BOOL":
		for _, b := range t.bytes {
			if err := put(strconv.AppendUint(nil, uint64(b), 10), false); err != nil {
				return err
			}
		}
		return nil
	}
	for rest := t.bytes; len(rest) > 0; {
		n := math.MaxInt
		if len(rest) >= 4 {
			n = int(binary.LittleEndian.Uint32(rest)) + 4
		}
		if n > len(rest) {
			return errors.New("the binary data end within a text: expected its length in 4 bytes, and the text")
		}
		if err := value.CheckUTF8(rest[4:n]); err != nil {
			return err
		}
		if err := put(rest[4:n], false); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// eachItem calls put with the values in lists of a depth.
func eachItem(list value.Cell, depth int, put func(value.Cell) error) error {
	for item := range list.All() {
		var err error
		if depth > 1 && item[0] == '[' {
			err = eachItem(item, depth-1, put)
		} else {
			err = put(item)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// textOf returns the text of a JSON string.
func textOf(cell value.Cell) (string, error) {
	if cell.Null() || cell[0] != '"' {
		return "", fmt.Errorf("%s: expected a text", cell)
	}
	return string(cell.Name()), nil
}

// truthOf returns a boolean member of an object; otherwise if it has none.
func truthOf(object value.Cell, name string, otherwise bool) (v bool, err error) {
	v = otherwise
	err = object.Each(func(key []byte, cell value.Cell) (err error) {
		if string(key) == name {
			if v, err = truth(cell); err != nil {
				err = fmt.Errorf("%q: %w", name, err)
			}
		}
		return err
	})
	return v, err
}
