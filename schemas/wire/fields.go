package wire

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
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
