package answers

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"iter"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas/arrowvalue"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Header is the header with the id of a request and its response.
const Header = "X-Request-Id"

// maxID is the maximum length of an id.
const maxID = 200

// ValidID reports whether a text is a valid request id: printable ASCII without spaces.
func ValidID(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return text != "" && len(text) <= maxID
}

// DrawID returns a unique id.
func DrawID() string { return rand.Text() }

// Predicted is a version's prediction for a row.
type Predicted struct {
	Labels  []json.RawMessage // labels of the row as JSON: one, or several if multi-label; none in regression
	Several bool              // multi-label
	Classes []json.RawMessage // of Values: the labels as JSON, or the target names
	Values  []float32         // probabilities
	Numbers []float64         // predicted targets, in place of labels and probabilities
	Top     []int32           // classes with the largest probabilities, largest first
}

// mostProbable is the maximum number of probabilities in a message.
const mostProbable = 10

// MostProbable returns the number of most probable classes in a message, given the number requested; 0: all were
// requested.
func MostProbable(asked int) int {
	if asked > 0 && asked < mostProbable {
		return asked
	}
	return mostProbable
}

// Request collects the answers to a request until they are sent. A nil Request, which is not sampled, does nothing.
type Request struct {
	writer  *Writer
	id      string
	trace   string // header traceparent; "": none
	version int
	text    []byte // of the rows: the parts of a message before and after the row number
	rows    []row
	sent    int // number of rows sent
}

// row is the position of a row in the text: its features and its prediction.
type row struct{ features, predicted, end int }

// Reset drops the added rows, and sets the version.
func (r *Request) Reset(version int) {
	if r != nil {
		r.version, r.text, r.rows, r.sent = version, r.text[:0], r.rows[:0], 0
	}
}

// Add adds the next row. features appends its features as JSON.
func (r *Request) Add(features func(dst []byte) []byte, p Predicted) {
	if r == nil {
		return
	}
	one := row{features: len(r.text)}
	r.text = features(r.text)
	one.predicted = len(r.text)
	r.text = p.append(r.text)
	one.end = len(r.text)
	r.rows = append(r.rows, one)
}

// Bytes returns the size of the added rows.
func (r *Request) Bytes() int {
	if r == nil {
		return 0
	}
	return len(r.text)
}

// Send passes the rows added since the last Send to the writer. rows is the number of rows of the request.
func (r *Request) Send(rows int) {
	if r == nil || len(r.rows) == 0 {
		return
	}
	messages := make([]kafkalog.Message, 0, len(r.rows))
	for i, one := range r.rows {
		messages = append(messages, r.message(one, r.sent+i, rows > 1))
	}
	r.sent += len(r.rows)
	r.text, r.rows = r.text[:0], r.rows[:0]
	r.writer.put(messages)
}

// message returns the message of a row. Its key is the request id, followed by the row number if the request has several
// rows.
func (r *Request) message(one row, number int, several bool) kafkalog.Message {
	key := r.id
	if several {
		key += "/" + strconv.Itoa(number)
	}
	id, _ := json.Marshal(r.id) // a string can be encoded
	value := make([]byte, 0, len(`{"request":,"row":,"version":,"features":,"prediction":}`)+len(id)+40+one.end-one.features)
	value = append(append(value, `{"request":`...), id...)
	value = strconv.AppendInt(append(value, `,"row":`...), int64(number), 10)
	value = strconv.AppendInt(append(value, `,"version":`...), int64(r.version), 10)
	value = append(append(value, `,"features":`...), r.text[one.features:one.predicted]...)
	value = append(append(value, `,"prediction":`...), r.text[one.predicted:one.end]...)
	m := kafkalog.Message{Key: []byte(key), Value: append(value, '}')}
	if r.trace != "" {
		m.Headers = []kafkalog.Header{{Key: wire.HeaderTrace, Value: []byte(r.trace)}}
	}
	return m
}

// append appends the prediction of a row as JSON.
func (p Predicted) append(dst []byte) []byte {
	switch {
	case p.Numbers != nil:
		return append(appendMembers(append(dst, `{"values":`...), len(p.Numbers), func(i int) (json.RawMessage, float64, int) {
			return p.Classes[i], p.Numbers[i], 64
		}), '}')
	case p.Several:
		dst = append(dst, `{"labels":[`...)
		for i, label := range p.Labels {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, label...)
		}
		dst = append(dst, ']')
	default:
		dst = append(append(dst, `{"label":`...), p.Labels[0]...)
	}
	return append(appendMembers(append(dst, `,"probabilities":`...), len(p.Top), func(i int) (json.RawMessage, float64, int) {
		class := p.Top[i]
		return p.Classes[class], float64(p.Values[class]), 32
	}), '}')
}

// appendMembers appends an object of n numbers with the given bit sizes. Numbers that are not finite are null.
func appendMembers(dst []byte, n int, member func(i int) (name json.RawMessage, value float64, bits int)) []byte {
	dst = append(dst, '{')
	for i := range n {
		name, v, bits := member(i)
		if i > 0 {
			dst = append(dst, ',')
		}
		if name[0] != '"' { // an integer
			dst = append(append(append(dst, '"'), name...), `":`...)
		} else {
			dst = append(append(dst, name...), ':')
		}
		dst = value.AppendNumber(dst, v, bits)
	}
	return append(dst, '}')
}

// AppendNamed appends a row that was sent as a list as an object of values by column name, as JSON. Without names it appends the
// list.
func AppendNamed(dst []byte, list value.Cell, names []json.RawMessage) []byte {
	if len(names) == 0 {
		return append(dst, list...)
	}
	dst = append(dst, '{')
	i := 0
	for element := range list.All() {
		if i == len(names) {
			break
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, names[i]...), ':'), element...)
		i++
	}
	return append(dst, '}')
}

// AppendPairs appends a sparse row of two lists as an object: each value by its index.
func AppendPairs(dst []byte, indices, values value.Cell) []byte {
	next, stop := iter.Pull(values.All())
	defer stop()
	first := len(dst)
	for index := range indices.All() {
		v, _ := next()
		dst = append(append(append(dst, "{,"[min(len(dst)-first, 1)], '"'), index...), `":`...)
		dst = append(dst, v...)
	}
	if len(dst) == first {
		dst = append(dst, '{')
	}
	return append(dst, '}')
}

// ArrowRows returns the rows of an Arrow stream or file as JSON: objects of values by column name. reserve reserves memory
// for decompressed bytes.
func ArrowRows(content []byte, reserve func(bytes int) error) iter.Seq[[]byte] {
	const magic = "ARROW1\x00\x00" // of a file
	return func(yield func([]byte) bool) {
		from := bytes.NewBuffer(bytes.TrimPrefix(content, []byte(magic)))
		r, err := stream.NewReader(from, bytes.HasPrefix(content, []byte(magic)), memory.DefaultAllocator)
		if err != nil {
			return // reported when the rows are predicted
		}
		defer r.Close()
		r.Reserve(reserve)
		for {
			record, err := r.Next(func(int) bool { return true })
			if err != nil || !rowsOf(record, yield) {
				return
			}
		}
	}
}

// rowsOf yields the rows of a record, and releases it.
func rowsOf(record arrow.Record, yield func([]byte) bool) bool {
	defer record.Release()
	for i := range int(record.NumRows()) {
		row := []byte{'{'}
		for j, column := range record.Columns() {
			name, _ := json.Marshal(record.ColumnName(j)) // a string can be encoded
			if j > 0 {
				row = append(row, ',')
			}
			row = arrowvalue.AppendJSON(append(append(row, name...), ':'), column, i)
		}
		if !yield(append(row, '}')) {
			return false
		}
	}
	return true
}
