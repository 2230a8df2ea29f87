package serve

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
)

// FuzzRows compares the reader of rows with encoding/json: it only accepts valid JSON, and reads the same values of each
// list of numbers.
func FuzzRows(f *testing.F) {
	for _, seed := range []string{
		`{"rows":[[1,-2.5],[0,1e3]]}`, `{"rows":[]}`, ` { "rows" : [ [ 1 , 0.5 ] ] } `, `{"rows":[[01,1]]}`, `{"rows":[[1.,1]]}`,
		`{"rows":[["1","é\n"]]}`,
		`{"rows":[[-0,-]]}`, `{"rows":[[1234567,12345678]]}`, `{"rows":[[1e39,1]]}`, `{"rows":[[1,2],]}`, `{"rows":[[1,2]],"rows":[]}`,
		"{\"rows\":[[\"\xff\",1]]}",
	} {
		f.Add([]byte(seed))
	}
	places, err := layout.NewPlaces(layout.TrainedAs(newModel(f, 1, 2, nil, layout.MissingMean).Manifest.Plan), layout.Features{Width: 2})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := allRows(body, places)
		var want struct {
			Rows [][]*float32 `json:"rows"`
		}
		strict := json.NewDecoder(bytes.NewReader(body))
		strict.DisallowUnknownFields()
		wrong := strict.Decode(&want)
		if _, more := strict.Token(); wrong == nil && more != io.EOF {
			wrong = more
		}
		if err == nil && !json.Valid(body) {
			t.Fatalf("%q was taken as %v, and is no JSON", body, got)
		}
		if wrong != nil || err != nil {
			return // unlike encoding/json, this accepts words, but no rows of another length, other cases of keys, or repeated keys
		}
		if len(got) != 2*len(want.Rows) {
			t.Fatalf("%q has the values %v, expected %d rows", body, got, len(want.Rows))
		}
		for i, row := range want.Rows {
			for j, v := range row {
				if v != nil && got[2*i+j] != *v {
					t.Fatalf("%q has the values %v, expected %v in row %d", body, got, *v, i)
				}
			}
		}
	})
}

func allRows(body []byte, places *layout.Places) (values []float32, err error) {
	rows, err := newJSONRows(body, &version{places: places}, &asked{})
	if err != nil {
		return nil, err
	}
	for {
		row := make([]float32, 2)
		more, err := rows.next(row)
		if err != nil {
			return nil, err
		}
		if !more {
			_, err := rows.finish() // columns have no names here, so only "top" restarts the rows
			return values, err
		}
		values = append(values, row...)
	}
}
