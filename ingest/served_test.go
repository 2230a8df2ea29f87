package ingest

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Served predictions are read beside the features, which do not change: columns of the row take precedence over those of
// the message.
func TestServedIsRead(t *testing.T) {
	answers := ofTopic("json", func(o *Options) {
		o.Rows, o.Columns.Use, o.Missing.Mode = "features", []string{"age", "version"}, layout.MissingMean
		o.Served = layout.ServedColumns{Label: "prediction.label", Version: "answer.version"}
	})
	rows := addAll(t, answers,
		`{"answer":{"version":7},"features":{"age":3,"version":1,"label":"x"},"prediction":{"label":"y","probabilities":{"y":1}}}`,
		`{"answer":{"version":"8"},"features":{"age":4,"version":2,"label":"y"},"prediction":{"label":12}}`,
		`{"features":{"age":5,"version":3,"label":"z"}}`,
		`{"answer":{"version":9},"features":[{"age":6,"label":"a"},{"age":7,"label":"b"}],"prediction":{"label":true}}`)
	want := []examples.Served{{Label: "y", Version: 7}, {Label: "12", Version: 8}, {}, {Label: "true", Version: 9}, {Label: "true", Version: 9}}
	if !slices.Equal(rows.Served, want) || !slices.Equal(rows.Words, []string{"x", "y", "z", "a", "b"}) || rows.Cols != 2 ||
		!reflect.DeepEqual(rows.Floats[:6], []float32{3, 1, 4, 2, 5, 3}) {
		t.Errorf("%+v", rows)
	}
	v := valuesOf(t, answers)
	for _, c := range []struct{ value, want string }{
		{`{"answer":{"version":0},"features":{"age":1,"version":2,"label":"x"}}`, "column \"answer.version\": version \"0\": expected a whole number, from 1"},
		{`{"answer":{"version":1.5},"features":{"age":1,"version":2,"label":"x"}}`, "version \"1.5\""},
		{`{"prediction":{"label":{}},"features":{"age":1,"version":2,"label":"x"}}`, "column \"prediction.label\""},
	} {
		if _, err := v.Add(t.Context(), TopicMessage{Value: []byte(c.value)}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %s", c.value, err, c.want)
		}
	}
}
