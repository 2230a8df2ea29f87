package wire

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas/stream"
)

// The headers of a message, and the notes and tensors of a record, are the fields of a struct with tags:
//
//	header:"rows"            text, a number, or for any other type its JSON
//	header:"row,count"       a number of at least 0
//	header:"final,group"     a pointer to a struct of headers, the first of which is final; nil: none of them
//	tensor:"W"               a [Tensor], a slice of texts, a vector of numbers, or a matrix with a row for each struct of numbers
//	tensor:"covered,texts"   for each element a text, its JSON
//	tensor:"columns,text"    one text, the JSON of the value
//	tensor:"*"               [Tensors]: all that no other field has
//
// The options omitempty and omitzero leave out fields as in encoding/json. Headers and tensors have the order of the fields. The fields of
// embedded structs are included.

// tag is a field of a struct with a tag.
type tag struct {
	reflect.Value
	name    string
	options []string
}

// tagged returns the fields with a tag of that key. If has is not nil, it reports whether a header exists, and tagged makes the groups that
// exist.
func tagged(v reflect.Value, key string, has func(header string) bool) (fields []tag) {
	for i := range v.NumField() {
		of, field := v.Type().Field(i), v.Field(i)
		text, ok := of.Tag.Lookup(key)
		options := strings.Split(text, ",")
		switch t := (tag{field, options[0], options[1:]}); {
		case ok && t.is("group"):
			if has != nil && has(t.name) {
				field.Set(reflect.New(of.Type.Elem()))
			}
			if !field.IsNil() {
				fields = append(fields, tagged(field.Elem(), key, has)...)
			}
		case ok:
			fields = append(fields, t)
		case of.Anonymous && reflect.Indirect(field).Kind() == reflect.Struct:
			fields = append(fields, tagged(reflect.Indirect(field), key, has)...)
		}
	}
	return fields
}

// is reports whether the tag has an option.
func (t *tag) is(option string) bool { return slices.Contains(t.options, option) }

// optional reports whether the field may be left out.
func (t *tag) optional() bool { return t.is("omitempty") || t.is("omitzero") }

// omitted reports whether the field is left out.
func (t *tag) omitted() bool {
	return t.optional() && (t.IsZero() || t.Kind() == reflect.Slice && t.Len() == 0 && t.is("omitempty"))
}

// HeadersOf returns the headers of a struct with tags, given a pointer to it.
func HeadersOf(v any) (headers []Header) {
	for _, f := range tagged(reflect.ValueOf(v).Elem(), "header", nil) {
		if !f.omitted() {
			headers = append(headers, Header{f.name, headerText(f.Value)})
		}
	}
	return headers
}

// headerText returns the text of a value in a header.
func headerText(v reflect.Value) string {
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, _ := m.MarshalText() // the types of headers return no error
		return string(text)
	}
	switch {
	case v.Kind() == reflect.Pointer && v.Elem().Kind() != reflect.Struct:
		return headerText(v.Elem())
	case v.Kind() == reflect.String:
		return v.String()
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10)
	case v.CanFloat():
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return string(JSON(v.Interface()))
}

// ReadHeaders reads the headers of a message into a struct with tags. The error wraps [ErrDamaged].
func ReadHeaders(m Message, into any) error {
	if err := readHeaders(m.Get, into); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// readHeaders reads headers into a struct with tags.
func readHeaders(get func(header string) string, into any) error {
	for _, f := range tagged(reflect.ValueOf(into).Elem(), "header", func(header string) bool { return get(header) != "" }) {
		text := get(f.name)
		if text == "" && f.optional() {
			continue
		}
		if err := setHeader(f.Value, text); err != nil {
			return fmt.Errorf("header %s is %s, %w", f.name, stream.Quote(text), err)
		}
		if f.is("count") && f.Int() < 0 {
			return fmt.Errorf("header %s is %s, expected at least 0", f.name, text)
		}
	}
	return nil
}

// setHeader is the inverse of headerText.
func setHeader(v reflect.Value, text string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch {
	case v.Kind() == reflect.Pointer && v.Type().Elem().Kind() != reflect.Struct:
		v.Set(reflect.New(v.Type().Elem()))
		return setHeader(v.Elem(), text)
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.CanInt():
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if v.SetInt(n); err != nil {
			return errors.New("expected a whole number")
		}
	case v.CanFloat():
		n, err := strconv.ParseFloat(text, 64)
		if v.SetFloat(n); err != nil {
			return errors.New("expected a number")
		}
	default:
		if err := json.Unmarshal([]byte(text), v.Addr().Interface()); err != nil {
			return fmt.Errorf("expected JSON: %w", err)
		}
	}
	return nil
}

// RecordOf makes the record of a struct with tags and an [Identity]. The tensors may share memory with the struct.
func RecordOf[T Number, S any](v *S) *Record[T] {
	of := reflect.ValueOf(v).Elem()
	r := &Record[T]{Identity: of.FieldByName("Identity").Interface().(Identity), Notes: HeadersOf(v)}
	for _, f := range tagged(of, "tensor", nil) {
		if rest, ok := f.Interface().(Tensors[T]); ok {
			r.Tensors = append(r.Tensors, rest...)
		} else if !f.omitted() {
			r.Tensors = append(r.Tensors, tensorOf[T](f))
		}
	}
	return r
}

// Into reads the record into a struct with tags, whose slices may then share memory with the tensors. It reuses a slice of the struct whose
// numbers are of another type than T. The error wraps [ErrDamaged]. It may be that of the method Check of the struct.
func (r *Record[T]) Into(v any) error {
	of := reflect.ValueOf(v).Elem()
	of.FieldByName("Identity").Set(reflect.ValueOf(r.Identity))
	err := readHeaders(r.Note, v)
	if err == nil {
		err = r.readTensors(tagged(of, "tensor", nil))
	}
	if checked, ok := v.(interface{ Check() error }); ok && err == nil {
		err = checked.Check()
	}
	if err != nil {
		return r.Damaged(err)
	}
	return nil
}

// Read returns a record as a struct with tags. The error is that of [Record.Into].
func Read[S any, T Number](r *Record[T]) (*S, error) {
	v := new(S)
	if err := r.Into(v); err != nil {
		return nil, err
	}
	return v, nil
}

// readTensors reads the tensors into the fields of a struct.
func (r *Record[T]) readTensors(fields []tag) error {
	for _, f := range fields {
		t, found := r.Tensors.Find(f.name)
		if rest, ok := f.Addr().Interface().(*Tensors[T]); ok {
			*rest = slices.DeleteFunc(slices.Clone(r.Tensors), func(t Tensor[T]) bool {
				return slices.ContainsFunc(fields, func(f tag) bool { return f.name == t.Name })
			})
		} else if found {
			if err := setTensor(f, t); err != nil {
				return err
			}
		} else if !f.optional() {
			return &ShapeError{Tensor: f.name, Want: []int{-1}}
		}
	}
	return nil
}

// hasTexts reports whether the tensor of the field has texts.
func (t *tag) hasTexts() bool {
	return t.is("text") || t.is("texts") || t.Type() == reflect.TypeFor[[]string]()
}

// values returns the values that are texts of a tensor.
func (t *tag) values() (values []reflect.Value) {
	if t.is("text") {
		return []reflect.Value{t.Value}
	}
	for i := range t.Len() {
		values = append(values, t.Index(i))
	}
	return values
}

// shape returns the shape of the tensor of a slice, with -1 for its length.
func (t *tag) shape() []int {
	if t.hasTexts() || t.Type().Elem().Kind() != reflect.Struct {
		return []int{-1}
	}
	columns := 0
	_ = eachNumber(reflect.New(t.Type().Elem()).Elem(), func(reflect.Value) error {
		columns++
		return nil
	})
	return []int{-1, columns}
}

// tensorOf returns the tensor of a field.
func tensorOf[T Number](f tag) Tensor[T] {
	switch v := f.Interface().(type) {
	case Tensor[T]:
		return Tensor[T]{f.name, v.Shape, v.Data, v.Text}
	case []string:
		return Words[T](f.name, v)
	case []T:
		return Vector(f.name, v)
	case []float64:
		return Vector(f.name, converted[T](nil, v))
	case []float32:
		return Vector(f.name, converted[T](nil, v))
	}
	if f.hasTexts() {
		texts := []string{}
		for _, v := range f.values() {
			texts = append(texts, string(JSON(v.Interface())))
		}
		return Words[T](f.name, texts)
	}
	shape, data := f.shape(), []T{}
	shape[0] = f.Len()
	_ = eachNumber(f.Value, func(number reflect.Value) error {
		v, _ := number.Convert(reflect.TypeFor[float64]()).Interface().(float64)
		data = append(data, T(v))
		return nil
	})
	return Tensor[T]{Name: f.name, Shape: shape, Data: data}
}

// setTensor is the inverse of tensorOf.
func setTensor[T Number](f tag, t Tensor[T]) error {
	if whole, ok := f.Addr().Interface().(*Tensor[T]); ok {
		*whole = t
		return nil
	}
	want := f.shape()
	fits := len(t.Shape) == len(want) && slices.Equal(t.Shape[1:], want[1:])
	if texts := f.hasTexts(); !fits || texts && len(t.Data) > 0 || !texts && len(t.Text) > 0 || f.is("text") && len(t.Text) != 1 {
		return &ShapeError{f.name, t.Shape, want}
	}
	switch v := f.Addr().Interface().(type) {
	case *[]string:
		*v = t.Text
	case *[]T:
		*v = t.Data
	case *[]float64:
		*v = converted(*v, t.Data)
	case *[]float32:
		*v = converted(*v, t.Data)
	default:
		return setValues(f, t)
	}
	return nil
}

// setValues is setTensor for texts of JSON, and for other numbers.
func setValues[T Number](f tag, t Tensor[T]) error {
	if !f.is("text") {
		f.Set(reflect.MakeSlice(f.Type(), t.Shape[0], t.Shape[0]))
	}
	if !f.hasTexts() {
		return eachNumber(f.Value, func(number reflect.Value) error {
			next := float64(t.Data[0])
			t.Data = t.Data[1:]
			return setNumber(number, next)
		})
	}
	for i, v := range f.values() {
		if err := json.Unmarshal([]byte(t.Text[i]), v.Addr().Interface()); err != nil {
			return fmt.Errorf("tensor %q has the text %s: %w", f.name, stream.Quote(t.Text[i]), err)
		}
	}
	return nil
}

// converted returns numbers in another precision, in the memory of a slice if it is long enough.
func converted[T, S Number](into []T, data []S) []T {
	into = slices.Grow(into[:0], len(data))[:len(data)]
	for i, v := range data {
		into[i] = T(v)
	}
	return into
}

// eachNumber calls with for each number in a slice or a struct, in order.
func eachNumber(v reflect.Value, with func(number reflect.Value) error) error {
	n, of := 0, v.Field
	switch v.Kind() {
	case reflect.Slice:
		n, of = v.Len(), v.Index
	case reflect.Struct:
		n = v.NumField()
	default:
		return with(v)
	}
	for i := range n {
		if err := eachNumber(of(i), with); err != nil {
			return err
		}
	}
	return nil
}

// setNumber sets a number. It returns an error if the type can't represent the number.
func setNumber(to reflect.Value, v float64) error {
	if v == math.Trunc(v) && math.Abs(v) < 1<<63 || to.CanFloat() {
		if to.Set(reflect.ValueOf(v).Convert(to.Type())); to.Convert(reflect.TypeFor[float64]()).Float() == v || to.CanFloat() {
			return nil
		}
	}
	return fmt.Errorf("%v, expected a whole number within %v", v, to.Type())
}
