package serve

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
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
	request, err := layout.NewRequest(layout.TrainedAs(newModel(f, 1, 2, nil, layout.MissingMean).Manifest.Plan), layout.Features{Width: 2})
	noError(f, err)
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := allRows(body, request)
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

// allRows returns the features of the dense rows of a body.
func allRows(body []byte, request *layout.Request) (values []float32, err error) {
	err = readBody(body, request, 1, func(rows *examples.Rows) error { values = append(values, rows.Floats...); return nil })
	return values, err
}

// sparseRowsOf returns the sparse rows of a body.
func sparseRowsOf(body []byte, o layout.Options, columns examples.Columns) (all examples.SparseRows, err error) {
	request, err := layout.NewRequest(o, layout.Features{Columns: columns, Sparse: true})
	if err != nil {
		return all, err
	}
	err = readBody(body, request, math.MaxInt, func(rows *examples.Rows) error { all = *rows.Sparse; return nil })
	return all, err
}

// readBody calls tile with the rows of a body.
func readBody(body []byte, request *layout.Request, most int, tile func(*examples.Rows) error) error {
	f, err := frameOf(body, typeJSON, &asked{})
	if err != nil {
		return err
	}
	rows, err := newJSONRows(f, &version{}, newReader(request))
	if err != nil {
		return err
	}
	return rows.read(most, tile)
}
