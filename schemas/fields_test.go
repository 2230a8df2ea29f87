package schemas

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/threshold"
	"github.com/stagewise/stagewise/schemas/wire"
)

// fieldTables returns the tables of the fields of all JSON that is on topics, a table for each type: what Go's comments say of each field.
func fieldTables(t *testing.T) string {
	comments := fieldComments(t)
	var types []reflect.Type
	var visit func(reflect.Type)
	visit = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			visit(of.Elem())
		case reflect.Struct:
			if slices.Contains(types, of) || ownJSON(of) {
				return
			}
			types = append(types, of)
			for _, f := range fieldsOf(of) {
				visit(f.Type)
			}
		}
	}
	kinds := map[reflect.Type]wire.Kind{}
	for _, l := range layouts() {
		if l.value != nil {
			kinds[reflect.TypeOf(l.value)] = l.kind
			visit(reflect.TypeOf(l.value))
		}
	}
	visit(reflect.TypeFor[coverage.Coverage]())
	var b strings.Builder
	for _, of := range types {
		title := "`" + of.Name() + "`"
		if kind, ok := kinds[of]; ok {
			title = fmt.Sprintf("The JSON of kind `%s`, `%s`", kind, of.Name())
		}
		fmt.Fprintf(&b, "\n%s:\n\n| field | type | |\n|---|---|---|\n", title)
		for _, f := range fieldsOf(of) {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			text := comments[f.of+"."+f.Name]
			if text == "" {
				t.Errorf("%s.%s has no comment, which FORMAT.md would have", of.Name(), f.Name)
			}
			text = strings.NewReplacer("[", "", "]", "").Replace(text)
			for _, start := range []string{" is the ", " are the ", " is a ", " is an ", " is ", " are ", " "} {
				text = strings.TrimPrefix(text, f.Name+start)
			}
			for other := range of.Fields() {
				other, tag := other.Name, other.Tag.Get("json")
				text = strings.ReplaceAll(text, " "+other+" is set", " `"+strings.Split(tag, ",")[0]+"` is set")
			}
			if options == "omitempty" {
				text += ". Omitted if " + emptyOf(f.Type)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, jsonType(f.Type), strings.ReplaceAll(text, "|", "\\|"))
		}
	}
	return b.String()
}

// field is a field of a type, or of one that it embeds.
type field struct {
	reflect.StructField
	of string // name of the type that declares it
}

// fieldsOf returns the fields of a struct's JSON, where those of an embedded type are its own.
func fieldsOf(of reflect.Type) (fields []field) {
	for f := range of.Fields() {
		if f.Anonymous && f.Tag.Get("json") == "" {
			fields = append(fields, fieldsOf(f.Type)...)
			continue
		}
		fields = append(fields, field{f, of.Name()})
	}
	return fields
}

// ownJSON reports whether a type writes its JSON itself. FORMAT.md describes it elsewhere.
func ownJSON(of reflect.Type) bool { return of.Implements(reflect.TypeFor[json.Marshaler]()) }

// emptyOf says when a field that may be left out is.
func emptyOf(of reflect.Type) string {
	switch of.Kind() {
	case reflect.Pointer:
		return "unset"
	case reflect.Bool:
		return "false"
	case reflect.Int, reflect.Int64, reflect.Float64:
		return "0"
	}
	return "empty"
}

// jsonType names a type as JSON has it.
func jsonType(of reflect.Type) string {
	switch of.Kind() {
	case reflect.Pointer:
		if of.Elem().Kind() == reflect.Float64 {
			return "number or null"
		}
		return jsonType(of.Elem())
	case reflect.Slice:
		if of == reflect.TypeFor[examples.ClassLabels]() {
			return "array of string, or of integer"
		}
		return "array of " + jsonType(of.Elem())
	case reflect.Array:
		return fmt.Sprintf("array of %d × %s", of.Len(), jsonType(of.Elem()))
	case reflect.Map:
		return "object of " + jsonType(of.Elem())
	case reflect.Struct:
		if of == reflect.TypeFor[ClassWeight]() {
			return "string, or object of number"
		}
		if of == reflect.TypeFor[threshold.Rule]() {
			return "number, string or object, as for the key `threshold`"
		}
		if ownJSON(of) {
			return "`" + of.Name() + "`, see [examples](#examples)"
		}
		return "`" + of.Name() + "`"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Float64:
		if of == reflect.TypeFor[Ridge]() {
			return "number or `auto`"
		}
		return "number"
	}
	return "integer"
}

// sources returns the files of this package and of those that its messages are made of.
func sources(t *testing.T) []string {
	t.Helper()
	return slices.Concat(arrowtest.Must(filepath.Glob("*.go"))(t), arrowtest.Must(filepath.Glob("*/*.go"))(t))
}

// fieldComments returns what the comments of these packages say of the fields of structs, by Type.Field, on one line each.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	comments := map[string]string{}
	for _, file := range sources(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed := arrowtest.Must(parser.ParseFile(token.NewFileSet(), file, arrowtest.Must(os.ReadFile(file))(t),
			parser.ParseComments|parser.SkipObjectResolution))(t)
		for _, d := range parsed.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.TYPE {
				continue
			}
			for _, spec := range group.Specs {
				named := spec.(*ast.TypeSpec)
				fields, ok := named.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, f := range fields.Fields.List {
					text := strings.TrimSuffix(strings.Join(strings.Fields(f.Doc.Text()+f.Comment.Text()), " "), ".")
					for _, name := range f.Names {
						comments[named.Name.Name+"."+name.Name] = text
					}
				}
			}
		}
	}
	return comments
}
