package serve

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/float16"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
)

// headerLength is the header with the length of the JSON in a body of the Open Inference Protocol. Binary tensors follow it.
const headerLength = "Inference-Header-Content-Length"

// tensor is an input of a request: values in row-major order, as JSON or in bytes.
type tensor struct {
	name     string
	datatype string
	of       arrow.DataType   // the type of its values; nil: there is no such datatype
	size     int              // bytes of a value; 0: a text
	contents protowire.Number // the field of typed values in a message
	shape    []int
	data     value.Cell // JSON; nil: they are in bytes
	bytes    []byte
}

// table is the rows of a request of the Open Inference Protocol: a column for each tensor.
type table struct {
	fields  []arrow.Field
	columns []arrow.Array
	rows    int
}

// tensors returns the inputs of a request of the Open Inference Protocol as a record, for which it reserves memory, and sets the requested
// contents of the answer.
func (p *prediction) tensors(body []byte) (arrow.Record, error) {
	read := p.readInputs
	if p.kind == typeCall {
		read = p.readCall
	}
	inputs, err := read(body)
	if err != nil {
		return nil, err
	}
	r, err := p.reader()
	if err != nil {
		return nil, err
	}
	names := r.layout.Names
	p.readers.Put(r)
	t := &table{}
	for i := range inputs {
		if err := p.addTensor(t, &inputs[i], names, len(body), len(inputs) == 1); err != nil {
			return nil, fmt.Errorf("input %.40q: %w", inputs[i].name, err)
		}
	}
	if len(t.columns) == 0 {
		text := "no inputs that are columns of the model"
		if names != nil {
			text += ": " + layout.SomeNames(names)
		}
		return nil, errors.New(text)
	}
	return array.NewRecord(arrow.NewSchema(t.fields, nil), t.columns, int64(t.rows)), nil
}

// readInputs returns the inputs in a body of JSON, which their binary data follow, and sets the contents of the answer.
func (p *prediction) readInputs(body []byte) (inputs []tensor, err error) {
	var rest []byte
	if length := p.request.Header.Get(headerLength); length != "" {
		n, err := strconv.Atoi(length)
		if err != nil || n < 0 || n > len(body) {
			return nil, fmt.Errorf("%s %.20q: expected a length within the %d bytes of the body", headerLength, length, len(body))
		}
		body, rest = body[:n], body[n:]
	}
	object, err := parse(body)
	if err != nil {
		return nil, err
	}
	var list, outputs value.Cell
	err = members{"inputs": keep(&list), "outputs": keep(&outputs), "id": func(cell value.Cell) error {
		p.asks.id = bytes.Clone(cell)
		_, err := textOf(cell)
		return err
	}, "parameters": members{"binary_data_output": keepTruth(&p.asks.binary)}.read}.read(object)
	if err != nil {
		return nil, err
	}
	for item := range outputs.All() {
		name, isBinary := "", p.asks.binary
		err := members{"name": keepText(&name), "parameters": members{"binary_data": keepTruth(&isBinary)}.read}.read(item)
		if err != nil {
			return nil, fmt.Errorf(`"outputs": %w`, err)
		}
		if err := p.asks.want(p.version, name, isBinary); err != nil {
			return nil, err
		}
	}
	for item := range list.All() {
		in, err := tensorOf(item, &rest)
		if err = cmp.Or(err, p.unpackAgain(columnBytes)); err != nil {
			return nil, fmt.Errorf("input %.40q: %w", in.name, err)
		}
		inputs = append(inputs, in)
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes follow the binary data of the inputs", len(rest))
	}
	return inputs, nil
}

// tensorOf returns an input. Its binary data are the first bytes of rest, and are removed from it.
func tensorOf(input value.Cell, rest *[]byte) (t tensor, err error) {
	size, content := -1, ""
	err = members{"name": keepText(&t.name), "datatype": keepText(&t.datatype), "data": keep(&t.data), "shape": func(cell value.Cell) error {
		for n := range cell.All() { // of a shape that is too long, only the first lengths are read
			length, err := strconv.Atoi(string(n))
			if t.shape = append(t.shape, length); err != nil || length < 1 || len(t.shape) > maxDimensions {
				return wrongShape(cell)
			}
		}
		return nil
	}, "parameters": members{"content_type": keepText(&content), "binary_data_size": func(cell value.Cell) (err error) {
		if size, err = strconv.Atoi(string(cell)); err != nil || size < 0 || size > len(*rest) {
			err = fmt.Errorf("binary_data_size %s: the body has %d more bytes after the JSON (%s)", cell, len(*rest), headerLength)
		}
		return err
	}}.read}.read(input)
	switch {
	case err != nil:
	case content == "base64":
		err = errors.New(`"content_type": "base64": expected texts as they are`)
	case size >= 0 && t.data != nil:
		err = errors.New(`"data" and "binary_data_size": expected one of them`)
	case size >= 0:
		t.bytes, *rest = (*rest)[:size], (*rest)[size:]
	case t.data == nil:
		err = errors.New(`no "data"`)
	}
	return t, err
}

// maxDimensions limits the depth of lists in a tensor.
const maxDimensions = 8

// setType sets the type and the size of the values. It reports false if there is no such datatype.
func (t *tensor) setType() bool {
	known := map[string]struct {
		of       arrow.DataType
		contents protowire.Number
	}{
		"BYTES": {arrow.BinaryTypes.String, 8}, "BOOL": {arrow.FixedWidthTypes.Boolean, 1}, "FP16": {arrow.FixedWidthTypes.Float16, 0},
		"FP32": {arrow.PrimitiveTypes.Float32, 6}, "FP64": {arrow.PrimitiveTypes.Float64, 7},
		"INT8": {arrow.PrimitiveTypes.Int8, 2}, "INT16": {arrow.PrimitiveTypes.Int16, 2},
		"INT32": {arrow.PrimitiveTypes.Int32, 2}, "INT64": {arrow.PrimitiveTypes.Int64, 3},
		"UINT8": {arrow.PrimitiveTypes.Uint8, 4}, "UINT16": {arrow.PrimitiveTypes.Uint16, 4},
		"UINT32": {arrow.PrimitiveTypes.Uint32, 4}, "UINT64": {arrow.PrimitiveTypes.Uint64, 5},
	}[t.datatype]
	t.of, t.contents = known.of, known.contents
	if fixed, ok := t.of.(arrow.FixedWidthDataType); ok {
		t.size = fixed.Bytes()
	}
	return t.of != nil
}

// wrongShape returns the error of a shape, as JSON.
func wrongShape(lengths []byte) error {
	return fmt.Errorf("%.60s: expected up to %d lengths of at least 1", lengths, maxDimensions)
}

// check checks the shape and the number of bytes, and returns the number of values. A value takes at least one of most bytes.
func (t *tensor) check(most int) (values int, err error) {
	if len(t.shape) > maxDimensions || slices.ContainsFunc(t.shape, func(n int) bool { return n < 1 }) {
		lengths, _ := json.Marshal(t.shape) // numbers can be encoded
		return 0, fmt.Errorf("%q: %w", "shape", wrongShape(lengths))
	}
	if !t.setType() {
		return 0, fmt.Errorf("datatype %.20q: expected BYTES, BOOL, FP16, FP32, FP64, INT8 to INT64, or UINT8 to UINT64", t.datatype)
	}
	if len(t.shape) == 0 {
		return 0, errors.New("no shape")
	}
	values = 1
	for _, n := range t.shape {
		if values > most/n {
			return 0, fmt.Errorf("shape %v: expected at least 1 value, and no more than the %d bytes of the request", t.shape, most)
		}
		values *= n
	}
	if t.data == nil && t.size > 0 && values*t.size != len(t.bytes) {
		return 0, fmt.Errorf("binary_data_size %d: shape %v of %s has %d bytes", len(t.bytes), t.shape, t.datatype, values*t.size)
	}
	return values, nil
}

// addTensor adds a tensor as a column with its name: of values, or of lists. If it is the only one, and its name is not a column of the
// model, it has all columns, in the order of the model. Otherwise a tensor that is not a column of the model is ignored. nil names mean
// that the columns of the model have none.
func (p *prediction) addTensor(to *table, t *tensor, names []string, most int, single bool) error {
	values, err := t.check(most)
	if err != nil {
		return err
	}
	n := t.shape[0]
	switch {
	case to.rows != 0 && n != to.rows:
		return fmt.Errorf("shape %v: another input has %d rows", t.shape, to.rows)
	case n > p.Server.options.MaxRows:
		return p.manyRows()
	}
	to.rows = n
	width := values / n
	if names == nil || slices.Contains(names, t.name) {
		names = []string{t.name}
	} else if !single {
		return nil
	} else if width != len(names) {
		return fmt.Errorf("%d values in a row: expected an input for each column of the model, with its name, or one with all %d values",
			width, len(names))
	}
	if err := p.unpackAgain(values*(textBytes+t.size) + len(t.data) + len(t.bytes) + columnBytes*(len(names)-1)); err != nil {
		return err
	}
	columns, err := t.columns(len(names), values)
	if err != nil {
		return err
	}
	for i, c := range columns {
		if width > len(names) {
			c = array.MakeFromData(array.NewData(arrow.FixedSizeListOf(int32(width), t.of), n, []*memory.Buffer{nil},
				[]arrow.ArrayData{c.Data()}, 0, 0))
		}
		to.fields = append(to.fields, arrow.Field{Name: names[i], Type: c.DataType(), Nullable: true})
		to.columns = append(to.columns, c)
	}
	return nil
}

// columnBytes is the memory of a column besides its values, and textBytes that of a value besides its text.
const columnBytes, textBytes = 1 << 10, 32

// columns returns the values in k columns: value i is in column i mod k.
func (t *tensor) columns(k, values int) (columns []arrow.Array, err error) {
	if t.data == nil && t.size > 0 && t.datatype != "BOOL" { // Arrow has the same bytes
		for j := range k {
			content := make([]byte, 0, len(t.bytes)/k)
			for i := j * t.size; i < len(t.bytes); i += k * t.size {
				content = append(content, t.bytes[i:i+t.size]...)
			}
			buffers := []*memory.Buffer{nil, memory.NewBufferBytes(content)}
			columns = append(columns, array.MakeFromData(array.NewData(t.of, values/k, buffers, nil, 0, 0)))
		}
		return columns, nil
	}
	builders := make([]array.Builder, k)
	for j := range builders {
		builders[j] = array.NewBuilder(memory.DefaultAllocator, t.of)
	}
	i := 0
	next := func() (b array.Builder, err error) {
		if i == values {
			return nil, fmt.Errorf("more values than those of shape %v", t.shape)
		}
		i++
		return builders[(i-1)%k], nil
	}
	if t.data != nil {
		err = eachItem(t.data, len(t.shape), func(item value.Cell) error {
			b, err := next()
			if err == nil && !appendItem(b, item) {
				err = fmt.Errorf("value %d: %s: expected %s", i-1, item, t.datatype)
			}
			return err
		})
	}
	for rest := t.bytes; len(rest) > 0 && err == nil; {
		var b array.Builder
		if b, err = next(); err == nil {
			rest, err = appendBinary(b, rest)
		}
	}
	if err == nil && i < values {
		err = fmt.Errorf("%d values, expected the %d of shape %v", i, values, t.shape)
	}
	for _, b := range builders {
		columns = append(columns, b.NewArray())
	}
	return columns, err
}

// appendItem appends a value in JSON. It reports false if it is not of the type.
func appendItem(to array.Builder, item value.Cell) bool {
	if item.Null() {
		to.AppendNull()
		return true
	}
	number, isNumber := item.Number()
	switch to := to.(type) {
	case *array.StringBuilder:
		text, err := textOf(item)
		to.Append(text)
		return err == nil
	case *array.Float16Builder:
		half := float16.New(float32(value.Half(number))) // New rounds towards 0
		to.Append(half)
		number = float64(half.Float32())
	case *array.Float32Builder:
		to.Append(float32(number))
		number = float64(float32(number))
	case *array.Float64Builder:
		to.Append(number)
	default:
		return to.AppendValueFromString(string(item)) == nil
	}
	return isNumber && !math.IsInf(number, 0)
}

// appendBinary appends the first text or boolean of binary data, and returns the others.
func appendBinary(to array.Builder, data []byte) (rest []byte, err error) {
	if truths, ok := to.(*array.BooleanBuilder); ok {
		if data[0] > 1 {
			err = fmt.Errorf("%d: expected BOOL, 0 or 1", data[0])
		}
		truths.Append(data[0] == 1)
		return data[1:], err
	}
	n := math.MaxInt
	if len(data) >= 4 {
		n = int(binary.LittleEndian.Uint32(data)) + 4
	}
	if n > len(data) {
		return nil, errors.New("the binary data end within a text: expected its length in 4 bytes, and the text")
	}
	to.(*array.StringBuilder).Append(string(data[4:n]))
	return data[n:], value.CheckUTF8(data[4:n])
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
