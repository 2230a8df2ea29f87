// Package stagewise has no code of its own: these are the rules that its packages keep.
package stagewise

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stagewise/stagewise/internal/assert"
)

const module = "github.com/stagewise/stagewise"

var verbs = []string{"ingest", "stages", "accumulate", "solve", "sink"}

// A rule forbids packages of ours, all or those in from but for those in not, to import what is in the trees, or with no trees whatever is
// not of the standard library, but for what is in allowed. Names without a dot are of this module. Tests may import what they like.
var rules = []struct {
	from, not      []string
	trees, allowed []string
	own            bool // a tree may import packages of its own
	because        string
}{
	{from: verbs, trees: append([]string{"pipeline"}, verbs...), own: true,
		because: "the verbs meet on topics and in pipeline: each is read, tested and replaced without the others"},
	{from: []string{"ingest/input"}, trees: []string{"ingest/layout", "ingest/format"},
		because: "how a file is opened depends on its bytes, not on what they mean"},
	{from: []string{"ingest/format/typed"}, trees: []string{"ingest/input", "internal/kafkalog", "github.com/segmentio/kafka-go",
		"github.com/twmb/franz-go/pkg/kgo", "github.com/twmb/franz-go/pkg/kfake"},
		because: "a value is read with a schema: which topic or file has it does not matter"},
	{from: []string{"ingest/outcome"}, trees: []string{"ingest", "internal", "pipeline"}, allowed: []string{"ingest/format"},
		because: "which rows become examples follows from keys, times and offsets: what messages say, and where they come from, is not its business"},
	{from: []string{"ingest/layout"}, trees: []string{"ingest/input", "ingest/format"}, allowed: []string{"ingest/format/tabular"},
		because: "rows to predict have columns and come from no file"},
	{from: []string{"ingest/format/tabular"}, trees: []string{"ingest", "config"},
		because: "a block has rows of any table: the roles of its columns are known to the layout alone"},
	{from: []string{"schemas"}, not: []string{"schemas/stream", "schemas/value"}, allowed: []string{"github.com/apache/arrow/go/v17", "schemas"},
		because: "schemas is the format of every message, and all else imports it: all it needs is Arrow"},
	{from: []string{"schemas/wire", "schemas/coverage", "schemas/examples"}, trees: []string{"schemas/statistics"},
		because: "the wire carries anything, coverage says of which messages, examples are rows: statistics are sums over them, not the other way round"},
	{from: []string{"schemas/wire", "schemas/coverage"}, trees: []string{"schemas/examples"},
		because: "the wire and the offsets know nothing of rows"},
	{from: []string{"schemas/value"}, allowed: []string{"github.com/go-json-experiment/json/jsontext"},
		because: "schemas/value reads what people and programs write, for all ways in: it needs the standard library, and what is to be in it"},
	{from: []string{"schemas/stream"}, allowed: []string{"github.com/apache/arrow/go/v17", "github.com/google/flatbuffers/go", "schemas/value"},
		because: "schemas/stream decodes Arrow from strangers: all it needs is Arrow, what Arrow is written in, and how values are written"},
	{from: []string{"internal"}, trees: append([]string{"schemas", "pipeline", "config", "cmd"}, verbs...),
		because: "the log and the kernels serve the flow and know nothing of it"},
	{from: append([]string{"pipeline"}, verbs...), trees: []string{"config", "cmd"},
		because: "options are declared beside the code that they set, and config imports them, not the other way round"},
	{from: []string{"pipeline/worker"}, trees: []string{"pipeline/solver"},
		because: "worker and solver meet on topics alone: what one needs of the other is a message"},
	{from: []string{"pipeline/solver"}, trees: []string{"pipeline/worker"},
		because: "worker and solver meet on topics alone: what one needs of the other is a message"},
	{from: []string{"pipeline/topics"}, trees: []string{"pipeline/source", "pipeline/dispatch", "pipeline/replay"},
		because: "topics opens a pipeline: whoever works on one imports it"},
	{from: []string{"pipeline/source"}, trees: []string{"pipeline/dispatch", "pipeline/replay"},
		because: "rows come before plans: what is ingested or forgotten does not depend on who does the runs"},
	{from: []string{"pipeline/dispatch"}, trees: []string{"pipeline/replay"},
		because: "runs are done in the same way, whether for the pipeline or again beside it"},
	{from: []string{"pipeline/protocol"}, trees: []string{"pipeline"}, allowed: []string{"pipeline/event"},
		because: "pipeline/protocol is what both roles stand on"},
	{from: []string{"pipeline/event"}, trees: append([]string{"pipeline", "model", "config", "cmd"}, verbs...),
		because: "an event says what happened: it knows neither who tells nor who listens"},
	{from: []string{"model"}, trees: []string{"ingest", "accumulate", "solve", "pipeline", "internal/kafkalog"},
		because: "whoever predicts has a version, and needs neither a log nor what trains"},
	{from: []string{"client"}, trees: []string{"pipeline", "ingest", "accumulate", "solve", "config", "cmd"}, allowed: []string{"pipeline/protocol"},
		because: "whoever follows versions reads them, and trains nothing"},
	{from: []string{"explain"}, trees: []string{"pipeline", "ingest", "accumulate", "solve", "config", "cmd", "client", "internal/kafkalog"},
		because: "an explanation has a model and rows: where they come from is the command's business"},
	{from: []string{"serve"}, trees: []string{"pipeline", "accumulate", "solve", "config", "cmd"},
		because: "a server answers with models: a follower or a file has them, and how they were made is not its business"},
	{from: []string{"score"}, trees: []string{"pipeline", "accumulate", "solve", "config", "cmd", "client", "serve"}, allowed: []string{"pipeline/protocol", "pipeline/event"},
		because: "whoever predicts for a topic has a model, and neither trains nor knows where the model comes from"},
	{from: []string{"page"}, trees: []string{"pipeline", "model", "ingest", "stages", "accumulate", "solve", "sink", "client", "serve", "config", "cmd"}, allowed: []string{"pipeline/protocol", "pipeline/event"},
		because: "a page shows what is on the topics, beside any number of other processes: it neither trains nor predicts, and writes nothing"},
	{from: []string{"cmd/stagewise/screen", "cmd/stagewise/telemetry"}, trees: []string{"github.com/spf13/cobra", "github.com/spf13/pflag"},
		because: "what people and programs read is apart from how commands are called"},
	{from: []string{"cmd/stagewise/screen"}, trees: []string{"cmd/stagewise/telemetry", "github.com/prometheus/client_golang"},
		because: "what people read and what programs read change for different reasons"},
	{from: []string{"cmd/stagewise/telemetry"}, trees: append([]string{"pipeline", "model", "serve", "client", "cmd/stagewise/screen"}, verbs...),
		allowed: []string{"pipeline/event", "pipeline/protocol"},
		because: "logs and metrics are made of events: they ask nothing else"},
	{trees: []string{"internal/oracle", "internal/assert"},
		because: "tests compare with definitions and count memory: the program computes with kernels"},
	{not: []string{"internal/kafkalog", "ingest/format/typed", "examples"}, trees: []string{"github.com/segmentio/kafka-go", "github.com/twmb/franz-go"},
		because: "the traps of kafka-go and of the embedded broker are known in one place"},
	{not: []string{"internal/kafkalog/secure"}, trees: []string{"golang.org/x/oauth2", "github.com/aws"},
		because: "how a connection logs in is known in one place"},
	{not: []string{"internal/kernel"}, trees: []string{"gonum.org/v1/gonum/blas", "gonum.org/v1/gonum/lapack", "github.com/viterin/vek", "github.com/ebitengine/purego"},
		because: "a run's bits depend on the BLAS and the vector library: one package opens them, and names them for the plan"},
	{not: []string{"solve", "bench"}, trees: []string{"gonum.org/v1/gonum/mat"},
		because: "float64 matrices are for solving, everything else is a kernel.Dense"},
	{not: []string{"internal/onnx", "ingest/format/typed", "serve"}, trees: []string{"google.golang.org/protobuf"},
		because: "what an ONNX file, a message in Protobuf and a call of gRPC are made of is known in one place each; everything else adds operators " +
			"to a graph, or has cells"},
	{not: []string{"config", "cmd"}, trees: []string{"github.com/spf13/viper", "go.yaml.in/yaml/v3"},
		because: "what a configuration says is read and checked once"},
	{not: []string{"cmd", "examples"}, trees: []string{"github.com/spf13/cobra", "github.com/spf13/pflag"},
		because: "flags are the command's business"},
	{not: []string{"cmd", "examples", "serve", "page", "pipeline/event", "chaos"}, trees: []string{"log"},
		because: "the flow tells a Recorder what happens, and events have what a log says of them; whether there is one, the command decides. " +
			"net/http has a Logger, which serve and page silence"},
}

// reachable forbids a package of ours to import what is in the trees, and to import packages of ours that reach it.
var reachable = []struct {
	from    string
	trees   []string
	because string
}{
	{from: "model", trees: []string{"internal/kafkalog", "github.com/segmentio/kafka-go", "github.com/twmb/franz-go"},
		because: "whoever predicts needs no Kafka"},
	{from: "serve", trees: []string{"github.com/parquet-go/parquet-go", "archive/tar", "image"},
		because: "rows to predict come in JSON and Arrow: a server opens no files of other formats, and no archives of strangers"},
}

// maxImports is the number of packages of ours that a package may import. importers are those with more, each with its number, which
// may only fall: a package that imports many others is more than one thing, or is built of too many.
const maxImports = 12

var importers = map[string]int{
	"cmd/stagewise": 24, "cmd/stagewise/screen": 27, "config": 13, "ingest": 18, "pipeline": 17, "pipeline/dispatch": 15, "pipeline/replay": 16,
	"pipeline/solver": 16, "pipeline/worker": 13, "pipeline/worker/visit": 19,
}

// in reports whether a package is in one of the trees. A name without a dot is of this module, or of the standard library.
func in(pkg string, trees []string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool {
		return slices.ContainsFunc([]string{tree, module + "/" + tree}, func(root string) bool {
			return pkg == root || strings.HasPrefix(pkg, root+"/")
		})
	})
}

// options reports whether a package is the one by which others describe their keys: anything that has options imports it.
func options(pkg string) bool { return pkg == module+"/internal/option" }

func standard(pkg string) bool { return !strings.Contains(strings.Split(pkg, "/")[0], ".") }

func TestStructure(t *testing.T) {
	documented := map[string]bool{} // of each package, whether a file says what it is for
	imports := map[string][]string{}
	for _, file := range sources(t) {
		parsed := assert.Must(parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly|parser.ParseComments))(t)
		folder := path.Dir(filepath.ToSlash(file))
		assert.True(t, !slices.Contains([]string{"util", "utils", "common", "helpers", "manager"}, path.Base(folder)),
			"%s: a package is named for the one thing that it does", folder)
		importer := module + "/" + folder
		documented[folder] = documented[folder] || parsed.Doc != nil
		for _, i := range parsed.Imports {
			imported, _ := strconv.Unquote(i.Path.Value) // quoted, as it was parsed
			imports[importer] = append(imports[importer], imported)
			for _, r := range rules {
				bound := (r.from == nil || in(importer, r.from)) && !in(importer, r.not)
				forbidden := in(imported, r.trees) && !options(imported) || r.trees == nil && !standard(imported)
				inside := r.own && in(imported, []string{strings.Split(folder, "/")[0]})
				assert.True(t, !bound || !forbidden || inside || in(imported, r.allowed), "%s imports %s, but %s", file, imported, r.because)
			}
		}
	}
	for _, r := range reachable {
		for pkg := range reach(imports, module+"/"+r.from) {
			assert.True(t, !in(pkg, r.trees), "%s reaches %s, but %s", r.from, pkg, r.because)
		}
	}
	for importer, all := range imports {
		folder, ours := strings.TrimPrefix(importer, module+"/"), map[string]bool{}
		for _, imported := range all {
			if strings.HasPrefix(imported, module+"/") {
				ours[imported] = true
			}
		}
		most := max(maxImports, importers[folder])
		assert.True(t, len(ours) <= most || in(importer, []string{"examples", "bench", "chaos"}),
			"%s imports %d packages of ours, expected at most %d", folder, len(ours), most)
	}
	for folder, has := range documented {
		assert.True(t, has, "%s: no file has the package's doc: what does it turn into what?", folder)
	}
}

// sources returns the Go files of all packages, tests not included.
func sources(t *testing.T) []string {
	return files(t, func(name string) bool { return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") })
}

// files returns the files with these names, but for data of tests and what scripts fetch.
func files(t *testing.T, of func(name string) bool) []string {
	t.Helper()
	var files []string
	assert.NoError(t, filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "testdata" || name != "." && strings.HasPrefix(name, ".")):
			return fs.SkipDir
		case !entry.IsDir() && of(name):
			files = append(files, file)
		}
		return nil
	}))
	return files
}

// reach is all that a package imports, directly or by packages of this module.
func reach(imports map[string][]string, pkg string) map[string]bool {
	reached, next := map[string]bool{}, []string{pkg}
	for len(next) > 0 {
		for _, imported := range imports[next[0]] {
			if !reached[imported] {
				reached[imported] = true
				next = append(next, imported)
			}
		}
		next = next[1:]
	}
	return reached
}

// tables are the functions that list the variants of a part of the flow.
var tables = []struct{ file, function string }{
	{"internal/link/link.go", "All"},
	{"stages/kind.go", "kinds"},
	{"solve/method.go", "methods"},
	{"ingest/format.go", "formats"},
	{"internal/kafkalog/secure/sasl.go", "mechanisms"},
}

// defaults are the files that choose the variant of a configuration that names none.
var defaults = []string{"stages/kind.go", "solve/check.go"}

// A variant is one value in one file. Elsewhere code asks what the value says of itself, never for its name, so that the next
// variant needs no change there.
func TestVariantsAreNotAskedForByName(t *testing.T) {
	homes := map[string][]string{} // of each name, the files that may say it: its own and the table's
	parsed := map[string]*ast.File{}
	positions := token.NewFileSet()
	for _, file := range sources(t) {
		f := assert.Must(parser.ParseFile(positions, file, nil, parser.SkipObjectResolution))(t)
		parsed[filepath.ToSlash(file)] = f
	}
	constants := map[string]string{} // of each name's constant, as package.Name, the name
	for _, table := range tables {
		before := len(homes)
		listed := function(parsed[table.file], table.function)
		for _, name := range names(listed, "name") {
			homes[name] = append(homes[name], table.file)
		}
		for file, f := range parsed {
			lists := func(name string) bool { return function(f, name) != nil }
			used := identifiers(listed)
			beside := path.Dir(file) == path.Dir(table.file)
			below := strings.HasPrefix(file, path.Dir(table.file)+"/") && slices.Contains(used, f.Name.Name) // a variant is a package
			if !beside && !below || !slices.ContainsFunc(used, lists) {
				continue
			}
			if below {
				for _, name := range names(f, "Name") {
					homes[name] = append(homes[name], file, table.file)
				}
				continue
			}
			own := names(f, "name")
			for _, d := range f.Decls {
				for identifier, name := range stringConstants(d) {
					own = append(own, name)
					constants[path.Base(path.Dir(file))+"."+identifier] = name
				}
			}
			for _, name := range own {
				homes[name] = append(homes[name], file)
			}
		}
		assert.True(t, len(homes) >= before+3, "%s: %s lists no more than %d variants", table.file, table.function, len(homes)-before)
	}
	for file, f := range parsed {
		if strings.HasPrefix(file, "bench/") {
			continue
		}
		asks := func(at ast.Node, name string) {
			allowed, variant := homes[name]
			assert.True(t, !variant || slices.Contains(allowed, file) || slices.Contains(defaults, file),
				"%s asks for %s by name", positions.Position(at.Pos()), name)
		}
		pkg := path.Base(path.Dir(file))
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GenDecl:
				return n.Tok != token.CONST // of another thing with the same name
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					name, _ := strconv.Unquote(n.Value) // quoted, as it was parsed
					asks(n, name)
				}
			case *ast.SelectorExpr:
				if of, ok := n.X.(*ast.Ident); ok {
					asks(n, constants[of.Name+"."+n.Sel.Name])
				}
				return false
			case *ast.Ident:
				asks(n, constants[pkg+"."+n.Name])
			}
			return true
		})
	}
}

// function returns the body of a file's function of that name, or nil.
func function(file *ast.File, name string) ast.Node {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == name {
			return f.Body
		}
	}
	return nil
}

// identifiers returns the names that the code uses without a package: of functions of its own among others.
func identifiers(code ast.Node) (used []string) {
	ast.Inspect(code, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok {
			used = append(used, name.Name)
		}
		return true
	})
	return used
}

// names returns the strings that the code sets as a field.
func names(code ast.Node, field string) (set []string) {
	ast.Inspect(code, func(n ast.Node) bool {
		if pair, ok := n.(*ast.KeyValueExpr); ok {
			key, _ := pair.Key.(*ast.Ident)
			if value, ok := pair.Value.(*ast.BasicLit); ok && key != nil && key.Name == field {
				name, _ := strconv.Unquote(value.Value)
				set = append(set, name)
			}
		}
		return true
	})
	return set
}

// stringConstants returns the exported string constants of a declaration.
func stringConstants(d ast.Decl) map[string]string {
	constants := map[string]string{}
	if group, ok := d.(*ast.GenDecl); ok && group.Tok == token.CONST {
		for _, spec := range group.Specs {
			s := spec.(*ast.ValueSpec)
			for i, name := range s.Names {
				if i >= len(s.Values) || !name.IsExported() {
					continue
				}
				if value, ok := s.Values[i].(*ast.BasicLit); ok && value.Kind == token.STRING {
					constants[name.Name], _ = strconv.Unquote(value.Value)
				}
			}
		}
	}
	return constants
}

// What is known in one place: the code outside the homes does not match the pattern.
func TestKnownInOnePlace(t *testing.T) {
	for _, rule := range []struct {
		pattern string
		trees   []string // nil: all
		homes   []string
		because string
	}{
		{`case \*array\.\w*[^r\W][,:]`, nil, []string{"schemas/stream/values.go"}, "schemas/stream reads Arrow columns of any type, for all ways in"},
		{`\blayout\.(Feature|Category|Hashed|Time|Counted|Entries|Indicator|Target|ServedLabel|ServedVersion)\b`, nil,
			[]string{"ingest/layout/", "ingest/format/", "ingest/lacking.go"}, "the layout knows the roles of columns, and the tables and messages that it reads"},
		{`strconv\.Parse(Float|Bool)\(`, []string{"ingest/", "serve/", "score/", "model/", "schemas/examples/", "cmd/"},
			[]string{"schemas/value/", "serve/answer.go", "schemas/examples/labels.go"},
			"schemas/value reads numbers and booleans; the others are of headers and the order of labels"},
	} {
		pattern := regexp.MustCompile(rule.pattern)
		isIn := func(file string) func(tree string) bool {
			return func(tree string) bool { return strings.HasPrefix(file, tree) }
		}
		for _, file := range sources(t) {
			file = filepath.ToSlash(file)
			if slices.ContainsFunc(rule.homes, isIn(file)) || rule.trees != nil && !slices.ContainsFunc(rule.trees, isIn(file)) {
				continue
			}
			for n, line := range strings.Split(read(t, file), "\n") {
				code, _, _ := strings.Cut(line, "//")
				assert.True(t, !pattern.MatchString(code), "%s:%d: %s: %s", file, n+1, strings.TrimSpace(code), rule.because)
			}
		}
	}
}

// Which headers a message has, and what they are called, is decided where its kind is declared.
func TestHeadersAreNamedInSchemas(t *testing.T) {
	named := regexp.MustCompile(`\.Get\("|schemas\.Header\{(Key: )?"|schemas\.Header\{\{`)
	for _, file := range sources(t) {
		if strings.HasPrefix(filepath.ToSlash(file), "schemas/") {
			continue
		}
		text := read(t, file)
		if !strings.Contains(text, module+"/schemas") {
			continue
		}
		for n, line := range strings.Split(text, "\n") {
			code, _, _ := strings.Cut(line, "//")
			assert.True(t, !named.MatchString(code) || strings.Contains(code, "Tag.Get("),
				"%s:%d names a header: give its kind in schemas a field or a method for it", file, n+1)
		}
	}
}

// scripts/test.sh runs the tests with a tag by the beginning of their names: another name would never run.
func TestNamesOfTaggedTests(t *testing.T) {
	tag, test := regexp.MustCompile(`(?m)^//go:build (kafka|cluster|mnist|python|page)$`), regexp.MustCompile(`(?m)^func (Test\w+)\(\w+ \*testing\.T\)`)
	beginning := map[string]string{"kafka": "TestKafka", "cluster": "TestCluster", "mnist": "TestMNIST", "python": "TestPython", "page": "TestPage"}
	found := map[string]int{}
	for _, file := range files(t, func(name string) bool { return strings.HasSuffix(name, "_test.go") }) {
		text := read(t, file)
		tagged := tag.FindStringSubmatch(text)
		if tagged == nil {
			continue
		}
		for _, name := range test.FindAllStringSubmatch(text, -1) {
			found[tagged[1]]++
			assert.True(t, strings.HasPrefix(name[1], beginning[tagged[1]]),
				"%s has the tag %s: call %s %s…", file, tagged[1], name[1], beginning[tagged[1]])
		}
	}
	assert.Equal(t, len(found), len(beginning), "found tests with the tags")
}

// wellKnown are the methods of interfaces of the standard library, which need no doc comment.
var wellKnown = []string{"Error", "Unwrap", "Is", "String", "Read", "Write", "Close", "Len", "Less", "Swap", "Push", "Pop"}

// The linter checks the form of doc comments. This test checks that there are some. One comment may document a group of constants or
// variables.
func TestExportedIdentifiersHaveDocs(t *testing.T) {
	packages, positions := map[string][]*ast.File{}, token.NewFileSet()
	for _, file := range sources(t) {
		parsed := assert.Must(parser.ParseFile(positions, file, nil, parser.ParseComments))(t)
		packages[path.Dir(filepath.ToSlash(file))] = append(packages[path.Dir(filepath.ToSlash(file))], parsed)
	}
	for folder, parsed := range packages {
		p := assert.Must(doc.NewFromFiles(positions, parsed, module+"/"+folder))(t)
		functions, values := p.Funcs, slices.Concat(p.Consts, p.Vars)
		check := func(name, text string) {
			assert.True(t, text != "" || !ast.IsExported(name), "%s: %s has no doc comment", folder, name)
		}
		for _, of := range p.Types {
			check(of.Name, of.Doc)
			functions, values = slices.Concat(functions, of.Funcs), slices.Concat(values, of.Consts, of.Vars)
			for _, m := range of.Methods {
				if !slices.Contains(wellKnown, m.Name) {
					check(m.Name, m.Doc)
				}
			}
			for _, spec := range of.Decl.Specs {
				if i, ok := spec.(*ast.TypeSpec).Type.(*ast.InterfaceType); ok {
					for _, m := range i.Methods.List {
						for _, name := range m.Names {
							if !slices.Contains(wellKnown, name.Name) {
								check(name.Name, m.Doc.Text()+m.Comment.Text())
							}
						}
					}
				}
			}
		}
		for _, f := range functions {
			check(f.Name, f.Doc)
		}
		for _, v := range values {
			for _, spec := range v.Decl.Specs {
				s := spec.(*ast.ValueSpec)
				for _, name := range s.Names {
					check(name.Name, v.Doc+s.Doc.Text()+s.Comment.Text())
				}
			}
		}
	}
}

// exporters are the trees in which an exported function, type, constant or variable has a user in another package.
var exporters = []string{"pipeline/"}

// A name is exported for users in other packages. A type may also be exported because an exported declaration has it.
func TestExportedNamesHaveUsersOutside(t *testing.T) {
	exported, used := map[string]token.Position{}, map[string]bool{} // by folder.Name
	positions := token.NewFileSet()
	for _, file := range files(t, func(name string) bool { return strings.HasSuffix(name, ".go") }) {
		parsed := assert.Must(parser.ParseFile(positions, file, nil, parser.SkipObjectResolution))(t)
		folder, names := path.Dir(filepath.ToSlash(file)), map[string]string{} // of each imported package of ours, its folder
		for _, i := range parsed.Imports {
			imported, _ := strconv.Unquote(i.Path.Value) // quoted, as it was parsed
			if of, ours := strings.CutPrefix(imported, module+"/"); ours {
				name := path.Base(of)
				if i.Name != nil {
					name = i.Name.Name
				}
				names[name] = of
			}
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && names[x.Name] != "" && names[x.Name] != folder {
					used[names[x.Name]+"."+s.Sel.Name] = true
				}
			}
			return true
		})
		if strings.HasSuffix(file, "_test.go") || !slices.ContainsFunc(exporters, func(tree string) bool { return strings.HasPrefix(folder+"/", tree) }) {
			continue
		}
		ast.FileExports(parsed)
		ast.Inspect(parsed, func(n ast.Node) bool {
			var declared []*ast.Ident
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil {
					declared = append(declared, n.Name)
				}
				n.Recv, n.Body = nil, nil // a method does not use its own type
			case *ast.TypeSpec:
				declared = append(declared, n.Name)
			case *ast.ValueSpec:
				declared = n.Names
			case *ast.Ident:
				if name := folder + "." + n.Name; exported[name] != positions.Position(n.Pos()) {
					used[name] = true
				}
			}
			for _, name := range declared {
				exported[folder+"."+name.Name] = positions.Position(name.Pos())
			}
			return true
		})
	}
	for name, position := range exported {
		assert.True(t, used[name], "%s: %s is exported, but no other package uses it", position, name)
	}
}

// maxLine is the length of a line in characters: what two windows show side by side.
const maxLine = 140

// Lines are short enough to read. Rows of tables in tests, and literals that are compared with what is on the screen, may be longer.
func TestLinesAreShort(t *testing.T) {
	for _, file := range files(t, func(name string) bool { return strings.HasSuffix(name, ".go") }) {
		content := read(t, file)
		if strings.HasPrefix(content, "// Code generated") {
			continue
		}
		number := 0
		for line := range strings.Lines(content) {
			number++
			row := strings.HasSuffix(file, "_test.go") && strings.ContainsAny(line, "{`\"")
			n := utf8.RuneCountInString(strings.TrimRight(line, "\n"))
			assert.True(t, n <= maxLine || row, "%s:%d has %d characters, expected at most %d", file, number, n, maxLine)
		}
	}
}
