package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow/float16"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// headerLength is the header with the length of the JSON in a body of the Open Inference Protocol. Binary tensors follow it.
const headerLength = "Inference-Header-Content-Length"

// tensor is an input of a request: values in row-major order, as JSON or in bytes.
type tensor struct {
	name     string
	datatype string
	kind     tabular.Kind
	bits     int // of a value; 0: a text
	shape    []int
	data     value.Cell // JSON; nil: they are in bytes
	bytes    []byte
}

// table is the rows of a request of the Open Inference Protocol: a [tabular.Source].
type table struct {
	columns []inputColumn
	rows    int
	read    int // number of rows read
}

// inputColumn is a column of the rows, from a tensor.
type inputColumn struct {
	tabular.Field
	tabular.Column
	of *tensor
}

// openTensors returns the inputs of a request of the Open Inference Protocol, for which it reserves memory, and sets the requested contents
// of the answer.
func (p *prediction) openTensors(body []byte) (*table, error) {
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
	err = members{"inputs": keep(&inputs), "outputs": keep(&outputs), "id": func(cell value.Cell) error {
		p.asks.id = bytes.Clone(cell)
		_, err := textOf(cell)
		return err
	}, "parameters": members{"binary_data_output": keepTruth(&p.asks.binary)}.read}.read(object)
	if err == nil {
		err = p.asks.setOutputs(outputs, p.outputs())
	}
	if err != nil {
		return nil, err
	}
	r, err := p.reader()
	if err != nil {
		return nil, err
	}
	names := r.layout.List()
	p.keep(r)
	t, rest, list := &table{}, body[len(text):], inputs.Items()
	for _, input := range list {
		in, err := tensorOf(input, &rest)
		if err == nil {
			err = p.addTensor(t, &in, names, len(body), len(list) == 1)
		}
		if err != nil {
			return nil, fmt.Errorf("input %.40q: %w", in.name, err)
		}
	}
	switch {
	case len(rest) > 0:
		return nil, fmt.Errorf("%d bytes follow the binary data of the inputs", len(rest))
	case len(t.columns) == 0:
		return nil, errors.New("no inputs that are columns of the model")
	}
	return t, nil
}

// tensorOf returns an input. Its binary data are the first bytes of rest, and are removed from it.
func tensorOf(input value.Cell, rest *[]byte) (t tensor, err error) {
	size := -1
	err = members{"name": keepText(&t.name), "datatype": keepText(&t.datatype), "data": keep(&t.data), "shape": func(cell value.Cell) error {
		for n := range cell.All() {
			length, err := strconv.Atoi(string(n))
			if t.shape = append(t.shape, length); err != nil || length < 1 || len(t.shape) > maxDimensions {
				return fmt.Errorf("%.60s: expected up to %d lengths of at least 1", []byte(cell), maxDimensions)
			}
		}
		return nil
	}, "parameters": members{"binary_data_size": func(cell value.Cell) (err error) {
		if size, err = strconv.Atoi(string(cell)); err != nil || size < 0 || size > len(*rest) {
			err = fmt.Errorf("binary_data_size %s: the body has %d more bytes after the JSON (%s)", cell, len(*rest), headerLength)
		}
		return err
	}}.read}.read(input)
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

// maxDimensions limits the depth of lists in a tensor.
const maxDimensions = 8

// setType sets the kind and the size of the values. It reports false if there is no such datatype.
func (t *tensor) setType() bool {
	name := strings.TrimRight(t.datatype, "0123456789")
	length := t.datatype[len(name):]
	t.bits, _ = strconv.Atoi(length)
	switch {
	case strings.HasPrefix(length, "0"):
		return false
	case t.datatype == "BYTES":
		t.kind = tabular.Text
	case t.datatype == "BOOL":
		t.kind, t.bits = tabular.Boolean, 8
	case name == "FP" && slices.Contains([]int{16, 32, 64}, t.bits):
		t.kind = tabular.Numeric
	case (name == "INT" || name == "UINT") && slices.Contains([]int{8, 16, 32, 64}, t.bits):
		t.kind = tabular.Whole
	default:
		return false
	}
	return true
}

// check checks the shape and the number of bytes, and returns the number of values. A value takes at least one of most bytes.
func (t *tensor) check(most int) (values int, err error) {
	if !t.setType() {
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
	if size := t.bits / 8; t.data == nil && size > 0 && values*size != len(t.bytes) {
		return 0, fmt.Errorf("binary_data_size %d: shape %v of %s has %d bytes", len(t.bytes), t.shape, t.datatype, values*size)
	}
	return values, nil
}

// addTensor adds a tensor as a column with its name: of values, or of lists. If it is the only one, and its name is no column of the model,
// it has all columns, in the order of the model. Otherwise a tensor that is no column of the model is ignored. nil names mean that the
// columns of the model have none.
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
	p.again += values*(textBytes+t.bits/8) + len(t.data) + len(t.bytes) + columnBytes*len(names)
	if err := p.unpack(input.Unpacked{}); err != nil {
		return err
	}
	columns := make([]tabular.Column, len(names))
	if err := t.read(columns, values); err != nil {
		return err
	}
	for i, c := range columns {
		f := tabular.Field{Name: names[i], Kind: t.kind, Type: t.datatype, Digits: t.kind == tabular.Text}
		if width > len(names) {
			if f.Length, f.Kind = width, tabular.List; t.kind == tabular.Text {
				f.Kind = tabular.TextList
			}
		}
		to.columns = append(to.columns, inputColumn{f, c, t})
	}
	return nil
}

// columnBytes is the memory of a column besides its values, and textBytes that of a value besides its text.
const columnBytes, textBytes = 1 << 10, 32

// read appends the values to columns: value i is in column i mod their number.
func (t *tensor) read(columns []tabular.Column, values int) error {
	for i := range columns {
		columns[i].Truths = t.kind == tabular.Boolean
	}
	i := 0
	next := func() (c *tabular.Column, err error) {
		if i == values {
			return nil, fmt.Errorf("more values than those of shape %v", t.shape)
		}
		c = &columns[i%len(columns)]
		i++
		return c, nil
	}
	var err error
	if t.data != nil {
		err = eachItem(t.data, len(t.shape), func(item value.Cell) error {
			c, err := next()
			if err == nil && !t.parse(c, item) {
				err = fmt.Errorf("value %d: %s: expected %s", i-1, item, t.datatype)
			}
			return err
		})
	} else {
		for rest := t.bytes; len(rest) > 0 && err == nil; {
			var c *tabular.Column
			if c, err = next(); err == nil {
				rest, err = t.decode(c, rest)
			}
		}
	}
	if err == nil && i < values {
		err = fmt.Errorf("%d values, expected the %d of shape %v", i, values, t.shape)
	}
	return err
}

// parse appends a value in JSON. It reports false if it is not of the datatype.
func (t *tensor) parse(c *tabular.Column, item value.Cell) bool {
	text, err := string(item), error(nil)
	switch whole := int64(0); {
	case item.Null():
		c.AppendNull(t.kind == tabular.Text)
	case t.kind == tabular.Text:
		if text, err = textOf(item); err == nil {
			c.AppendText(text)
		}
	case t.kind == tabular.Boolean:
		truth, ok := map[string]float64{"true": 1, "false": 0, "1": 1, "0": 0}[text]
		c.Numbers = append(c.Numbers, truth)
		return ok
	case t.kind == tabular.Numeric:
		v, ok := item.Number()
		switch t.bits {
		case 16:
			v = float64(float16.New(float32(v)).Float32())
		case 32:
			v = float64(float32(v))
		}
		c.Numbers = append(c.Numbers, v)
		return ok && !math.IsInf(v, 0)
	case t.datatype[0] == 'U':
		unsigned, e := strconv.ParseUint(text, 10, t.bits)
		c.AppendWhole(int64(unsigned), true)
		err = e
	default:
		whole, err = strconv.ParseInt(text, 10, t.bits)
		c.AppendWhole(whole, false)
	}
	return err == nil
}

// decode appends the first binary value, and returns the others.
func (t *tensor) decode(c *tabular.Column, data []byte) (rest []byte, err error) {
	if t.kind == tabular.Text {
		n := math.MaxInt
		if len(data) >= 4 {
			n = int(binary.LittleEndian.Uint32(data)) + 4
		}
		if n > len(data) {
			return nil, errors.New("the binary data end within a text: expected its length in 4 bytes, and the text")
		}
		c.AppendText(string(data[4:n]))
		return data[n:], value.CheckUTF8(data[4:n])
	}
	var word [8]byte
	size := copy(word[:], data[:t.bits/8])
	switch v := binary.LittleEndian.Uint64(word[:]); {
	case t.kind == tabular.Boolean && v > 1:
		return nil, fmt.Errorf("%d: expected %s, 0 or 1", v, t.datatype)
	case t.datatype == "FP16":
		c.Numbers = append(c.Numbers, float64(float16.FromBits(uint16(v)).Float32()))
	case t.datatype == "FP32":
		c.Numbers = append(c.Numbers, float64(math.Float32frombits(uint32(v))))
	case t.datatype == "FP64":
		c.Numbers = append(c.Numbers, math.Float64frombits(v))
	case t.datatype[0] == 'I':
		c.AppendWhole(int64(v<<(64-t.bits))>>(64-t.bits), false)
	default:
		c.AppendWhole(int64(v), true)
	}
	return data[size:], nil
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

// Fields implements tabular.Source.
func (t *table) Fields() (fields []tabular.Field) {
	for _, c := range t.columns {
		fields = append(fields, c.Field)
	}
	return fields
}

// Read implements tabular.Source.
func (t *table) Read(n int, _ []bool, b *tabular.Block) error {
	b.Reset(len(t.columns))
	from := t.read
	t.read = min(from+n, t.rows)
	b.Rows = t.read - from
	for i, c := range t.columns {
		to, width := &b.Columns[i], max(c.Length, 1)
		first, last := from*width, t.read*width
		for end := width; c.Length > 0 && end <= last-first; end += width {
			to.Ends = append(to.Ends, end)
		}
		if to.Truths = c.Truths; len(c.Texts) > 0 {
			to.Texts, to.Nulls = append(to.Texts, c.Texts[first:last]...), append(to.Nulls, c.Nulls[first:last]...)
		} else {
			to.Numbers = append(to.Numbers, c.Numbers[first:last]...)
		}
	}
	return nil
}

// batches returns the features of the rows.
func (t *table) batches(ctx context.Context, o layout.Options, want layout.Features) iter.Seq2[*examples.Rows, error] {
	return func(yield func(*examples.Rows, error) bool) {
		source := func(*input.Content, layout.Options, *layout.Features) (format.Table, error) {
			return format.Table{Source: t, HasNames: true}, nil
		}
		empty := &input.Content{Reader: bufio.NewReader(strings.NewReader("")), Name: "the request"}
		r, err := format.Format{Name: openInference, Table: source}.Open([]*input.Content{empty}, o, &want, nil)
		if err != nil {
			yield(nil, err)
			return
		}
		format.BatchesOf(ctx, r)(yield)
	}
}

// texts returns the rows as JSON: objects of values by the names of the inputs.
func (t *table) texts(yield func([]byte) bool) {
	for row := range t.rows {
		text := []byte{'{'}
		for i, c := range t.columns {
			name, _ := json.Marshal(c.Name) // a string can be encoded
			text = append(append(appendComma(text, i == 0), name...), ':')
			if c.Length == 0 {
				text = c.appendValue(text, row)
				continue
			}
			for j := range c.Length {
				text = c.appendValue(append(text, "[,"[min(j, 1)]), row*c.Length+j)
			}
			text = append(text, ']')
		}
		if !yield(append(text, '}')) {
			return
		}
	}
}

// appendValue appends value i as JSON.
func (c *inputColumn) appendValue(dst []byte, i int) []byte {
	switch {
	case len(c.Texts) > 0 && c.Nulls[i]:
		return append(dst, "null"...)
	case c.of.kind == tabular.Text:
		text, _ := json.Marshal(c.Texts[i]) // a string can be encoded
		return append(dst, text...)
	case len(c.Texts) > 0: // integers that are too large for numbers
		return append(dst, c.Texts[i]...)
	case c.of.kind == tabular.Boolean && c.Numbers[i] == c.Numbers[i]:
		return strconv.AppendBool(dst, c.Numbers[i] != 0)
	case c.of.kind == tabular.Whole && c.Numbers[i] == c.Numbers[i]: // which may have more digits than a float32
		return strconv.AppendInt(dst, int64(c.Numbers[i]), 10)
	}
	return value.AppendNumber(dst, c.Numbers[i], max(c.of.bits, 32))
}
