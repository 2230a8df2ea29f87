package ingest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/bufbuild/protocompile"
	"github.com/twmb/franz-go/pkg/sr"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/stagewise/stagewise/ingest/layout"
)

// A row is the same in each format, for all roles of its columns.
func TestFormatsHaveTheSameRows(t *testing.T) {
	type place struct {
		X *float64 `json:"x"`
	}
	type row struct {
		Colour string   `json:"colour"`
		Yes    bool     `json:"yes"`
		N      int64    `json:"n"`
		W      float64  `json:"w"`
		P      int64    `json:"p"`
		Kinds  []string `json:"kinds"`
		Said   string   `json:"said"`
		At     place    `json:"at"`
	}
	half, third := 0.5, 1.0/3
	rows := []row{{"red", true, -7, 2, 1, []string{"a"}, "The cat, the CAT", place{&half}}, {"blue", false, 1 << 40, 0.5, 0, []string{"b", "a"}, "a dog", place{}},
		{"red", false, 0, 1, 1, []string{}, "", place{&third}}, {"green", true, 3, 1.25, 0, []string{"c"}, "cat", place{&half}}}
	const avsc = `{"type":"record","name":"Row","fields":[{"name":"colour","type":{"type":"enum","name":"C","symbols":["red","green","blue"]}},
		{"name":"yes","type":"boolean"},{"name":"n","type":"long"},{"name":"w","type":"double"},{"name":"p","type":"int"},
		{"name":"kinds","type":{"type":"array","items":"string"}},{"name":"said","type":"string"},
		{"name":"at","type":{"type":"record","name":"At","fields":[{"name":"x","type":["null","double"]}]}}]}`
	const protoc = `syntax = "proto3"; message Row { enum C { red = 0; green = 1; blue = 2; } message At { optional double x = 1; }
		C colour = 1; bool yes = 2; sint64 n = 3; double w = 4; int32 p = 5; repeated string kinds = 6; string said = 7; At at = 8; }`
	registry := registered(t, sr.Schema{Schema: avsc}, sr.Schema{Schema: protoc, Type: sr.TypeProtobuf})
	fields := []arrow.Field{nullable("colour", arrow.BinaryTypes.String), nullable("yes", arrow.FixedWidthTypes.Boolean), nullable("n", arrow.PrimitiveTypes.Int64),
		nullable("w", arrow.PrimitiveTypes.Float64), nullable("p", arrow.PrimitiveTypes.Int8), nullable("kinds", arrow.ListOf(arrow.BinaryTypes.String)),
		nullable("said", arrow.BinaryTypes.String), nullable("at", arrow.StructOf(nullable("x", arrow.PrimitiveTypes.Float64)))}
	values := map[string][]string{}
	for _, r := range rows {
		text := must(json.Marshal(r))(t)
		at := map[string]any{"x": nil}
		if r.At.X != nil {
			at["x"] = map[string]any{"double": *r.At.X}
		}
		values["json"] = append(values["json"], string(text))
		values["avro"] = append(values["avro"], string(framed(1, encoded(t, avsc, map[string]any{"colour": r.Colour, "yes": r.Yes, "n": r.N, "w": r.W, "p": int(r.P),
			"kinds": r.Kinds, "said": r.Said, "at": at}))))
		values["protobuf"] = append(values["protobuf"], string(framed(2, append([]byte{0}, protobufOf(t, protoc, string(text))...))))
		values["arrow"] = append(values["arrow"], string(arrowContent(t, arrowRows(t, "["+string(text)+"]", fields...), 1, false)))
	}
	for name, change := range map[string]func(o *Options){
		"words": func(o *Options) {
			o.Label, o.Categorical, o.Columns.Use = "yes", []string{"colour"}, []string{"colour", "at.x", "n"}
		},
		"numbers": func(o *Options) { o.Label, o.Weight, o.Columns.Use = "colour", "w", []string{"n", "at.x", "yes"} },
		"targets": func(o *Options) { o.Targets, o.Columns.Use = []string{"n", "w"}, []string{"at.x"} },
		"labels":  func(o *Options) { o.Label, o.Labels, o.Columns.Use = "kinds", layout.LabelsSeveral, []string{"at.x"} },
		"columns of labels": func(o *Options) {
			o.LabelColumns, o.Labels, o.Columns.Use = []string{"p", "yes"}, layout.LabelsSeveral, []string{"at.x"}
		},
		"texts":          func(o *Options) { o.Label, o.Text = "colour", "said" },
		"lists of words": func(o *Options) { o.Label, o.Text = "p", "kinds" },
		"numbers that are missing": func(o *Options) {
			o.Label, o.Columns.Use, o.MissingValues = "colour", []string{"n", "w", "at.x", "yes"}, []string{"-7.0", "0", "5e-1"}
		},
		"whole labels": func(o *Options) { o.Label, o.Columns.Use = "n", []string{"w"} },
	} {
		var want string
		for _, format := range []string{"json", "avro", "protobuf", "arrow"} {
			got := addAll(t, ofTopic(format, func(o *Options) {
				if change(o); format == "avro" || format == "protobuf" {
					o.Registry.URL = registry.URL()
				}
				o.Missing.Mode = layout.MissingMean
			}), values[format]...)
			text := fmt.Sprint(show(*got), got.LabelLists, got.Targets, got.Weights, got.NoLabel)
			if format == "json" {
				want = text
			}
			if text != want {
				t.Errorf("%s in %s: %s\nexpected %s", name, format, text, want)
			}
		}
		if !strings.HasPrefix(want, "4 × ") {
			t.Errorf("%s: %s", name, want)
		}
	}
}

// protobufOf encodes a message, given as JSON, of the only message type in a schema.
func protobufOf(t *testing.T, schema, text string) []byte {
	t.Helper()
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{"e.proto": schema})}}
	files := must(compiler.Compile(t.Context(), "e.proto"))(t)
	m := dynamicpb.NewMessage(files[0].Messages().Get(0))
	noError(t, protojson.Unmarshal([]byte(text), m))
	return must(proto.Marshal(m))(t)
}
