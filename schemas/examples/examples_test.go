package examples

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas/wire"
)

func encodeRows(t testing.TB, rows *Rows, mem memory.Allocator) []byte {
	record := rows.Record(mem)
	defer record.Release()
	return arrowtest.Must(Encode(record, mem))(t)
}

// fromJSON encodes rows of JSON as an examples message, as another producer might.
func fromJSON(t testing.TB, mem memory.Allocator, rows string, fields ...arrow.Field) []byte {
	t.Helper()
	record, _, err := array.RecordFromJSON(mem, arrow.NewSchema(fields, nil), strings.NewReader(rows))
	arrowtest.NoError(t, err)
	defer record.Release()
	return arrowtest.Must(Encode(record, mem))(t)
}

// rowsOfAllColumns makes rows with different columns, by name.
func rowsOfAllColumns(rows int) map[string]*Rows {
	const cols = 3
	floats, missing := make([]float32, rows*cols), make([]float32, rows*cols)
	bytes := make([]uint8, rows*cols)
	words, numbers := make([]string, rows), make([]int64, rows)
	weights, splits := make([]float32, rows), make([]Split, rows)
	for i := range floats {
		floats[i], missing[i], bytes[i] = float32(i)-0.5, float32(i), uint8(i)
		if i%7 == 3 {
			missing[i] = float32(math.NaN())
		}
	}
	for i := range rows {
		words[i], numbers[i] = fmt.Sprintf("klasse %d é", i%4), int64(i%5)-2
		weights[i], splits[i] = float32(i)/4, Split(i%int(Splits))
	}
	return map[string]*Rows{
		"floats":  {Rows: rows, Cols: cols, Floats: floats},
		"missing": {Rows: rows, Cols: cols, Floats: missing, Words: words},
		"bytes":   {Rows: rows, Cols: cols, Bytes: bytes, Numbers: numbers},
		"all": {Rows: rows, Cols: cols, Floats: missing, Words: words, Weights: weights, Splits: splits,
			Columns: Columns{{Name: "größe"}, {Name: "colour", Categories: []string{"red"}}}},
	}
}

// same compares decoded examples with rows, beginning at row first.
func same(t *testing.T, e *Batch, want *Rows, first int) {
	t.Helper()
	if columns, err := ParseColumns(e.Columns()); err != nil || !reflect.DeepEqual(columns, want.Columns) {
		t.Fatalf("columns %v, %v, expected %v", columns, err, want.Columns)
	}
	if e.Width != want.Cols || e.Sparse {
		t.Fatalf("width %d, sparse %v", e.Width, e.Sparse)
	}
	features := make([]float32, e.Rows*e.Width)
	e.Features(features, e.Width)
	missing := false
	for i, got := range features {
		at := first*want.Cols + i
		var v float32
		if want.Bytes != nil {
			v = float32(want.Bytes[at])
		} else {
			v = want.Floats[at]
		}
		missing = missing || v != v
		if got != v && !(got != got && v != v) {
			t.Fatalf("value %d is %v, expected %v", i, got, v)
		}
	}
	if e.Missing() != missing {
		t.Errorf("missing: %v", !missing)
	}
	for i := range e.Rows {
		label, weight, split := "", float32(1), Train
		switch {
		case want.Words != nil:
			label = want.Words[first+i]
		case want.Numbers != nil:
			label = fmt.Sprint(want.Numbers[first+i])
		}
		if want.Weights != nil {
			weight = want.Weights[first+i]
		}
		if want.Splits != nil {
			split = want.Splits[first+i]
		}
		if e.Labelled(i) != (label != "") || label != "" && e.Label(i) != label || e.Weight(i) != weight || e.Split(i) != split {
			t.Fatalf("row %d: weight %v, split %v, expected label %q, weight %v, split %v", i, e.Weight(i), e.Split(i), label, weight, split)
		}
	}
}

func TestExamplesRoundTrip(t *testing.T) {
	for _, n := range arrowtest.Sizes() {
		for kind, rows := range rowsOfAllColumns(n) {
			t.Run(fmt.Sprintf("%d %s", n, kind), func(t *testing.T) {
				mem := arrowtest.Allocator(t)
				e := arrowtest.Must(Decode(encodeRows(t, rows, mem), mem))(t)
				defer e.Release()
				if e.Rows != n {
					t.Fatalf("%d rows", e.Rows)
				}
				same(t, e, rows, 0)
			})
		}
	}
}

// The arrays of a sliced record have an offset.
func TestExamplesOfSlices(t *testing.T) {
	for kind, rows := range rowsOfAllColumns(130) {
		for _, cut := range [][2]int{{1, 64}, {63, 130}, {64, 129}, {65, 65}} {
			mem := arrowtest.Allocator(t)
			record := rows.Record(mem)
			slice := record.NewSlice(int64(cut[0]), int64(cut[1]))
			value := arrowtest.Must(Encode(slice, mem))(t)
			slice.Release()
			record.Release()
			e := arrowtest.Must(Decode(value, mem))(t)
			if e.Rows != cut[1]-cut[0] {
				t.Fatalf("%s %v: %d rows", kind, cut, e.Rows)
			}
			same(t, e, rows, cut[0])
			e.Release()
		}
	}
}

func dense(n int32, item arrow.DataType) arrow.Field {
	return arrow.Field{Name: "features", Type: arrow.FixedSizeListOf(n, item), Nullable: true}
}

func sparse(index arrow.DataType) arrow.Field {
	pair := arrow.StructOf(arrow.Field{Name: "index", Type: index, Nullable: true}, arrow.Field{Name: "value",
		Type: arrow.PrimitiveTypes.Float32, Nullable: true})
	return arrow.Field{Name: "features", Type: arrow.ListOf(pair), Nullable: true}
}

func field(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}

func TestSparseExamples(t *testing.T) {
	const rows = `[{"features":[{"index":1,"value":2},{"index":4,"value":-1}]},{"features":[]},{"features":[{"index":0,"value":3}]}]`
	want := []float32{0, 2, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0}
	for _, index := range []arrow.DataType{arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32,
		arrow.PrimitiveTypes.Int64,
		arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32} {
		mem := arrowtest.Allocator(t)
		record, _, err := array.RecordFromJSON(mem, arrow.NewSchema([]arrow.Field{sparse(index)}, nil), strings.NewReader(rows))
		arrowtest.NoError(t, err)
		for first := range 3 {
			slice := record.NewSlice(int64(first), 3)
			e := arrowtest.Must(Decode(arrowtest.Must(Encode(slice, mem))(t), mem))(t)
			slice.Release()
			got := make([]float32, e.Rows*6)
			e.Features(got, 6)
			if wide := []int{5, 1, 1}[first]; !e.Sparse || e.Width != wide || e.Missing() || !slices.Equal(got, want[first*6:]) {
				t.Errorf("%v from row %d: width %d, %v", index, first, e.Width, got)
			}
			e.Release()
		}
		record.Release()
	}
}

func fromJSONArray(t testing.TB, mem memory.Allocator, of arrow.DataType, values string) arrow.Array {
	t.Helper()
	column, _, err := array.FromJSON(mem, of, strings.NewReader(values))
	arrowtest.NoError(t, err)
	return column
}

func encodedAs(index, value arrow.DataType) arrow.DataType {
	return &arrow.DictionaryType{IndexType: index, ValueType: value}
}

// Labels are the same in every type that a producer may write them as, in a slice too.
func TestLabelTypes(t *testing.T) {
	types := arrow.PrimitiveTypes
	whole := []arrow.DataType{types.Int8, types.Int16, types.Int32, types.Int64, types.Uint8, types.Uint16, types.Uint32}
	text := []arrow.DataType{arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString}
	labels := NewLabels([]string{"100", "7"})
	test := func(mem memory.Allocator, column arrow.Array) {
		defer column.Release()
		features := fromJSONArray(t, mem, arrow.FixedSizeListOf(1, types.Float32), "[[1],[1],[1],[1]]")
		defer features.Release()
		of := column.DataType()
		record := array.NewRecord(arrow.NewSchema([]arrow.Field{dense(1, types.Float32), field("label", of)}, nil),
			[]arrow.Array{features, column}, 4)
		for first := range 4 {
			slice := record.NewSlice(int64(first), 4)
			e := arrowtest.Must(Decode(arrowtest.Must(Encode(slice, mem))(t), mem))(t)
			slice.Release()
			var got []string
			for row := range e.Rows {
				label := "-"
				if e.Labelled(row) {
					label = e.Label(row)
				}
				got = append(got, label)
			}
			classes := make([]int32, e.Rows)
			if err := e.Classes(classes, labels, UnknownLabel); err != nil || !slices.Equal(classes, []int32{1, 0, Unlabelled, 1}[first:]) ||
				!slices.Equal(got, []string{"7", "100", "-", "7"}[first:]) {
				t.Errorf("%v from row %d: labels %v, classes %v, error %v", of, first, got, classes, err)
			}
			e.Release()
		}
		record.Release()
	}
	for _, value := range append(text, whole...) {
		rows, dictionary := "[7,100,null,7]", "[100,7]"
		if slices.Contains(text, value) {
			rows, dictionary = `["7","100",null,"7"]`, `["100","7"]`
		}
		mem := arrowtest.Allocator(t)
		test(mem, fromJSONArray(t, mem, value, rows))
		for _, index := range append(whole, types.Uint64) {
			indices, values := fromJSONArray(t, mem, index, "[1,0,null,1]"), fromJSONArray(t, mem, value, dictionary)
			test(mem, array.NewDictionaryArray(encodedAs(index, value), indices, values))
			indices.Release()
			values.Release()
		}
	}
}

// A value of a dictionary may be null, and the split and the weight may have the types that data frames have.
func TestOtherColumnTypes(t *testing.T) {
	mem := arrowtest.Allocator(t)
	dictionary := fromJSONArray(t, mem, arrow.BinaryTypes.String, `["a",null]`)
	indices := fromJSONArray(t, mem, arrow.PrimitiveTypes.Int8, "[1,0,null]")
	of := encodedAs(arrow.PrimitiveTypes.Int8, arrow.BinaryTypes.String)
	label := array.NewDictionaryArray(of, indices, dictionary)
	rest, _, err := array.RecordFromJSON(mem, arrow.NewSchema([]arrow.Field{field("features", arrow.ListOf(arrow.PrimitiveTypes.Uint8)),
		field("split", arrow.BinaryTypes.LargeString), field("weight", arrow.PrimitiveTypes.Float64)}, nil),
		strings.NewReader(`[{"features":[1],"split":"test","weight":0.5},{"features":[2],"split":null,"weight":1},{"features":[3],"split":"","weight":2}]`))
	arrowtest.NoError(t, err)
	fields := append(rest.Schema().Fields(), field("label", of))
	record := array.NewRecord(arrow.NewSchema(fields, nil), append(rest.Columns(), label), 3)
	e := arrowtest.Must(Decode(arrowtest.Must(Encode(record, mem))(t), mem))(t)
	for _, r := range []interface{ Release() }{indices, dictionary, label, rest, record} {
		r.Release()
	}
	defer e.Release()
	if e.Labelled(0) || !e.Labelled(1) || e.Label(1) != "a" || e.Labelled(2) || e.Split(0) != Test || e.Split(1) != Train ||
		e.Split(2) != Train ||
		e.Weight(0) != 0.5 || e.Weight(2) != 2 || !slices.Equal(e.Bytes(), []uint8{1, 2, 3}) {
		t.Errorf("labelled %v, %v, %v; splits %v, %v, %v; weights %v, %v; features %v", e.Labelled(0), e.Labelled(1), e.Labelled(2),
			e.Split(0), e.Split(1), e.Split(2), e.Weight(0), e.Weight(2), e.Bytes())
	}
}

// Dense features are the same in every type of list and value, in a slice too. A null is missing.
func TestFeatureTypes(t *testing.T) {
	nan := float32(math.NaN())
	for _, item := range []arrow.DataType{arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, arrow.PrimitiveTypes.Uint8} {
		for _, list := range []arrow.DataType{arrow.FixedSizeListOf(2, item), arrow.ListOf(item), arrow.LargeListOf(item)} {
			rows, want := `[{"features":[0,1]},{"features":[2,null]},{"features":[4,5]}]`, []float32{0, 1, 2, nan, 4, 5}
			if item == arrow.PrimitiveTypes.Uint8 {
				rows, want = strings.Replace(rows, "null", "3", 1), []float32{0, 1, 2, 3, 4, 5}
			}
			mem := arrowtest.Allocator(t)
			record, _, err := array.RecordFromJSON(mem, arrow.NewSchema([]arrow.Field{field("features", list)}, nil), strings.NewReader(rows))
			arrowtest.NoError(t, err)
			for _, cut := range [][2]int{{0, 3}, {1, 3}, {2, 3}, {0, 1}, {1, 1}} {
				slice := record.NewSlice(int64(cut[0]), int64(cut[1]))
				e := arrowtest.Must(Decode(arrowtest.Must(Encode(slice, mem))(t), mem))(t)
				slice.Release()
				got := make([]float32, e.Rows*e.Width)
				e.Features(got, e.Width)
				part := want[2*cut[0] : 2*cut[1]]
				if fmt.Sprint(got) != fmt.Sprint(part) || e.Missing() != slices.ContainsFunc(part, func(v float32) bool { return v != v }) {
					t.Errorf("%v of rows %v: %v, missing %v; expected %v", list, cut, got, e.Missing(), part)
				}
				e.Release()
			}
			record.Release()
		}
	}
}

func TestExamplesOfOthers(t *testing.T) {
	f32 := arrow.PrimitiveTypes.Float32
	for _, c := range []struct {
		rows   string
		fields []arrow.Field
		labels string
	}{
		{`[{"features":[1,2],"label":7}]`, []arrow.Field{dense(2, f32), field("label", arrow.PrimitiveTypes.Int8)}, "7"},
		{`[{"features":[1,2],"label":65535}]`, []arrow.Field{dense(2, f32), field("label", arrow.PrimitiveTypes.Uint16)}, "65535"},
		{`[{"label":-9,"features":[1,2]}]`, []arrow.Field{field("label", arrow.PrimitiveTypes.Int64), dense(2, f32)}, "-9"},
		{`[{"features":[1,2],"label":null},{"features":[1,2],"label":"x"}]`, []arrow.Field{dense(2, f32), field("label", arrow.BinaryTypes.String)}, "-,x"},
		{`[{"features":[1,2],"label":null}]`, []arrow.Field{dense(2, f32), field("label", arrow.Null)}, "-"},
		{`[{"features":[1,2],"split":null}]`, []arrow.Field{dense(2, f32), field("split", arrow.BinaryTypes.String)}, "-"},
		{`[{"features":[1,2],"split":""}]`, []arrow.Field{dense(2, f32), field("split", arrow.BinaryTypes.String)}, "-"},
		{`[{"features":[1,2],"id":"a","at":1,"tags":["x","y"]}]`, []arrow.Field{dense(2, f32), field("id", arrow.BinaryTypes.LargeString),
			field("at", arrow.PrimitiveTypes.Date32), field("tags", arrow.ListOf(arrow.BinaryTypes.LargeString))}, "-"},
	} {
		mem := arrowtest.Allocator(t)
		e := arrowtest.Must(Decode(fromJSON(t, mem, c.rows, c.fields...), mem))(t)
		var labels []string
		for i := range e.Rows {
			label := "-"
			if e.Labelled(i) {
				label = e.Label(i)
			}
			labels = append(labels, label)
			if e.Weight(i) != 1 || e.Split(i) != Train {
				t.Errorf("%s: row %d has weight %v, split %v", c.rows, i, e.Weight(i), e.Split(i))
			}
		}
		if got := strings.Join(labels, ","); got != c.labels {
			t.Errorf("%s: labels %s, expected %s", c.rows, got, c.labels)
		}
		e.Release()
	}
}

func TestExamplesThatAreRefused(t *testing.T) {
	f32, text := arrow.PrimitiveTypes.Float32, arrow.BinaryTypes.String
	var frame []arrow.Field
	for i := range 9 {
		frame = append(frame, field(fmt.Sprint("x", i), arrow.PrimitiveTypes.Float64))
	}
	frame = append(frame, field("label", text))
	const damaged = "damaged or foreign bytes: "
	const want = ", expected a list of float32, float64 or uint8, or a list of structs of index and value (float32)"
	for _, c := range []struct {
		name   string
		rows   string
		fields []arrow.Field
		want   string
	}{
		{"no features", `[{"label":1}]`, []arrow.Field{field("label", arrow.PrimitiveTypes.Int64)},
			damaged + `no column "features": expected a column of this name with a list of numbers in each row, found the columns "label"`},
		{"a column for each feature", `[{"x0":1,"x1":2,"x2":1,"x3":2,"x4":1,"x5":2,"x6":1,"x7":2,"x8":2,"label":"a"}]`, frame,
			damaged + `no column "features": expected a column of this name with a list of numbers in each row, ` +
				`found the columns "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7" and 2 more`},
		{"no columns", `[{}]`, nil, damaged + `no column "features": expected a column of this name with a list of numbers in each row, found no columns`},
		{"null features", `[{"features":[1]},{"features":null}]`, []arrow.Field{dense(1, f32)}, damaged + `column "features": 1 rows without features`},
		{"text features", `[{"features":["1"]}]`, []arrow.Field{field("features", arrow.ListOf(text))},
			damaged + `column "features": type list<item: utf8, nullable>` + want},
		{"ragged features", `[{"features":[1,2]},{"features":[1,2]},{"features":[1]}]`, []arrow.Field{field("features", arrow.ListOf(f32))},
			damaged + `column "features": row 2: 1 features, row 0 has 2: expected as many in each row`},
		{"ragged large lists", `[{"features":[]},{"features":[1,2]}]`, []arrow.Field{field("features", arrow.LargeListOf(arrow.PrimitiveTypes.Float64))},
			damaged + `column "features": row 1: 2 features, row 0 has 0: expected as many in each row`},
		{"null lists", `[{"features":[1]},{"features":null}]`, []arrow.Field{field("features", arrow.ListOf(f32))}, damaged + `column "features": 1 rows without features`},
		{"scalar features", `[{"features":1}]`, []arrow.Field{field("features", f32)}, damaged + `column "features": type float32` + want},
		{"null among bytes", `[{"features":[1,null]}]`, []arrow.Field{dense(2, arrow.PrimitiveTypes.Uint8)},
			damaged + `column "features": nulls among uint8 features: features that may be missing must be float32 or float64`},
		{"null among sparse", `[{"features":[{"index":1,"value":null}]}]`, []arrow.Field{sparse(arrow.PrimitiveTypes.Int32)},
			damaged + `column "features": nulls among sparse features: leave out a feature that is 0`},
		{"sparse by uint64", `[{"features":[{"index":1,"value":1}]}]`, []arrow.Field{sparse(arrow.PrimitiveTypes.Uint64)},
			damaged + `column "features": type list<item: struct<index: uint64, value: float32>, nullable>` + want},
		{"descending indices", `[{"features":[]},{"features":[{"index":3,"value":1},{"index":3,"value":1}]}]`, []arrow.Field{sparse(arrow.PrimitiveTypes.Int32)},
			"row 1: index 3 after 3: expected ascending indices below 2³¹-1"},
		{"negative index", `[{"features":[{"index":-1,"value":1}]}]`, []arrow.Field{sparse(arrow.PrimitiveTypes.Int32)},
			"row 0: index -1 after -1: expected ascending indices below 2³¹-1"},
		{"great index", `[{"features":[{"index":2147483647,"value":1}]}]`, []arrow.Field{sparse(arrow.PrimitiveTypes.Int64)},
			"row 0: index 2147483647 after -1: expected ascending indices below 2³¹-1"},
		{"negative weight", `[{"features":[1],"weight":1},{"features":[1],"weight":-0.5}]`, []arrow.Field{dense(1, f32), field("weight", f32)},
			"row 1: weight -0.5: expected a finite number ≥ 0"},
		{"null weight", `[{"features":[1],"weight":null}]`, []arrow.Field{dense(1, f32), field("weight", f32)}, "row 0: weight is null: expected a finite number ≥ 0"},
		{"numeric weight", `[{"features":[1],"weight":1}]`, []arrow.Field{dense(1, f32), field("weight", arrow.PrimitiveTypes.Int64)},
			damaged + `column "weight": type int64, expected float32 or float64`},
		{"large weight", `[{"features":[1],"weight":1e39}]`, []arrow.Field{dense(1, f32), field("weight", arrow.PrimitiveTypes.Float64)},
			"row 0: weight 1e+39: expected a finite number ≥ 0"},
		{"unknown split", `[{"features":[1],"split":"test"},{"features":[1],"split":"dev"}]`, []arrow.Field{dense(1, f32), field("split", text)},
			`row 1: split "dev": expected train, holdout or test`},
		{"numeric split", `[{"features":[1],"split":1}]`, []arrow.Field{dense(1, f32), field("split", arrow.PrimitiveTypes.Int64)},
			damaged + `column "split": type int64, expected text`},
		{"label list with an empty entry", `[{"features":[1],"label":["a",""]}]`, []arrow.Field{dense(1, f32), field("label", arrow.ListOf(text))},
			`row 0: label 1 of the list: empty: expected a label; a row without labels has an empty list`},
		{"label of bytes", `[{"features":[1],"label":"YQ=="}]`, []arrow.Field{dense(1, f32), field("label", arrow.BinaryTypes.Binary)},
			damaged + `column "label": type binary, expected text, numbers or booleans, or a list of them`},
		{"large label list with a null", `[{"features":[1],"label":["a",null]}]`, []arrow.Field{dense(1, f32), field("label", arrow.LargeListOf(arrow.BinaryTypes.LargeString))},
			`row 0: label 1 of the list: null: expected a label; a row without labels has an empty list`},
		{"long label", `[{"features":[1],"label":"` + strings.Repeat("x", 1025) + `"}]`, []arrow.Field{dense(1, f32), field("label", text)},
			"row 0: label of 1025 bytes: expected at most 1024 of UTF-8"},
		{"long label in a dictionary", `[{"features":[1],"label":"` + strings.Repeat("x", 1025) + `"}]`,
			[]arrow.Field{dense(1, f32), field("label", encodedAs(arrow.PrimitiveTypes.Int8, text))},
			"row 0: label of 1025 bytes: expected at most 1024 of UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := arrowtest.Allocator(t)
			e, err := Decode(fromJSON(t, mem, c.rows, c.fields...), mem)
			if err == nil {
				e.Release()
				t.Fatal("no error")
			}
			if !errors.Is(err, wire.ErrDamaged) || err.Error() != c.want {
				t.Errorf("%q\nexpected %q", err, c.want)
			}
		})
	}
}

// Values that JSON can't represent are refused too.
func TestValuesThatAreRefused(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		rows Rows
		want ValueError
	}{
		{Rows{Rows: 2, Cols: 3, Floats: []float32{0, 1, 2, 3, 4, inf}}, ValueError{1, 2, "+Inf is not a finite number"}},
		{Rows{Rows: 2, Cols: 3, Floats: []float32{nan, 1, 2, -inf, 4, 5}}, ValueError{1, 0, "-Inf is not a finite number"}},
		{Rows{Rows: 1, Cols: 1, Bytes: []uint8{0}, Weights: []float32{nan}}, ValueError{0, -1, "weight NaN: expected a finite number ≥ 0"}},
		{Rows{Rows: 1, Cols: 1, Bytes: []uint8{0}, Weights: []float32{inf}}, ValueError{0, -1, "weight +Inf: expected a finite number ≥ 0"}},
		{Rows{Rows: 1, Cols: 1, Bytes: []uint8{0}, Words: []string{"\xff"}}, ValueError{0, -1, "label of 1 bytes: expected at most 1024 of UTF-8"}},
	} {
		mem := arrowtest.Allocator(t)
		_, err := Decode(encodeRows(t, &c.rows, mem), mem)
		var got *ValueError
		if !errors.As(err, &got) || *got != c.want || !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("%v, expected %v", err, c.want)
		}
	}
	if got := (&ValueError{3, 4, "why"}).Error(); got != "row 3, feature 4: why" {
		t.Error(got)
	}
	// A NaN that a producer wrote is a value. Only null is missing.
	mem := arrowtest.Allocator(t)
	b := array.NewRecordBuilder(mem, arrow.NewSchema([]arrow.Field{dense(2, arrow.PrimitiveTypes.Float32)}, nil))
	lists := b.Field(0).(*array.FixedSizeListBuilder)
	lists.Append(true)
	lists.ValueBuilder().(*array.Float32Builder).AppendValues([]float32{1, nan}, nil)
	record := b.NewRecord()
	b.Release()
	value := arrowtest.Must(Encode(record, mem))(t)
	record.Release()
	if _, err := Decode(value, mem); err == nil || err.Error() != "row 0, feature 1: NaN is not a finite number" {
		t.Error(err)
	}
}

func TestColumnsTwiceAreRefused(t *testing.T) {
	mem := arrowtest.Allocator(t)
	record := (&Rows{Rows: 1, Cols: 1, Bytes: []uint8{1}, Numbers: []int64{1}}).Record(mem)
	fields := append(record.Schema().Fields(), record.Schema().Field(1))
	twice := array.NewRecord(arrow.NewSchema(fields, nil), append(record.Columns(), record.Column(1)), 1)
	value := arrowtest.Must(Encode(twice, mem))(t)
	twice.Release()
	record.Release()
	if _, err := Decode(value, mem); err == nil || err.Error() != `damaged or foreign bytes: column "label" occurs twice` {
		t.Error(err)
	}
}

func TestRecordRefusesRaggedRows(t *testing.T) {
	for _, rows := range []Rows{
		{Rows: 2, Cols: 2, Floats: make([]float32, 3)},
		{Rows: 2, Cols: 2},
		{Rows: 1, Cols: 2, Floats: make([]float32, 1), Bytes: make([]uint8, 1)},
		{Rows: 2, Cols: 1, Floats: make([]float32, 2), Words: make([]string, 1)},
		{Rows: 2, Cols: 1, Floats: make([]float32, 2), Weights: make([]float32, 3)},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v makes a record", rows)
				}
			}()
			rows.Record(memory.NewGoAllocator())
		}()
	}
}

func TestFeaturesRefuseAnotherWidth(t *testing.T) {
	mem := arrowtest.Allocator(t)
	e := arrowtest.Must(Decode(encodeRows(t, &Rows{Rows: 1, Cols: 2, Floats: []float32{1, 2}}, mem), mem))(t)
	defer e.Release()
	for _, width := range []int{1, 3} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("width %d is taken", width)
				}
			}()
			e.Features(make([]float32, width), width)
		}()
	}
}

func TestSplits(t *testing.T) {
	for s := range Split(Splits) {
		if got, err := ParseSplit(s.String()); got != s || err != nil {
			t.Errorf("%v becomes %v, %v", s, got, err)
		}
	}
	if got := Split(7).String(); got != "split(7)" {
		t.Error(got)
	}
}

// The memory of a decoder does not grow with a text that it refuses.
func TestLongTextsAreRefused(t *testing.T) {
	mem := arrowtest.Allocator(t)
	long := strings.Repeat("a", 4<<20)
	for _, column := range []string{columnLabel, columnSplit} {
		value := fromJSON(t, mem, `[{"features":[1],"`+column+`":"`+long+`"}]`, dense(1, arrow.PrimitiveTypes.Float32),
			field(column, arrow.BinaryTypes.String))
		metered := arrowtest.NewMeter()
		_, err := Decode(value, metered)
		if err == nil || len(err.Error()) > 1000 {
			t.Errorf("%s: %v", column, err)
		}
		metered.Check(t, len(value), err, wire.ErrDamaged)
	}
}
