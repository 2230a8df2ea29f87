package ingest

import (
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/stagewise/stagewise/ingest/layout"
)

// At the end of a topic of few rows, the columns are absent of which no message has the name, and the nearest name that messages have is
// said, whatever the format; without one, all their names. A column without a value in the rows is not misspelt.
func TestAbsentColumns(t *testing.T) {
	const avsc = `{"type":"record","name":"Row","fields":[{"name":"kind","type":"string"},{"name":"length","type":"double"},` +
		`{"name":"width","type":["null","double"]}]}`
	registry := registered(t, sr.Schema{Schema: avsc})
	object := `{"kind":"a","length":1,"width":null}`
	fields := []arrow.Field{nullable("kind", arrow.BinaryTypes.String), nullable("length", arrow.PrimitiveTypes.Float64),
		nullable("width", arrow.PrimitiveTypes.Float64)}
	for name, test := range map[string]struct {
		format, rows, value string
		use                 []string
		absent, instead     string
	}{
		"letters":      {"json", "", object, []string{"lenght", "width"}, "lenght", `the message has "length"`},
		"capital":      {"json", "", object, []string{"Length", "width"}, "Length", `the message has "length"`},
		"none is near": {"json", "", object, []string{"length", "age"}, "age", `the message has "kind", "length" and "width"`},
		"nested": {"json", "", `{"kind":"a","user":{"age":30,"of":{"town":7}}}`, []string{"user.age", "user.of.twon"}, "user.of.twon",
			`the message has "user.of.town"`},
		"rows at a path": {"json", "rows", `{"kind":"a","size":1,"rows":[{"length":2},{"length":3}]}`, []string{"size", "lengths"}, "lengths",
			`the message has "length"`},
		"arrow": {"arrow", "", string(arrowContent(t, arrowRows(t, "["+object+"]", fields...), 1, false)), []string{"width", "lenght"},
			"lenght", `the message has "length"`},
		"avro": {"avro", "", string(framed(1, encoded(t, avsc, map[string]any{"kind": "a", "length": 1.0, "width": nil}))),
			[]string{"width", "lenght"}, "lenght", `the message has "length"`},
		"csv": {"csv", "", "a,1,", nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, missing := range []string{layout.MissingMean, layout.MissingError} {
				v := valuesOf(t, ofTopic(test.format, func(o *Options) {
					if o.Columns.Use, o.Missing.Mode, o.Settings.Rows = test.use, missing, test.rows; test.use != nil {
						o.Label = "kind"
					}
					if test.format == "avro" {
						o.Registry.URL = registry.URL()
					}
				}))
				_, err := v.Add(t.Context(), TopicMessage{Value: []byte(test.value)})
				if missing == layout.MissingError {
					if test.instead != "" && (err == nil || !strings.HasSuffix(err.Error(), "; "+test.instead)) {
						t.Errorf("got %v, expected %s", err, test.instead)
					}
					continue
				}
				noError(t, err)
				if early := v.Absent(false); len(early) > 0 {
					t.Errorf("before the end %v are absent", early)
				}
				absent := v.Absent(true)
				if strings.Join(absent, ",") != test.absent {
					t.Errorf("%q are absent, expected %s", absent, test.absent)
				}
				if slices.Contains(absent, test.absent) && v.Instead(test.absent) != test.instead {
					t.Errorf("instead of %s: %s, expected %s", test.absent, v.Instead(test.absent), test.instead)
				}
			}
		})
	}
}
