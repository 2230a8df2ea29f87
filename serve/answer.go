package serve

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
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
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// answer is the predictions of the rows of a request, as columns, and how they are encoded.
type answer struct {
	*version
	asked
	rows      int
	values    []float32 // probabilities: n × k, or those of the most probable labels
	numbers   []float64 // n × k: in regression, in place of the others
	given     []int32   // classes that the model decides for
	ends      []int32   // of those of a row, after a 0
	best      []int32   // most probable classes of each row, if asked for
	explained []string  // contributions of each row as JSON, if asked for
	texts     int       // bytes of them
	last      []float32 // probabilities of the rows that were added last: n × k
	order     []int32   // classes of a row, by probability
}

// contributed has the contributions to a score, with its label encoded as in answers.
type contributed struct {
	Label json.RawMessage `json:"label"`
	model.Contributions
}

// add predicts further rows.
func (a *answer) add(rows *examples.Rows) error {
	if a.contributions > 0 {
		var failed error
		scores := make([]contributed, len(a.quoted))
		err := a.Contributions(rows, a.contributions, func(_ int, of []model.Contributions) {
			for out, score := range of {
				scores[out] = contributed{a.quoted[out], score}
			}
			text, e := json.Marshal(scores)
			failed = cmp.Or(failed, e)
			a.explained, a.texts = append(a.explained, string(text)), a.texts+len(text)
		})
		if err = cmp.Or(err, failed); err != nil {
			return err
		}
	}
	k := len(a.Labels())
	n := rows.Rows * k
	a.rows += rows.Rows
	if a.predictsNumbers() {
		a.numbers = slices.Grow(a.numbers, n)[:len(a.numbers)+n]
		a.Numbers(a.numbers[len(a.numbers)-n:], rows)
		return nil
	}
	if a.top > 0 {
		a.last = slices.Grow(a.last[:0], n)[:n]
	} else {
		a.values = slices.Grow(a.values, n)[:len(a.values)+n]
		a.last = a.values[len(a.values)-n:]
	}
	a.Probabilities(a.last, rows)
	for row := range slices.Chunk(a.last, k) {
		a.given = a.Given(a.given, row)
		a.ends = append(a.ends, int32(len(a.given)))
		if a.top > 0 {
			a.order = mostProbable(a.order, row, a.top)
			a.best = append(a.best, a.order...)
			for _, class := range a.order {
				a.values = append(a.values, row[class])
			}
		}
	}
	return nil
}

// bytes returns the memory of the columns.
func (a *answer) bytes() int {
	return 4*(len(a.values)+len(a.given)+len(a.ends)+len(a.best)) + 8*len(a.numbers) + 16*len(a.explained) + a.texts
}

// givenOf returns the classes that the model decides for in row i.
func (a *answer) givenOf(i int) []int32 { return a.given[a.ends[i]:a.ends[i+1]] }

// output is a list of an answer in JSON, or a tensor of the Open Inference Protocol.
type output struct {
	name     string
	datatype string // of a tensor
	width    int    // values of a row of a tensor; 0: a single value, not a list
	binary   bool   // the values of a tensor follow the JSON
	nested   bool   // a row is a list
	append   func(a *answer, dst []byte, i int, binary bool) []byte
}

// lists returns the lists of an answer in JSON.
func (v *version) lists(kind string, a asked) []output {
	outputs := v.outputs()
	first, last := &outputs[0], &outputs[len(outputs)-1]
	last.nested = true
	switch {
	case v.predictsNumbers():
		last.nested = kind != mlflow || last.width > 1
	case kind == mlflow:
		first.name, outputs = "predictions", outputs[:1]
	default:
		first.name = "labels"
		if a.top > 0 {
			last.name, last.append = "top", (*answer).appendTop
		}
	}
	if v.givesSeveral() {
		first.nested, first.append = true, (*answer).appendGiven
	}
	if a.contributions > 0 {
		outputs = append(outputs, output{name: "contributions", append: (*answer).appendContributions})
	}
	return outputs
}

// outputs returns the tensors in the answers of a version: label, or in a multi-label task labels, which reports whether a row has each
// class; and probabilities. In regression, it returns only predictions.
func (v *version) outputs() []output {
	label := output{name: "label", datatype: "BYTES", append: (*answer).appendLabel}
	values := output{name: "probabilities", datatype: "FP32", width: len(v.Labels()), append: (*answer).appendValues}
	switch {
	case v.predictsNumbers():
		values.name, values.datatype = "predictions", "FP64"
		return []output{values}
	case v.givesSeveral():
		label = output{name: "labels", datatype: "BOOL", width: values.width, append: (*answer).appendTruths}
	case v.wholeNumbers != nil:
		label.datatype = "INT64"
	}
	return []output{label, values}
}

// want adds an output of a version to those that a request asks for.
func (a *asked) want(v *version, name string, binary bool) error {
	if !slices.ContainsFunc(v.outputs(), func(o output) bool { return o.name == name }) {
		return fmt.Errorf(`"outputs": there is no %.40q: expected label, labels, probabilities or predictions, as of the model`, name)
	}
	if a.wanted == nil {
		a.wanted = map[string]bool{}
	}
	a.wanted[name] = binary
	return nil
}

// appendGiven appends the labels that a row is given.
func (a *answer) appendGiven(dst []byte, i int, _ bool) []byte {
	for j, class := range a.givenOf(i) {
		dst = append(appendComma(dst, j == 0), a.quoted[class]...)
	}
	return dst
}

// appendTop appends the most probable labels of a row.
func (a *answer) appendTop(dst []byte, i int, _ bool) []byte {
	n := a.asked.values(a.version)
	for j, class := range a.best[i*n : (i+1)*n] {
		dst = append(append(appendComma(dst, j == 0), `{"label":`...), a.quoted[class]...)
		dst = append(value.AppendNumber(append(dst, `,"probability":`...), float64(a.values[i*n+j]), 32), '}')
	}
	return dst
}

func (a *answer) appendContributions(dst []byte, i int, _ bool) []byte {
	return append(dst, a.explained[i]...)
}

// appendLabel appends the label of a row.
func (a *answer) appendLabel(dst []byte, i int, isBinary bool) []byte {
	switch class := a.given[i]; {
	case !isBinary:
		return append(dst, a.quoted[class]...)
	case a.wholeNumbers != nil:
		return binary.LittleEndian.AppendUint64(dst, uint64(a.wholeNumbers[class]))
	default:
		label := a.Labels()[class]
		return append(binary.LittleEndian.AppendUint32(dst, uint32(len(label))), label...)
	}
}

// appendTruths appends whether a row has each label.
func (a *answer) appendTruths(dst []byte, i int, binary bool) []byte {
	for class := range a.Labels() {
		switch has := slices.Contains(a.givenOf(i), int32(class)); {
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

// appendValues appends the probabilities or the numbers of a row.
func (a *answer) appendValues(dst []byte, i int, binary bool) []byte {
	k := len(a.Labels())
	if a.predictsNumbers() {
		return appendNumbers(dst, a.numbers[i*k:(i+1)*k], 64, binary)
	}
	return appendNumbers(dst, a.values[i*k:(i+1)*k], 32, binary)
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

// text is bytes in pieces: they grow without copies.
type text struct {
	pieces [][]byte
	bytes  int
	room   func(bytes int) error // called before further pieces, with the bytes so far
	err    error                 // of room: the text is incomplete
}

// pieceBytes is the approximate size of a piece of a long text.
const pieceBytes = 64 << 10

// add calls appends, which appends to the last piece.
func (t *text) add(appends func(dst []byte) []byte) {
	last := len(t.pieces) - 1
	if last < 0 || len(t.pieces[last]) >= pieceBytes {
		if t.err = cmp.Or(t.err, t.room(t.bytes)); t.err != nil {
			return
		}
		t.pieces, last = append(t.pieces, nil), last+1
	}
	before := len(t.pieces[last])
	t.pieces[last] = appends(t.pieces[last])
	t.bytes += len(t.pieces[last]) - before
}

// Write implements [io.Writer].
func (t *text) Write(p []byte) (int, error) {
	t.add(func(dst []byte) []byte { return append(dst, p...) })
	return len(p), t.err
}

// behind returns a text that follows t: see [text.join].
func (t *text) behind() *text {
	return &text{room: func(bytes int) error { return t.room(t.bytes + bytes) }}
}

// join adds the pieces of a text.
func (t *text) join(o *text) {
	t.pieces, t.bytes, t.err = append(t.pieces, o.pieces...), t.bytes+o.bytes, cmp.Or(t.err, o.err)
}

// output adds all rows of an output.
func (t *text) output(a *answer, o *output) {
	for i := 0; i < a.rows && t.err == nil; i++ {
		t.add(func(dst []byte) []byte {
			if dst = appendComma(dst, i == 0 || o.binary); !o.nested {
				return o.append(a, dst, i, o.binary)
			}
			return append(o.append(a, append(dst, '['), i, false), ']')
		})
	}
}

// encode adds the answer in JSON to a text: {"version", "labels", "probabilities"}; {"predictions"} for MLflow, the labels or the predicted
// numbers.
func (a *answer) encode(t *text, kind string) error {
	head := []byte{'{'}
	if kind != mlflow {
		head = fmt.Appendf(head, `"version":%d,`, a.Manifest.Version)
	}
	switch {
	case kind == mlflow:
	case a.predictsNumbers():
		head = fmt.Appendf(head, `"targets":%s,`, a.list)
	case a.classes:
		head = fmt.Appendf(head, `"classes":%s,`, a.list)
	}
	for _, o := range a.lists(kind, a.asked) {
		fmt.Fprintf(t, `%s"%s":[`, head, o.name)
		t.output(a, &o)
		head = []byte("],")
	}
	fmt.Fprint(t, "]}\n")
	return t.err
}

// encodeTensors adds the answer of the Open Inference Protocol: JSON, followed by the values of binary tensors. It returns the length
// of the JSON if there are any. For a call, it adds the frame with the equivalent message.
func (a *answer) encodeTensors(t *text, call bool) (length int, err error) {
	object := &text{room: t.room}
	behind := object.behind()
	fmt.Fprintf(object, `{"model_name":%q,"model_version":"%d",`, a.Manifest.Name, a.Manifest.Version)
	if a.id != nil {
		fmt.Fprintf(object, `"id":%s,`, a.id)
	}
	head := `"outputs":[`
	for _, o := range a.outputs() {
		var isWanted bool
		if o.binary, isWanted = a.wanted[o.name]; a.wanted == nil {
			o.binary = a.binary
		} else if !isWanted {
			continue
		}
		fmt.Fprintf(object, `%s{"name":%q,"datatype":%q,"shape":[%d`, head, o.name, o.datatype, a.rows)
		if o.width > 0 {
			fmt.Fprintf(object, ",%d", o.width)
		}
		head = ","
		if o.binary {
			values := behind.behind()
			values.output(a, &o)
			if call {
				_, _ = behind.Write(protowire.AppendVarint(protowire.AppendTag(nil, 6, protowire.BytesType), uint64(values.bytes)))
			}
			behind.join(values)
			fmt.Fprintf(object, `],"parameters":{"binary_data_size":%d}}`, values.bytes)
			continue
		}
		fmt.Fprint(object, `],"data":[`)
		object.output(a, &o)
		fmt.Fprint(object, "]}")
	}
	fmt.Fprint(object, "]}")
	if behind.bytes > 0 {
		length = object.bytes
	}
	if call {
		message := messageOf(bytes.Join(object.pieces, nil), "model_name", "model_version", "id", "parameters", "outputs")
		t.pieces = [][]byte{append(framing(len(message)+behind.bytes), message...)}
		t.bytes = len(t.pieces[0])
	} else {
		t.join(object)
	}
	t.join(behind)
	return length, cmp.Or(object.err, t.err)
}

// The metadata keys in a response's schema for the version, and for the labels as JSON if requested.
const (
	metadataVersion = "stagewise.version"
	metadataClasses = "stagewise.classes"
)

// encodeArrow adds the answer as an Arrow stream: the column label, and the column probabilities, a list of the classes in
// order, or top, a list of the most probable labels with their probabilities; for multi-label tasks the column labels, a
// list of the row's labels, in place of label; in regression the column predictions, a list of float64 in target order.
// Labels are int64 if all of them are integers. The last column is contributions, if asked for: texts of JSON.
func (a *answer) encodeArrow(t *text) error {
	keys, values := []string{metadataVersion}, []string{strconv.Itoa(a.Manifest.Version)}
	if a.classes {
		keys, values = append(keys, metadataClasses), append(values, string(a.list))
	}
	metadata := arrow.NewMetadata(keys, values)
	var fields []arrow.Field
	var columns []arrow.Array
	column := func(name string, of arrow.DataType, items []byte, children ...arrow.Array) {
		fields, columns = append(fields, arrow.Field{Name: name, Type: of}), append(columns, made(of, a.rows, items, children...))
	}
	k, probability, number := int32(len(a.Labels())), arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64
	if a.predictsNumbers() {
		column("predictions", arrow.FixedSizeListOf(k, number), nil, made(number, len(a.numbers), arrow.Float64Traits.CastToBytes(a.numbers)))
	} else {
		given, probabilities := a.labelsOf(a.given), made(probability, len(a.values), arrow.Float32Traits.CastToBytes(a.values))
		label := given.DataType()
		if a.givesSeveral() {
			column("labels", arrow.ListOf(label), arrow.Int32Traits.CastToBytes(a.ends), given)
		} else {
			fields, columns = append(fields, arrow.Field{Name: "label", Type: label}), append(columns, given)
		}
		if a.top > 0 {
			ends := make([]int32, a.rows+1)
			for i := range ends {
				ends[i] = int32(i * a.asked.values(a.version))
			}
			probable := arrow.StructOf(arrow.Field{Name: "label", Type: label}, arrow.Field{Name: "probability", Type: probability})
			best := made(probable, len(a.best), nil, a.labelsOf(a.best), probabilities)
			column("top", arrow.ListOf(probable), arrow.Int32Traits.CastToBytes(ends), best)
		} else {
			column("probabilities", arrow.FixedSizeListOf(k, probability), nil, probabilities)
		}
	}
	if a.contributions > 0 {
		texts := array.NewStringBuilder(memory.DefaultAllocator)
		defer texts.Release()
		texts.AppendValues(a.explained, nil)
		fields, columns = append(fields, arrow.Field{Name: "contributions", Type: arrow.BinaryTypes.String}), append(columns, texts.NewArray())
	}
	schema := arrow.NewSchema(fields, &metadata)
	record := array.NewRecord(schema, columns, int64(a.rows))
	defer record.Release()
	for _, c := range columns {
		c.Release()
	}
	w := ipc.NewWriter(t, ipc.WithSchema(schema))
	return cmp.Or(t.err, w.Write(record), w.Close())
}

// made returns an array of n values of a type, none of which is null, with the bytes of its values or of its offsets, if it has any. It
// releases the children.
func made(of arrow.DataType, n int, content []byte, children ...arrow.Array) arrow.Array {
	buffers := []*memory.Buffer{nil}
	if content != nil {
		buffers = append(buffers, memory.NewBufferBytes(content))
	}
	var data []arrow.ArrayData
	for _, child := range children {
		defer child.Release()
		data = append(data, child.Data())
	}
	whole := array.NewData(of, n, buffers, data, 0, 0)
	defer whole.Release()
	return array.MakeFromData(whole)
}

// labelsOf returns the labels of classes as a column of integers or texts.
func (v *version) labelsOf(classes []int32) arrow.Array {
	if v.wholeNumbers != nil {
		b := array.NewInt64Builder(memory.DefaultAllocator)
		defer b.Release()
		b.Reserve(len(classes))
		for _, class := range classes {
			b.UnsafeAppend(v.wholeNumbers[class])
		}
		return b.NewArray()
	}
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	for _, class := range classes {
		b.Append(v.Labels()[class])
	}
	return b.NewArray()
}

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
	id     []byte          // of the request, as JSON; nil: none
	binary bool            // tensors are binary, if they do not say otherwise
	wanted map[string]bool // names of the tensors asked for, and whether each is binary; nil: all
}

// askedBy returns the contents requested in headers.
func askedBy(h http.Header) (a asked, err error) {
	for key, keep := range map[string]func(value.Cell) error{headerTop: keepNumber(&a.top, "a number of labels"),
		headerContributions: keepNumber(&a.contributions, "a number of columns")} {
		if text := h.Get(key); text != "" {
			if err := keep([]byte(text)); err != nil {
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

// keepNumber returns a function that keeps a number, the text of a member or a header.
func keepNumber(to *int, want string) func(value.Cell) error {
	return func(text value.Cell) (err error) {
		if *to, err = strconv.Atoi(string(text)); err != nil || *to < 1 {
			err = fmt.Errorf("%.20s: expected %s, at least 1", text, want)
		}
		return err
	}
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
	k, width, most := len(v.Labels()), max(v.Width(), 1), tileRows
	if a.contributions > 0 { // of many rows at once, as trees process them in groups
		k, most = k*min(width, tileValues), contributedRows
	}
	return max(1, min(most, tileValues/k, (1<<20)/width))
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
	accepted, other := strings.Join(r.Header.Values("Accept"), ","), ""
	for part := range strings.SplitSeq(accepted, ",") {
		name, _, _ := strings.Cut(part, ";")
		switch name = strings.ToLower(strings.TrimSpace(name)); name {
		case "", sent, "*/*", "application/*":
			return sent, nil
		case typeJSON, typeArrow:
			other = name
		}
	}
	if other == "" {
		return "", refuse(http.StatusNotAcceptable, "Accept %.80q: expected %s or %s", accepted, typeJSON, typeArrow)
	}
	return other, nil
}
