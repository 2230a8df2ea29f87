package serve

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/value"
)

// encoder encodes an answer. Rows are added in order.
type encoder interface {
	// add adds the next row.
	add(row *predictedRow) error
	// size returns the approximate number of bytes of the added rows.
	size() int
	// whole returns the pieces of the complete answer.
	whole() (pieces [][]byte, err error)
	// announce sets the headers of the complete answer.
	announce(http.Header)
}

// newEncoder returns the encoder of an answer with a content type, or in a protocol, by a version.
func newEncoder(v *version, kind string, a asked) encoder {
	if kind == typeArrow {
		return newArrowAnswer(v, a)
	}
	columns := a.tensors
	if kind != openInference {
		columns = v.lists(kind, a)
	}
	return &textAnswer{version: v, asked: a, kind: kind, columns: columns}
}

// column is a list of an answer in JSON, or a tensor of the Open Inference Protocol.
type column struct {
	name     string
	datatype string // of a tensor
	width    int    // values of a row of a tensor; 0: one, which is no list
	binary   bool   // the values of a tensor follow the JSON
	nested   bool   // a row is a list
	append   func(dst []byte, row *predictedRow, binary bool) []byte
	text     // of the rows
}

// lists returns the lists of an answer in JSON.
func (v *version) lists(kind string, a asked) []column {
	columns := v.outputs()
	first, last := &columns[0], &columns[len(columns)-1]
	last.nested = true
	switch {
	case v.predictsNumbers():
		last.nested = kind != mlflow || last.width > 1
	case kind == mlflow:
		first.name, columns = "predictions", columns[:1]
	default:
		first.name = "labels"
		if a.top > 0 {
			*last = column{name: "top", nested: true, append: v.appendTop}
		}
	}
	if v.givesSeveral() {
		first.nested, first.append = true, v.appendGiven
	}
	if a.contributions > 0 {
		columns = append(columns, column{name: "contributions", append: func(dst []byte, row *predictedRow, _ bool) []byte {
			return append(dst, row.contributions...)
		}})
	}
	return columns
}

// outputs returns the tensors in the answers of a version: label, in a multi-label task labels, which has whether a row has each class; and
// probabilities. In regression predictions.
func (v *version) outputs() []column {
	label := column{name: "label", datatype: "BYTES", append: v.appendLabel}
	values := column{name: "probabilities", datatype: "FP32", width: len(v.Labels()),
		append: func(dst []byte, row *predictedRow, binary bool) []byte {
			return appendNumbers(dst, row.probabilities, 32, binary)
		}}
	switch {
	case v.predictsNumbers():
		values.name, values.datatype = "predictions", "FP64"
		values.append = func(dst []byte, row *predictedRow, binary bool) []byte {
			return appendNumbers(dst, row.numbers, 64, binary)
		}
		return []column{values}
	case v.givesSeveral():
		label = column{name: "labels", datatype: "BOOL", width: values.width, append: v.appendTruths}
	case v.wholeNumbers != nil:
		label.datatype = "INT64"
	}
	return []column{label, values}
}

// setOutputs sets the outputs that a request asks for: those in a list, or all if it has none.
func (a *asked) setOutputs(list value.Cell, all []column) error {
	wanted := make([]bool, len(all))
	a.tensors = nil
	for i := range all {
		all[i].binary = a.binary
	}
	for item := range list.All() {
		name, binary := "", a.binary
		err := members{"name": keepText(&name), "parameters": members{"binary_data": keepTruth(&binary)}.read}.read(item)
		i := slices.IndexFunc(all, func(c column) bool { return c.name == name })
		if err == nil && i < 0 {
			err = fmt.Errorf("there is no %.40q: expected label, labels, probabilities or predictions, as of the model", name)
		}
		if err != nil {
			return fmt.Errorf(`"outputs": %w`, err)
		}
		all[i].binary, wanted[i] = binary, true
	}
	for i, c := range all {
		if wanted[i] || !slices.Contains(wanted, true) {
			a.tensors = append(a.tensors, c)
		}
	}
	return nil
}

// textAnswer is an answer in JSON: {"version", "labels", "probabilities"}; {"predictions"} for MLflow, the labels or the predicted numbers;
// for the Open Inference Protocol tensors, in JSON or behind it.
type textAnswer struct {
	*version
	asked
	kind    string
	columns []column
	rows    int
	length  int // of the JSON of tensors
}

// text is bytes in pieces: they grow without copies.
type text struct {
	pieces [][]byte
	bytes  int
}

// pieceBytes is the approximate size of a piece of a long text.
const pieceBytes = 64 << 10

// add appends what appends appends to the last piece.
func (t *text) add(appends func(dst []byte) []byte) {
	last := len(t.pieces) - 1
	if last < 0 || len(t.pieces[last]) >= pieceBytes {
		t.pieces, last = append(t.pieces, nil), last+1
	}
	before := len(t.pieces[last])
	t.pieces[last] = appends(t.pieces[last])
	t.bytes += len(t.pieces[last]) - before
}

func (a *textAnswer) size() (bytes int) {
	for _, c := range a.columns {
		bytes += c.bytes
	}
	return bytes
}

// add implements encoder.
func (a *textAnswer) add(row *predictedRow) error {
	for i := range a.columns {
		c := &a.columns[i]
		c.add(func(dst []byte) []byte {
			if dst = appendComma(dst, a.rows == 0 || c.binary); !c.nested {
				return c.append(dst, row, c.binary)
			}
			return append(c.append(append(dst, '['), row, false), ']')
		})
	}
	a.rows++
	return nil
}

// appendGiven appends the labels that a row is given.
func (v *version) appendGiven(dst []byte, row *predictedRow, _ bool) []byte {
	for i, class := range row.given {
		dst = append(appendComma(dst, i == 0), v.quoted[class]...)
	}
	return dst
}

// appendTop appends the most probable labels of a row.
func (v *version) appendTop(dst []byte, row *predictedRow, _ bool) []byte {
	for i, c := range row.top {
		dst = append(append(appendComma(dst, i == 0), `{"label":`...), v.quoted[c]...)
		dst = append(value.AppendNumber(append(dst, `,"probability":`...), float64(row.probabilities[c]), 32), '}')
	}
	return dst
}

// appendLabel appends the label of a row.
func (v *version) appendLabel(dst []byte, row *predictedRow, isBinary bool) []byte {
	switch class := row.given[0]; {
	case !isBinary:
		return append(dst, v.quoted[class]...)
	case v.wholeNumbers != nil:
		return binary.LittleEndian.AppendUint64(dst, uint64(v.wholeNumbers[class]))
	default:
		label := v.Labels()[class]
		return append(binary.LittleEndian.AppendUint32(dst, uint32(len(label))), label...)
	}
}

// appendTruths appends whether a row has each label.
func (v *version) appendTruths(dst []byte, row *predictedRow, binary bool) []byte {
	for class := range v.Labels() {
		switch has := slices.Contains(row.given, int32(class)); {
		case !binary:
			dst = strconv.AppendBool(appendComma(dst, class == 0), has)
		case has:
			dst = append(dst, 1)
		default:
			dst = append(dst, 0)
		}
	}
	return dst
}

// appendNumbers appends numbers with the given bit size.
func appendNumbers[T float32 | float64](dst []byte, numbers []T, bits int, isBinary bool) []byte {
	for i, v := range numbers {
		switch {
		case isBinary && bits == 32:
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(v)))
		case isBinary:
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(float64(v)))
		default:
			dst = value.AppendNumber(appendComma(dst, i == 0), float64(v), bits)
		}
	}
	return dst
}

// appendComma appends a comma before all items of a list but the first.
func appendComma(dst []byte, first bool) []byte {
	if first {
		return dst
	}
	return append(dst, ',')
}

// whole implements encoder.
func (a *textAnswer) whole() (pieces [][]byte, err error) {
	if a.kind == openInference {
		return a.wholeTensors(), nil
	}
	head := []byte{'{'}
	if a.kind != mlflow {
		head = fmt.Appendf(head, `"version":%d,`, a.Manifest.Version)
	}
	switch {
	case a.kind == mlflow:
	case a.predictsNumbers():
		head = fmt.Appendf(head, `"targets":%s,`, a.list)
	case a.classes:
		head = fmt.Appendf(head, `"classes":%s,`, a.list)
	}
	for _, c := range a.columns {
		pieces = append(append(pieces, fmt.Appendf(head, `"%s":[`, c.name)), c.pieces...)
		head = []byte("],")
	}
	return append(pieces, []byte("]}\n")), nil
}

// wholeTensors returns the JSON, and the values of binary tensors behind it.
func (a *textAnswer) wholeTensors() (pieces [][]byte) {
	head := fmt.Appendf(nil, `{"model_name":%q,"model_version":"%d",`, a.Manifest.Name, a.Manifest.Version)
	if a.id != nil {
		head = append(append(append(head, `"id":`...), a.id...), ',')
	}
	head = append(head, `"outputs":[`...)
	var behind [][]byte
	for i, c := range a.columns {
		head = fmt.Appendf(appendComma(head, i == 0), `{"name":%q,"datatype":%q,"shape":[%d`, c.name, c.datatype, a.rows)
		if c.width > 0 {
			head = fmt.Appendf(head, ",%d", c.width)
		}
		if c.binary {
			head = fmt.Appendf(head, `],"parameters":{"binary_data_size":%d}}`, c.bytes)
			behind = append(behind, c.pieces...)
			continue
		}
		pieces = append(append(pieces, append(head, `],"data":[`...)), c.pieces...)
		head = []byte("]}")
	}
	pieces = append(pieces, append(head, "]}"...))
	a.length = lengthsOf(pieces)
	return append(pieces, behind...)
}

// lengthsOf returns the number of bytes of pieces.
func lengthsOf(pieces [][]byte) (n int) {
	for _, piece := range pieces {
		n += len(piece)
	}
	return n
}

// announce sets the headers of the answer. The length of the JSON is only there if binary values follow it.
func (a *textAnswer) announce(h http.Header) {
	h.Set(headerType, typeJSON)
	if slices.ContainsFunc(a.columns, func(c column) bool { return c.binary }) {
		h.Set(headerType, typeBytes)
		h.Set(headerLength, strconv.Itoa(a.length))
	}
}

// The metadata keys in a response's schema for the version, and for the labels as JSON if requested.
const (
	metadataVersion = "stagewise.version"
	metadataClasses = "stagewise.classes"
)

// arrowAnswer is an answer as an Arrow stream: the column label, and the column probabilities, a list of the classes in
// order, or top, a list of the most probable labels with their probabilities; for multi-label tasks the column labels, a
// list of the row's labels, in place of label; in regression the column predictions, a list of float64 in target order.
// Labels are int64 if all of them are integers. The last column is contributions, if asked for: texts of JSON.
type arrowAnswer struct {
	*version
	asked
	schema   *arrow.Schema
	stream   text // output of the writer
	writer   *ipc.Writer
	builder  *array.RecordBuilder
	rows     int  // in the builder
	rowBytes int  // approximate size of a row, without contributions
	texts    int  // bytes of contributions in the builder
	written  bool // a batch was written
}

func newArrowAnswer(v *version, asks asked) *arrowAnswer {
	keys, values := []string{metadataVersion}, []string{strconv.Itoa(v.Manifest.Version)}
	if asks.classes {
		keys, values = append(keys, metadataClasses), append(values, string(v.list))
	}
	metadata := arrow.NewMetadata(keys, values)
	k, label := int32(len(v.Labels())), arrow.DataType(arrow.BinaryTypes.String)
	if v.wholeNumbers != nil {
		label = arrow.PrimitiveTypes.Int64
	}
	fields := []arrow.Field{{Name: "label", Type: label},
		{Name: "probabilities", Type: arrow.FixedSizeListOf(k, arrow.PrimitiveTypes.Float32)}}
	if v.givesSeveral() {
		fields[0] = arrow.Field{Name: "labels", Type: arrow.ListOf(label)}
	}
	if asks.top > 0 {
		probable := arrow.StructOf(arrow.Field{Name: "label", Type: label}, arrow.Field{Name: "probability", Type: arrow.PrimitiveTypes.Float32})
		fields[1] = arrow.Field{Name: "top", Type: arrow.ListOf(probable)}
	}
	if v.predictsNumbers() {
		fields = []arrow.Field{{Name: "predictions", Type: arrow.FixedSizeListOf(k, arrow.PrimitiveTypes.Float64)}}
	}
	valueBytes := 4
	if asks.top > 0 || v.predictsNumbers() {
		valueBytes = 8 // a label and its probability, or a float64
	}
	if asks.contributions > 0 {
		fields = append(fields, arrow.Field{Name: "contributions", Type: arrow.BinaryTypes.String})
	}
	a := &arrowAnswer{version: v, asked: asks, schema: arrow.NewSchema(fields, &metadata),
		rowBytes: 8 + valueBytes*asks.values(v)}
	a.writer = ipc.NewWriter(a, ipc.WithSchema(a.schema))
	a.builder = array.NewRecordBuilder(memory.DefaultAllocator, a.schema)
	return a
}

func (a *arrowAnswer) kept() int { return a.rows*a.rowBytes + a.texts }

func (a *arrowAnswer) size() int { return a.stream.bytes + a.kept() }

// batchBytes is the approximate size of a batch.
const batchBytes = 512 << 10

// Write adds output of the writer.
func (a *arrowAnswer) Write(p []byte) (int, error) {
	a.stream.add(func(dst []byte) []byte { return append(dst, p...) })
	return len(p), nil
}

// add adds the next row to the builder, and writes a batch once it is large enough.
func (a *arrowAnswer) add(row *predictedRow) error {
	if !a.predictsNumbers() {
		a.addLabels(row.given)
	}
	last := a.schema.NumFields() - 1
	if a.contributions > 0 {
		a.builder.Field(last).(*array.StringBuilder).Append(row.contributions)
		a.texts += len(row.contributions)
		last--
	}
	switch lists := a.builder.Field(last).(type) {
	case *array.ListBuilder:
		a.addTop(lists, row)
	case *array.FixedSizeListBuilder:
		lists.Append(true)
		switch values := lists.ValueBuilder().(type) {
		case *array.Float64Builder:
			values.AppendValues(row.numbers, nil)
		case *array.Float32Builder:
			values.AppendValues(row.probabilities, nil)
		}
	}
	if a.rows++; a.kept() < batchBytes {
		return nil
	}
	return a.batch()
}

// addLabels adds the label or labels of a row to the builder.
func (a *arrowAnswer) addLabels(given []int32) {
	to := a.builder.Field(0)
	if lists, ok := to.(*array.ListBuilder); ok {
		lists.Append(true)
		to = lists.ValueBuilder()
	}
	for _, class := range given {
		a.addLabel(to, int(class))
	}
}

// addLabel adds a label to an integer or text column.
func (a *arrowAnswer) addLabel(to array.Builder, class int) {
	if a.wholeNumbers != nil {
		to.(*array.Int64Builder).Append(a.wholeNumbers[class])
		return
	}
	to.(*array.StringBuilder).Append(a.Labels()[class])
}

// addTop adds the most probable labels of a row to the builder.
func (a *arrowAnswer) addTop(lists *array.ListBuilder, row *predictedRow) {
	lists.Append(true)
	probable := lists.ValueBuilder().(*array.StructBuilder)
	for _, c := range row.top {
		probable.Append(true)
		a.addLabel(probable.FieldBuilder(0), int(c))
		probable.FieldBuilder(1).(*array.Float32Builder).Append(row.probabilities[c])
	}
}

// batch writes the rows of the builder as a batch.
func (a *arrowAnswer) batch() error {
	record := a.builder.NewRecord()
	defer record.Release()
	a.rows, a.texts, a.written = 0, 0, true
	return a.writer.Write(record)
}

// whole implements encoder: it writes the last batch, empty if there are no rows at all, and the end of the stream.
func (a *arrowAnswer) whole() (pieces [][]byte, err error) {
	defer a.builder.Release()
	if a.rows > 0 || !a.written {
		err = a.batch()
	}
	if err == nil {
		err = a.writer.Close()
	}
	return a.stream.pieces, err
}

func (a *arrowAnswer) announce(h http.Header) { h.Set(headerType, typeArrow) }

const headerType = "Content-Type"

// The headers of a request that select the contents of the answer, as the members do.
const (
	headerTop           = "Stagewise-Top"
	headerClasses       = "Stagewise-Classes"
	headerContributions = "Stagewise-Contributions"
)

// asked is the requested contents of an answer besides the label of each row.
type asked struct {
	top     int  // number of most probable labels; 0: the probability of each, in label order
	classes bool // all labels, in the order of the probabilities

	contributions int // number of columns that add the most to each score; 0: no contributions

	// of the Open Inference Protocol
	id      []byte   // of the request, as JSON; nil: none
	binary  bool     // tensors are binary, if they do not say otherwise
	tensors []column // those asked for
}

// askedBy returns the contents requested in headers.
func askedBy(h http.Header) (a asked, err error) {
	for key, set := range map[string]func(value.Cell) error{headerTop: a.setTop, headerContributions: a.setContributions} {
		if text := h.Get(key); text != "" {
			if err := set([]byte(text)); err != nil {
				return a, refuse(http.StatusBadRequest, "%s: %v", key, err)
			}
		}
	}
	if text := h.Get(headerClasses); text != "" {
		if a.classes, err = strconv.ParseBool(text); err != nil {
			return a, refuse(http.StatusBadRequest, "%s: %.20q: expected true or false", headerClasses, text)
		}
	}
	return a, nil
}

// setTop and setContributions set the contents from the text of a member or a header.
func (a *asked) setTop(text value.Cell) error { return setNumber(&a.top, text, "a number of labels") }

func (a *asked) setContributions(text value.Cell) error {
	return setNumber(&a.contributions, text, "a number of columns")
}

func setNumber(to *int, text value.Cell, want string) (err error) {
	if *to, err = strconv.Atoi(string(text)); err != nil || *to < 1 {
		err = fmt.Errorf("%.20s: expected %s, at least 1", text, want)
	}
	return err
}

// contributionBytes is the smallest size of a contribution in an answer.
const contributionBytes = len(`{"column":"","value":0},`)

// check returns an error for contents that a version does not have, or that do not fit in an answer.
func (a asked) check(v *version, maxAnswer int64) error {
	if a.top > 0 && v.predictsNumbers() {
		return refuse(http.StatusBadRequest, "%q: the model predicts numbers, which have no probabilities", keyTop)
	}
	if a.contributions == 0 {
		return nil
	}
	if most := maxAnswer / int64(contributionBytes*len(v.Labels())); int64(a.contributions) > most {
		return refuse(http.StatusBadRequest, "%q: %d: expected at most %d, which are the most that an answer may have for a row",
			keyContributions, a.contributions, most)
	}
	if err := v.CheckContributions(); err != nil {
		return refuse(http.StatusBadRequest, "%q: %v", keyContributions, err)
	}
	return nil
}

// mostRows returns the maximum number of rows that are predicted together.
func (a asked) mostRows(v *version) int {
	k, width := len(v.Labels()), max(v.Width(), 1)
	if a.contributions > 0 {
		k *= min(width, tileValues)
	}
	return max(1, min(tileRows, tileValues/k, (1<<20)/width))
}

// values returns the number of values per row in the answer of a version.
func (a asked) values(v *version) int {
	k := len(v.Labels())
	return min(cmp.Or(a.top, k), k)
}

// mostProbable returns the top classes with the largest probabilities, largest first, ties in class order. It uses the
// memory of order.
func mostProbable(order []int32, probabilities []float32, top int) []int32 {
	order = order[:0]
	for c := range probabilities {
		order = append(order, int32(c))
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(probabilities[b], probabilities[a]) })
	return order[:min(top, len(order))]
}

// Content types of rows and answers.
const (
	typeJSON  = "application/json"
	typeArrow = "application/vnd.apache.arrow.stream"
	typeBytes = "application/octet-stream"
	typeText  = "text/plain; charset=utf-8"
)

// The protocols whose JSON is not that of /predict.
const (
	openInference = "the Open Inference Protocol"
	mlflow        = "MLflow"
)

// contentType returns the content type of a request's rows, which must be one of those expected.
func contentType(r *http.Request, expected ...string) (string, error) {
	sent := r.Header.Get(headerType)
	name, parameters, err := mime.ParseMediaType(sent)
	charset, isSet := parameters["charset"]
	known, want := err == nil && slices.Contains(expected, name), strings.Join(expected, " or ")
	switch {
	case known && isSet && !strings.EqualFold(charset, "utf-8"):
		return "", refuse(http.StatusUnsupportedMediaType, "charset %.40q: expected utf-8", charset)
	case known:
		return name, nil
	case sent == "":
		return "", refuse(http.StatusUnsupportedMediaType, "no Content-Type: expected %s", want)
	}
	return "", refuse(http.StatusUnsupportedMediaType, "Content-Type %.80q: expected %s", sent, want)
}

// answerType returns the content type of the answer: as accepted by the client, or else that of the rows.
func answerType(r *http.Request, sent string) (string, error) {
	accepted := strings.Join(r.Header.Values("Accept"), ",")
	if accepted == "" {
		return sent, nil
	}
	var types []string
	for part := range strings.SplitSeq(accepted, ",") {
		name, _, _ := strings.Cut(part, ";")
		types = append(types, strings.ToLower(strings.TrimSpace(name)))
	}
	other := map[string]string{typeJSON: typeArrow, typeArrow: typeJSON}[sent]
	switch {
	case slices.Contains(types, sent) || slices.Contains(types, "*/*") || slices.Contains(types, "application/*"):
		return sent, nil
	case slices.Contains(types, other):
		return other, nil
	}
	return "", refuse(http.StatusNotAcceptable, "Accept %.80q: expected %s or %s", accepted, typeJSON, typeArrow)
}
