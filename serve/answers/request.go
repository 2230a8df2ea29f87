package answers

import (
	"crypto/rand"
	"encoding/json"
	"math"
	"strconv"

	"github.com/stagewise/stagewise/internal/kafkalog"
)

// Header is the header of a request with its id, and of its answer.
const Header = "X-Request-Id"

// maxID is how many characters an id has at most.
const maxID = 200

// ValidID reports whether a text can be the id of a request: printable ASCII without spaces.
func ValidID(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return text != "" && len(text) <= maxID
}

// DrawID returns an id that no other request has.
func DrawID() string { return rand.Text() }

// Predicted is what a version predicts of a row.
type Predicted struct {
	Labels  []json.RawMessage // that the row is given, as JSON: one, or those of several; of numbers none
	Several bool              // a row may have any number of labels
	Classes []json.RawMessage // of Values: the labels as JSON, or the names of the numbers
	Values  []float32         // probabilities
	Numbers []float64         // the numbers that are predicted, in place of labels and probabilities
	Top     []int32           // the classes of the largest probabilities, the largest first
}

// mostProbable is how many probabilities a message has at most.
const mostProbable = 10

// MostProbable returns how many of the most probable classes a message has, if the request asked for so many; 0: it asked for all.
func MostProbable(asked int) int {
	if asked > 0 && asked < mostProbable {
		return asked
	}
	return mostProbable
}

// Request has the answers to one request, until they are sent. Its methods do nothing if it is nil: then the request is not sampled.
type Request struct {
	writer  *Writer
	id      string
	version int
	text    []byte // of the rows: what a message has before and after the number of the row
	rows    []row
	sent    int // rows
}

// row is where a row is in the text: its features, and what is predicted.
type row struct{ features, predicted, end int }

// Reset forgets the rows that were added, and says which version answers.
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

// Send gives the rows that were added since the last Send to the writer. rows is how many rows the request has.
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

// message returns the message of a row. Its key is the id of the request; if the request has several rows, with the number of the row.
func (r *Request) message(one row, number int, several bool) kafkalog.Message {
	key := r.id
	if several {
		key += "/" + strconv.Itoa(number)
	}
	id, _ := json.Marshal(r.id) // a text has JSON
	value := make([]byte, 0, len(`{"request":,"row":,"version":,"features":,"prediction":}`)+len(id)+40+one.end-one.features)
	value = append(append(value, `{"request":`...), id...)
	value = strconv.AppendInt(append(value, `,"row":`...), int64(number), 10)
	value = strconv.AppendInt(append(value, `,"version":`...), int64(r.version), 10)
	value = append(append(value, `,"features":`...), r.text[one.features:one.predicted]...)
	value = append(append(value, `,"prediction":`...), r.text[one.predicted:one.end]...)
	return kafkalog.Message{Key: []byte(key), Value: append(value, '}')}
}

// append appends what is predicted of a row, as JSON.
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

// appendMembers appends an object of n numbers of so many bits. Those that are not finite are null.
func appendMembers(dst []byte, n int, member func(i int) (name json.RawMessage, value float64, bits int)) []byte {
	dst = append(dst, '{')
	for i := range n {
		name, v, bits := member(i)
		if i > 0 {
			dst = append(dst, ',')
		}
		if name[0] != '"' { // a whole number
			dst = append(append(append(dst, '"'), name...), `":`...)
		} else {
			dst = append(append(dst, name...), ':')
		}
		dst = appendNumber(dst, v, bits)
	}
	return append(dst, '}')
}

// appendNumber appends a number of so many bits, or null, as JSON has no other way to say that it is not finite.
func appendNumber(dst []byte, v float64, bits int) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, bits)
}
