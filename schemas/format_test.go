package schemas

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// FORMAT.md has tables of the tags and comments of Go's types, between marks. -update writes them.
func TestFormatTables(t *testing.T) {
	comments := fieldComments(t)
	tables := map[string]string{
		"versions": jsonTables(t, comments, Manifest{}, BlockDigest{}, statistics.Thresholds{}),
		"plan": jsonTable(t, comments, Plan{}, "input", "targets", "labels", "prepare", "stages", "average", "intercept", "seed") +
			jsonTables(t, comments, Input{}, Hash{}, Prepare{}) + "\n`Stage`:\n" +
			jsonTable(t, comments, Stage{}, "features", "link", "basis", "scores", "drawn", "temperature") + jsonTables(t, comments, Draw{}, Features{}),
		"forget":      jsonTables(t, comments, Forget{}, coverage.ForgottenRows{}, Heeded{}),
		"predictions": headerTable(t, comments, Prediction{}, "Prediction"),
		"quarantine":  headerTable(t, comments, Quarantined{}, "Quarantined"),
		"tensors":     tensorTable(t, comments),
	}
	page := string(assert.Must(os.ReadFile("FORMAT.md"))(t))
	marked := page
	for name, table := range tables {
		section := regexp.MustCompile(`(?s)(<!-- ` + name + `:[^>]*-->\n).*?(<!-- end -->)`)
		assert.True(t, section.MatchString(page), "FORMAT.md has no marks for the table of %s", name)
		marked = section.ReplaceAllString(marked, "${1}"+strings.ReplaceAll(table, "$", "$$")+"${2}")
	}
	if *update {
		assert.NoError(t, os.WriteFile("FORMAT.md", []byte(marked), 0o644))
	} else if marked != page {
		t.Error("FORMAT.md's tables differ from the types: test with -update")
	}
	_, topics, _ := strings.Cut(page, "| topic | kinds |")
	topics, _, _ = strings.Cut(topics, "\n\n")
	for _, kind := range declaredKinds(t) {
		assert.True(t, regexp.MustCompile(`\b`+string(kind)+`\b`).MatchString(topics),
			"FORMAT.md's table of topics does not have the kind %s", kind)
	}
}

// jsonTables returns the tables of the fields of types, with a title each.
func jsonTables(t *testing.T, comments map[string]string, values ...any) (text string) {
	for _, value := range values {
		text += fmt.Sprintf("\n`%s`:\n", reflect.TypeOf(value).Name()) + jsonTable(t, comments, value)
	}
	return text
}

// jsonTable returns a table of fields of a type, by default of all.
func jsonTable(t *testing.T, comments map[string]string, value any, names ...string) string {
	of := reflect.TypeOf(value)
	text := "\n| field | type | |\n|---|---|---|\n"
	for _, f := range fieldsOf(of) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		comment := described(t, comments, f.of, f.Name)
		for other := range of.Fields() {
			other, tag := other.Name, other.Tag.Get("json")
			comment = strings.ReplaceAll(comment, " "+other+" is set", " `"+strings.Split(tag, ",")[0]+"` is set")
		}
		text += fmt.Sprintf("| `%s` | %s%s | %s |\n", name, jsonType(f.Type), optional(options), comment)
	}
	return text
}

// headerTable returns a table of the headers of a message.
func headerTable(t *testing.T, comments map[string]string, value any, of string) string {
	text := "\n| header | type | |\n|---|---|---|\n"
	for f := range reflect.TypeOf(value).Fields() {
		tag, ok := f.Tag.Lookup("header")
		if !ok {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		text += fmt.Sprintf("| `%s` | %s%s | %s |\n", name, jsonType(f.Type), optional(options), described(t, comments, of, f.Name))
	}
	return text
}

// tensorTable returns the table of the tensors of versions: of the survey's result, of weights and of trees.
func tensorTable(t *testing.T, comments map[string]string) string {
	text, last := "", wire.Kind("")
	names, all := constants(t, "statistics/statistics.go")
	for _, constant := range names {
		kind, name := wire.Kind(""), all[constant]
		switch {
		case slices.Contains(statistics.StructureTensors(), name):
			kind = KindStructure
		case statistics.OfPreparation(name) && strings.HasPrefix(constant, "Tensor"):
			kind = statistics.KindPrepare
		case constant == "TensorW", constant == "TensorCalibration":
			kind = KindWeights
		default:
			continue
		}
		if kind != last {
			text, last = text+"\n| tensor of `"+string(kind)+"` | |\n|---|---|\n", kind
		}
		text += fmt.Sprintf("| `%s` | %s |\n", name, described(t, comments, "", constant))
	}
	return text
}

// constants returns the names of the constants of a file that are texts, in order, and their values.
func constants(t *testing.T, path string) (names []string, values map[string]string) {
	values = map[string]string{}
	ast.Inspect(assert.Must(parser.ParseFile(token.NewFileSet(), path, nil, 0))(t), func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			if text, ok := spec.Values[0].(*ast.BasicLit); ok && text.Kind == token.STRING {
				names, values[spec.Names[0].Name] = append(names, spec.Names[0].Name), assert.Must(strconv.Unquote(text.Value))(t)
			}
		}
		return true
	})
	return names, values
}

// described returns what the comment of a field or a constant says.
func described(t *testing.T, comments map[string]string, of, name string) string {
	key := name
	if of != "" {
		key = of + "." + name
	}
	text := comments[key]
	assert.True(t, text != "", "%s has no comment, which FORMAT.md would have", key)
	if of != "" {
		text = strings.NewReplacer("[", "", "]", "").Replace(text)
	}
	for _, start := range []string{" is the ", " are the ", " is a ", " is an ", " is ", " are ", " "} {
		text = strings.TrimPrefix(text, name+start)
	}
	return strings.ReplaceAll(text, "|", "\\|")
}

// FORMAT.md names the columns of each schema, in their order, with their types.
func TestFormatColumns(t *testing.T) {
	mem := assert.Allocator(t)
	page := string(assert.Must(os.ReadFile("FORMAT.md"))(t))
	record := (&examples.Rows{Rows: 1, Cols: 1, Floats: []float32{1}, Words: []string{"a"}, Weights: []float32{1},
		Splits: []examples.Split{examples.Test}}).Record(mem)
	predicted := (&Prediction{Task: examples.SeveralLabels, Labels: make([]string, 3), Contributions: []string{}}).record(mem)
	defer record.Release()
	defer predicted.Release()
	for section, schema := range map[string]*arrow.Schema{
		"Examples": record.Schema(), "Predicted rows": predicted.Schema(), "Records": wire.FormatOf[float64]().Schema,
	} {
		_, text, _ := strings.Cut(page, "\n## "+section+"\n")
		for _, f := range schema.Fields() {
			_, rest, found := strings.Cut(text, fmt.Sprintf("| `%s` |", f.Name))
			described, _, _ := strings.Cut(rest, "\n")
			assert.True(t, found && strings.Contains(described, "`"+typeName(f.Type)),
				"section %s: column %s of type %s is not the next row: %q", section, f.Name, typeName(f.Type), described)
			text = rest
		}
	}
}

// typeName returns a type's name in FORMAT.md, without the names and nullability of nested fields and the length of a list.
func typeName(of arrow.DataType) string {
	switch of := of.(type) {
	case *arrow.FixedSizeListType:
		return "fixed_size_list<" + typeName(of.Elem()) + ">"
	case *arrow.ListType:
		return "list<" + typeName(of.Elem()) + ">"
	case *arrow.DictionaryType:
		return "dictionary<" + typeName(of.IndexType) + ", " + typeName(of.ValueType) + ">"
	}
	return of.Name()
}

// declaredKinds returns the constants of type Kind.
func declaredKinds(t *testing.T) (kinds []wire.Kind) {
	files := sources(t)
	for _, name := range files {
		ast.Inspect(assert.Must(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t), func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || spec.Type == nil {
				return true
			}
			if of := types.ExprString(spec.Type); (of == "Kind" || of == "wire.Kind") && len(spec.Values) == 1 {
				kinds = append(kinds, wire.Kind(assert.Must(strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value))(t)))
			}
			return true
		})
	}
	return kinds
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

// optional says that a field with these options may be left out.
func optional(options string) string {
	if strings.Contains(options, "omit") {
		return ", optional"
	}
	return ""
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
		if of == reflect.TypeFor[ThresholdRule]() {
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
	return slices.Concat(assert.Must(filepath.Glob("*.go"))(t), assert.Must(filepath.Glob("*/*.go"))(t))
}

// fieldComments returns what the comments of these packages say of the fields of structs, by Type.Field, and of constants, by name.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	comments := map[string]string{}
	for _, file := range sources(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed := assert.Must(parser.ParseFile(token.NewFileSet(), file, assert.Must(os.ReadFile(file))(t),
			parser.ParseComments|parser.SkipObjectResolution))(t)
		add := func(of string, names []*ast.Ident, doc, comment *ast.CommentGroup) {
			for _, name := range names {
				comments[of+name.Name] = strings.TrimSuffix(strings.Join(strings.Fields(doc.Text()+comment.Text()), " "), ".")
			}
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				add("", n.Names, n.Doc, n.Comment)
			case *ast.TypeSpec:
				if fields, ok := n.Type.(*ast.StructType); ok {
					for _, f := range fields.Fields.List {
						add(packageOf(file)+n.Name.Name+".", f.Names, f.Doc, f.Comment)
					}
				}
			}
			return true
		})
	}
	return comments
}

// packageOf returns what distinguishes the types Message of packages.
func packageOf(file string) string {
	if folder := filepath.Dir(file); folder == "prediction" {
		return folder + "."
	}
	return ""
}

// predictionOf returns a prediction message for rows of three or more classes, or of that many regression targets.
func predictionOf(task examples.Task, rows, classes int) *Prediction {
	p := &Prediction{
		Topic: "digits.examples", Partition: 3, Offset: 1 << 40, After: 1 << 40, Checksum: "af9b094d-18bcfe56800",
		Version: 7, Run: "2297280bb4a3", Row: 128, Until: 128 + rows, Rows: 128 + rows, Seen: 9,
		Task: task, Probabilities: numbered(rows * classes),
	}
	for c := range classes {
		p.Labels = append(p.Labels, fmt.Sprint("class ", c))
	}
	for i := range rows {
		p.Classes = append(p.Classes, int32(i%classes))
	}
	switch task {
	case examples.SeveralLabels:
		for i := range p.Probabilities {
			p.Given = append(p.Given, i%3 == 0)
		}
	case examples.Numbers:
		for _, v := range p.Probabilities {
			p.Numbers = append(p.Numbers, 1764000000.25+float64(v))
		}
		p.Classes, p.Probabilities = nil, nil
	}
	return p
}

// residualsOf returns the scores and residuals of rows.
func residualsOf(rows, classes int) *Residuals {
	r := &Residuals{
		Identity: wire.Identity{Kind: KindResiduals, Run: "run", Stage: 1, Partition: 3, Parent: "parent"},
		Offset:   1 << 40, Row: 128, Classes: classes,
		Score: numbered(rows * classes), Residual: numbered(rows * classes),
	}
	slices.Reverse(r.Residual)
	return r
}

// votedOf returns [residualsOf] with votes.
func votedOf(rows, classes int) *Residuals {
	r := residualsOf(rows, classes)
	r.Votes = numbered(rows * classes)
	for i := range r.Votes {
		r.Votes[i] += 0.5
	}
	return r
}

func numbered(n int) []float32 {
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i%1000) / 3
	}
	return values
}

// A reason names the column, and says what was expected, without the values of the row.
func TestWithoutValues(t *testing.T) {
	for reason, want := range map[string]string{
		`column "card": "4111 1111 1111 1111" is not a number`:                                                `column "card": … is not a number`,
		`column "card": "say \"4111\"" is not a number`:                                                       `column "card": … is not a number`,
		`column "card": "4111 1111 111`:                                                                       `column "card": …`,
		`column 3 ("card"): 4111111111111111 is not a number`:                                                 `column 3 ("card"): … is not a number`,
		`row 2, counted from 0: column "w": weight -4111: expected a finite number ≥ 0`:                       `row 2, counted from 0: column "w": weight …: expected a finite number ≥ …`,
		`label "Jane Doe" is not one of the classes`:                                                          `label … is not one of the classes`,
		`labels "a;b": expected one label, or examples.labels: several`:                                       `labels …: expected one label, or examples.labels: several`,
		`rows of labels "Jane", "Doe" and 3 more are left out: no class of the version before`:                `rows of labels …, … and 3 more are left out: no class of the version before`,
		`no column "kind": the object has "Kind", "length" and 7 more: examples.label names the label column`: `no column "kind": the object has "Kind", "length" and 7 more: examples.label names the label column`,
		`no value in column "length"; the message has "Length": has a producer renamed it?`:                   `no value in column "length"; the message has "Length": has a producer renamed it?`,
		`no key at "of.view" (examples.outcome.key)`:                                                          `no key at "of.view" (examples.outcome.key)`,
		`examples.key: "user.id": "Jane" is an object`:                                                        `examples.key: "user.id": … is an object`,
		`rows with the keys "Jane" and "Doe": expected one key per message`:                                   `rows with the keys … and …: expected one key per message`,
		`49 columns: expected 50`:                                                                             `49 columns: expected 50`,
		`1e39 is not a finite float32`:                                                                        `… is not a finite float32`,
		`[4111, "Jane"]: expected an object`:                                                                  `[…, …]: expected an object`,
		`strconv.ParseFloat: parsing "4111-x": invalid syntax`:                                                `strconv.ParseFloat: parsing …: invalid syntax`,
		`the value is not UTF-8: set examples.encoding, such as windows-1252`:                                 `the value is not UTF-8: set examples.encoding, such as windows-1252`,
		`serializers (a zero byte and the schema ID 7): expected`:                                             `serializers (a zero byte and the schema ID 7): expected`,
		`no column "kind": the object has "data". The column is in "data"`:                                    `no column "kind": the object has "data". The column is in "data"`,
		`the schema 3 is unknown`:                                                                             `the schema 3 is unknown`,
		`rows 0, 1, 12 and 2 more are left out: the features overflow`:                                        `rows 0, 1, 12 and 2 more are left out: the features overflow`,
		`row 0, feature 1: +Inf is not a finite number`:                                                       `row 0, feature 1: +Inf is not a finite number`,
		`no label`: `no label`,
		``:         ``,
	} {
		assert.Equal(t, WithoutValues(reason), want, "%s", reason)
	}
}
