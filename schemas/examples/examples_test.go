package examples

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/schemas/wire"
)

func encodeRows(t testing.TB, rows *Rows, mem memory.Allocator) []byte {
	record := rows.Record(mem)
	defer record.Release()
	return assert.Must(Encode(record, mem))(t)
}

// fromJSON encodes rows of JSON as an examples message, as another producer might.
func fromJSON(t testing.TB, mem memory.Allocator, rows string, fields ...arrow.Field) []byte {
	t.Helper()
	record, _, err := array.RecordFromJSON(mem, arrow.NewSchema(fields, nil), strings.NewReader(rows))
	assert.NoError(t, err)
	defer record.Release()
	return assert.Must(Encode(record, mem))(t)
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
func same(t *testing.T, e *Rows, want *Rows, first int) {
	t.Helper()
	assert.Equal(t, assert.Must(ParseColumns(e.ColumnsText()))(t), want.Columns, "columns")
	assert.Need(t, e.Cols == want.Cols && e.Sparse == nil, "width %d, sparse %v", e.Cols, e.Sparse)
	features := make([]float32, e.Rows*e.Cols)
	e.Features(features, e.Cols)
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
		assert.Need(t, got == v || got != got && v != v, "value %d is %v, expected %v", i, got, v)
	}
	assert.True(t, e.Missing() == missing, "missing: %v", !missing)
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
		assert.Need(t, e.Labelled(i) == (label != "") && (label == "" || e.Label(i) == label) && e.Weight(i) == weight && e.Split(i) == split,
			"row %d: weight %v, split %v, expected label %q, weight %v, split %v", i, e.Weight(i), e.Split(i), label, weight, split)
	}
}

// Rows come back as they were written, also those of a sliced record, whose arrays have an offset.
func TestExamplesRoundTrip(t *testing.T) {
	cuts := [][2]int{{1, 64}, {63, 130}, {64, 129}, {65, 65}}
	for _, n := range append(assert.Sizes(), 130) {
		for kind, rows := range rowsOfAllColumns(n) {
			for _, cut := range append(cuts, [2]int{0, n}) {
				if cut[1] > n {
					continue
				}
				mem := assert.Allocator(t)
				record := rows.Record(mem)
				slice := record.NewSlice(int64(cut[0]), int64(cut[1]))
				value := assert.Must(Encode(slice, mem))(t)
				slice.Release()
				record.Release()
				e := assert.Must(Decode(value, mem))(t)
				assert.Need(t, e.Rows == cut[1]-cut[0], "%d %s, %v: %d rows", n, kind, cut, e.Rows)
				same(t, e, rows, cut[0])
			}
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
		mem := assert.Allocator(t)
		record, _, err := array.RecordFromJSON(mem, arrow.NewSchema([]arrow.Field{sparse(index)}, nil), strings.NewReader(rows))
		assert.NoError(t, err)
		for first := range 3 {
			slice := record.NewSlice(int64(first), 3)
			e := assert.Must(Decode(assert.Must(Encode(slice, mem))(t), mem))(t)
			slice.Release()
			got := make([]float32, e.Rows*6)
			e.Features(got, 6)
			assert.True(t, e.Sparse != nil && e.Cols == []int{5, 1, 1}[first] && !e.Missing() && slices.Equal(got, want[first*6:]),
				"%v from row %d: width %d, %v", index, first, e.Cols, got)
		}
		record.Release()
	}
}

func fromJSONArray(t testing.TB, mem memory.Allocator, of arrow.DataType, values string) arrow.Array {
	t.Helper()
	column, _, err := array.FromJSON(mem, of, strings.NewReader(values))
	assert.NoError(t, err)
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
			e := assert.Must(Decode(assert.Must(Encode(slice, mem))(t), mem))(t)
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
			err := e.Classes(classes, labels, UnknownLabel)
			assert.True(t, err == nil && slices.Equal(classes, []int32{1, 0, Unlabelled, 1}[first:]) &&
				slices.Equal(got, []string{"7", "100", "-", "7"}[first:]),
				"%v from row %d: labels %v, classes %v, error %v", of, first, got, classes, err)
		}
		record.Release()
	}
	for _, value := range append(text, whole...) {
		rows, dictionary := "[7,100,null,7]", "[100,7]"
		if slices.Contains(text, value) {
			rows, dictionary = `["7","100",null,"7"]`, `["100","7"]`
		}
		mem := assert.Allocator(t)
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
	mem := assert.Allocator(t)
	dictionary := fromJSONArray(t, mem, arrow.BinaryTypes.String, `["a",null]`)
	indices := fromJSONArray(t, mem, arrow.PrimitiveTypes.Int8, "[1,0,null]")
	of := encodedAs(arrow.PrimitiveTypes.Int8, arrow.BinaryTypes.String)
	label := array.NewDictionaryArray(of, indices, dictionary)
	rest, _, err := array.RecordFromJSON(mem, arrow.NewSchema([]arrow.Field{field("features", arrow.ListOf(arrow.PrimitiveTypes.Uint8)),
		field("split", arrow.BinaryTypes.LargeString), field("weight", arrow.PrimitiveTypes.Float64)}, nil),
		strings.NewReader(`[{"features":[1],"split":"test","weight":0.5},{"features":[2],"split":null,"weight":1},{"features":[3],"split":"","weight":2}]`))
	assert.NoError(t, err)
	fields := append(rest.Schema().Fields(), field("label", of))
	record := array.NewRecord(arrow.NewSchema(fields, nil), append(rest.Columns(), label), 3)
	e := assert.Must(Decode(assert.Must(Encode(record, mem))(t), mem))(t)
	for _, r := range []interface{ Release() }{indices, dictionary, label, rest, record} {
		r.Release()
	}
	assert.True(t, !e.Labelled(0) && e.Labelled(1) && e.Label(1) == "a" && !e.Labelled(2) && e.Split(0) == Test && e.Split(1) == Train &&
		e.Split(2) == Train && e.Weight(0) == 0.5 && e.Weight(2) == 2 && slices.Equal(e.Bytes, []uint8{1, 2, 3}),
		"labelled %v, %v, %v; splits %v, %v, %v; weights %v, %v; features %v", e.Labelled(0), e.Labelled(1), e.Labelled(2), e.Split(0),
		e.Split(1), e.Split(2), e.Weight(0), e.Weight(2), e.Bytes)
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
			mem := assert.Allocator(t)
			record, _, err := array.RecordFromJSON(mem, arrow.NewSchema([]arrow.Field{field("features", list)}, nil), strings.NewReader(rows))
			assert.NoError(t, err)
			for _, cut := range [][2]int{{0, 3}, {1, 3}, {2, 3}, {0, 1}, {1, 1}} {
				slice := record.NewSlice(int64(cut[0]), int64(cut[1]))
				e := assert.Must(Decode(assert.Must(Encode(slice, mem))(t), mem))(t)
				slice.Release()
				got := make([]float32, e.Rows*e.Cols)
				e.Features(got, e.Cols)
				part := want[2*cut[0] : 2*cut[1]]
				assert.True(t, fmt.Sprint(got) == fmt.Sprint(part) && e.Missing() == slices.ContainsFunc(part, func(v float32) bool { return v != v }),
					"%v of rows %v: %v, missing %v; expected %v", list, cut, got, e.Missing(), part)
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
		{`[{"label":-9,"features":[1,2]}]`, []arrow.Field{field("label", arrow.PrimitiveTypes.Int64), dense(2, f32)}, "-9"},
		{`[{"features":[1,2],"label":null},{"features":[1,2],"label":"x"}]`, []arrow.Field{dense(2, f32), field("label", arrow.BinaryTypes.String)}, "-,x"},
		{`[{"features":[1,2],"label":null}]`, []arrow.Field{dense(2, f32), field("label", arrow.Null)}, "-"},
		{`[{"features":[1,2],"split":null}]`, []arrow.Field{dense(2, f32), field("split", arrow.BinaryTypes.String)}, "-"},
		{`[{"features":[1,2],"id":"a","at":1,"tags":["x","y"]}]`, []arrow.Field{dense(2, f32), field("id", arrow.BinaryTypes.LargeString),
			field("at", arrow.PrimitiveTypes.Date32), field("tags", arrow.ListOf(arrow.BinaryTypes.LargeString))}, "-"},
	} {
		mem := assert.Allocator(t)
		e := assert.Must(Decode(fromJSON(t, mem, c.rows, c.fields...), mem))(t)
		var labels []string
		for i := range e.Rows {
			label := "-"
			if e.Labelled(i) {
				label = e.Label(i)
			}
			labels = append(labels, label)
			assert.True(t, e.Weight(i) == 1 && e.Split(i) == Train, "%s: row %d has weight %v, split %v", c.rows, i, e.Weight(i), e.Split(i))
		}
		assert.Equal(t, strings.Join(labels, ","), c.labels, "%s: labels", c.rows)
	}
}

func TestExamplesThatAreRefused(t *testing.T) {
	f32, f64, text := arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, arrow.BinaryTypes.String
	var frame []arrow.Field
	for i := range 9 {
		frame = append(frame, field(fmt.Sprint("x", i), arrow.PrimitiveTypes.Float64))
	}
	frame = append(frame, field("label", text))
	const damaged = "damaged or foreign bytes: "
	const noTarget = damaged + `column "targets": row 0: target 0 is null or not a finite float32: expected a number, or null for the whole row if it has no targets`
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
		{"one target", `[{"features":[1],"targets":1}]`, []arrow.Field{dense(1, f32), field("targets", f64)}, damaged + `column "targets": type float64, expected a list of float64 or float32`},
		{"whole targets", `[{"features":[1],"targets":[1]}]`, []arrow.Field{dense(1, f32), field("targets", arrow.ListOf(arrow.PrimitiveTypes.Int64))},
			damaged + `column "targets": type list<item: int64, nullable>, expected a list of float64 or float32`},
		{"ragged targets", `[{"features":[1],"targets":[1]},{"features":[1],"targets":[1,2]}]`, []arrow.Field{dense(1, f32), field("targets", arrow.ListOf(f64))},
			damaged + `column "targets": row 1: 2 targets, but 1 in the rows before: expected the same number in each row`},
		{"a null target", `[{"features":[1],"targets":[null]}]`, []arrow.Field{dense(1, f32), field("targets", arrow.ListOf(f64))}, noTarget},
		{"a large target", `[{"features":[1],"targets":[1e300]}]`, []arrow.Field{dense(1, f32), field("targets", arrow.ListOf(f64))}, noTarget},
		{"long label in a dictionary", `[{"features":[1],"label":"` + strings.Repeat("x", 1025) + `"}]`,
			[]arrow.Field{dense(1, f32), field("label", encodedAs(arrow.PrimitiveTypes.Int8, text))},
			"row 0: label of 1025 bytes: expected at most 1024 of UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := assert.Allocator(t)
			_, err := Decode(fromJSON(t, mem, c.rows, c.fields...), mem)
			assert.Need(t, err != nil, "no error")
			assert.True(t, errors.Is(err, wire.ErrDamaged) && err.Error() == c.want, "%q\nexpected %q", err, c.want)
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
		mem := assert.Allocator(t)
		_, err := Decode(encodeRows(t, &c.rows, mem), mem)
		var got *ValueError
		assert.True(t, errors.As(err, &got) && *got == c.want && errors.Is(err, wire.ErrDamaged), "%v, expected %v", err, c.want)
	}
	assert.Equal(t, (&ValueError{3, 4, "why"}).Error(), "row 3, feature 4: why", "")
	// A NaN that a producer wrote is a value. Only null is missing.
	mem := assert.Allocator(t)
	b := array.NewRecordBuilder(mem, arrow.NewSchema([]arrow.Field{dense(2, arrow.PrimitiveTypes.Float32)}, nil))
	lists := b.Field(0).(*array.FixedSizeListBuilder)
	lists.Append(true)
	lists.ValueBuilder().(*array.Float32Builder).AppendValues([]float32{1, nan}, nil)
	record := b.NewRecord()
	b.Release()
	value := assert.Must(Encode(record, mem))(t)
	record.Release()
	_, err := Decode(value, mem)
	assert.Equal(t, fmt.Sprint(err), "row 0, feature 1: NaN is not a finite number", "")
}

func TestColumnsTwiceAreRefused(t *testing.T) {
	mem := assert.Allocator(t)
	record := (&Rows{Rows: 1, Cols: 1, Bytes: []uint8{1}, Numbers: []int64{1}}).Record(mem)
	fields := append(record.Schema().Fields(), record.Schema().Field(1))
	twice := array.NewRecord(arrow.NewSchema(fields, nil), append(record.Columns(), record.Column(1)), 1)
	value := assert.Must(Encode(twice, mem))(t)
	twice.Release()
	record.Release()
	_, err := Decode(value, mem)
	assert.Equal(t, fmt.Sprint(err), `damaged or foreign bytes: column "label" occurs twice`, "")
}

// checkPanics checks that a call panics.
func checkPanics(t *testing.T, what string, call func()) {
	t.Helper()
	defer func() { assert.True(t, recover() != nil, "%s is taken", what) }()
	call()
}

func TestRecordRefusesRaggedRows(t *testing.T) {
	for _, rows := range []Rows{
		{Rows: 2, Cols: 2, Floats: make([]float32, 3)},
		{Rows: 2, Cols: 2},
		{Rows: 1, Cols: 2, Floats: make([]float32, 1), Bytes: make([]uint8, 1)},
		{Rows: 2, Cols: 1, Floats: make([]float32, 2), Words: make([]string, 1)},
		{Rows: 2, Cols: 1, Floats: make([]float32, 2), Weights: make([]float32, 3)},
	} {
		checkPanics(t, fmt.Sprintf("%+v", rows), func() { rows.Record(memory.NewGoAllocator()) })
	}
}

func TestFeaturesRefuseAnotherWidth(t *testing.T) {
	mem := assert.Allocator(t)
	e := assert.Must(Decode(encodeRows(t, &Rows{Rows: 1, Cols: 2, Floats: []float32{1, 2}}, mem), mem))(t)
	for _, width := range []int{1, 3} {
		checkPanics(t, fmt.Sprint("width ", width), func() { e.Features(make([]float32, width), width) })
	}
}

func TestSplits(t *testing.T) {
	for s := range Split(Splits) {
		got, err := ParseSplit(s.String())
		assert.True(t, got == s && err == nil, "%v becomes %v, %v", s, got, err)
	}
	assert.Equal(t, Split(7).String(), "split(7)", "")
}

// The memory of a decoder does not grow with a text that it refuses.
func TestLongTextsAreRefused(t *testing.T) {
	mem := assert.Allocator(t)
	long := strings.Repeat("a", 4<<20)
	for _, column := range []string{columnLabel, columnSplit} {
		value := fromJSON(t, mem, `[{"features":[1],"`+column+`":"`+long+`"}]`, dense(1, arrow.PrimitiveTypes.Float32),
			field(column, arrow.BinaryTypes.String))
		metered := assert.NewMeter()
		_, err := Decode(value, metered)
		assert.True(t, err != nil && len(err.Error()) <= 1000, "%s: %v", column, err)
		metered.Check(t, len(value), err, wire.ErrDamaged)
	}
}

// Features are less the offsets that are asked for, whatever the message was less: of any type, with missing values,
// and again after another question. A message that does not say its columns has those that are asked for.
func TestAlign(t *testing.T) {
	mem := assert.Allocator(t)
	own := Columns{{Name: "time", Offset: 1000}, {Name: "colour", Categories: []string{"red"}}, {Name: "size"}}
	nan := float32(math.NaN())
	rows := &Rows{Rows: 2, Cols: 4, Floats: []float32{1, 0, 1, 5, nan, 1, 0, 6}, Columns: own}
	said := assert.Must(Decode(encodeRows(t, rows, mem), mem))(t)
	rows.Columns = nil
	silent := assert.Must(Decode(encodeRows(t, rows, mem), mem))(t)
	other := Columns{{Name: "time", Offset: 990}, {Name: "colour", Categories: []string{"red"}}, {Name: "size", Offset: -2}}
	for _, test := range []struct {
		name     string
		examples *Rows
		columns  Columns
		want     []float32
	}{
		{"same", said, own, rows.Floats},
		{"other", said, other, []float32{11, 0, 1, 7, nan, 1, 0, 8}},
		{"same again", said, own, rows.Floats},
		{"none", said, Columns{{Name: "time"}, {Name: "colour", Categories: []string{"red"}}, {Name: "size"}}, []float32{1001, 0, 1, 5, nan, 1, 0, 6}},
		{"unknown", said, nil, rows.Floats},
		{"silent", silent, other, rows.Floats},
	} {
		err := test.examples.Align(test.columns)
		assert.True(t, err == nil, "%s: %v", test.name, err)
		got := make([]float32, 8)
		test.examples.Features(got, 4)
		assert.True(t, slices.EqualFunc(got, test.want, func(a, b float32) bool { return a == b || a != a && b != b }),
			"%s: %v, expected %v", test.name, got, test.want)
	}
	assert.True(t, said.Align(Columns{{Name: "time", Offset: 1}}) != nil, "columns of another width are aligned")
}

// Columns survive their text, and count their features. A column with an offset is an object.
func TestColumns(t *testing.T) {
	const offset = `[{"name":"time","offset":1764000038912},{"name":"colour","categories":["red"]},"size"]`
	want := Columns{{Name: "time", Offset: 1764000038912}, {Name: "colour", Categories: []string{"red"}}, {Name: "size"}}
	assert.Equal(t, assert.Must(ParseColumns(offset))(t), want, "%s", offset)
	for text, features := range map[string]int{
		"":                  0,
		`["a","b c","\"é"]`: 3,
		`["a",{"name":"colour","categories":["blue","red"]}]`:                               4,
		`[{"name":"x","categories":[""]}]`:                                                  2,
		`[{"name":"t.hour","time":"hour"},{"name":"t.age","offset":-20000.5,"time":"age"}]`: 2,
		`[{"name":"t.hour","time":"hour","unit":"ms"}]`:                                     1,
		offset: 4,
	} {
		columns, err := ParseColumns(text)
		assert.True(t, err == nil && columns.Features() == features && columns.Text() == text,
			"%s: %v of %d features, %v", text, columns.Text(), columns.Features(), err)
		again, _ := ParseColumns(text)
		assert.True(t, reflect.DeepEqual(again, columns) && again.Difference(columns) == "",
			"%s differs from itself: %s", text, again.Difference(columns))
	}
	for _, text := range []string{"a", "{}", `["a","a"]`, `[""]`, `[{"name":"a"}]`, `[1]`, `[{"name":"a","categories":[]}]`,
		`[{"name":"a","categories":["x"],"offset":1}]`, `[{"name":"a","time":"hour"}]`, `[{"name":".hour","time":"hour"}]`, `[{"name":"a.second","time":"second"}]`,
		`[{"name":"a.hour","time":"hour","categories":["x"]}]`,
		`[{"name":"a.hour","time":"hour","unit":"auto"}]`, `[{"name":"a","unit":"ms"}]`} {
		columns, err := ParseColumns(text)
		assert.True(t, errors.Is(err, wire.ErrDamaged), "%s: %v, %v", text, columns, err)
	}
}

// The difference between two tables says which column it is.
func TestColumnsDifference(t *testing.T) {
	table := Columns{{Name: "size"}, {Name: "colour", Categories: []string{"red"}}}
	for want, other := range map[string]Columns{
		`column 0 is "width", not "size"`:      {{Name: "width"}, table[1]},
		`column "colour" has other categories`: {table[0], {Name: "colour", Categories: []string{"blue"}}},
		`1 columns, not 2`:                     table[:1],
		`column "size" is a part of times in one of the tables, and none in the other`: {{Name: "size", Time: "hour"}, table[1]},
		`column 1 is "red", not "colour"`:                                              {table[0], {Name: "red"}},
	} {
		got := other.Difference(table)
		assert.True(t, got == want && !reflect.DeepEqual(other, table), "%s, expected %s", got, want)
	}
	ms, s, none := Columns{PartOf("t", "hour", value.UnitMilliseconds)}, Columns{PartOf("t", "hour", value.UnitSeconds)}, Columns{PartOf("t", "hour", "")}
	assert.Equal(t, s.Difference(ms), `column "t.hour" has times in s, not in ms`, "")
	assert.True(t, none.Difference(ms) == "" && ms.Difference(none) == "" && none.WithUnits(ms)[0].Unit == ms[0].Unit &&
		ms.WithUnits(s)[0].Unit == ms[0].Unit, "columns without numbers differ from others, or have other units")
	long := strings.Repeat("x", 1000)
	assert.True(t, len(Columns{{Name: long}}.Difference(table)) <= 200, "a long name is not cut")
}

// joined is what a message says of rows that wait, and text is that in its header.
func joined() (j *Joined, text string) {
	return &Joined{Rule: "4e1f", Rows: []JoinInput{{Partition: 2, Time: 900, From: 4, Since: 100}},
			Outcomes: []JoinInput{{Partition: 1, Next: 7, Last: "0123456789ab", Time: 800, From: 5, Since: -9223372036854775808}},
			Joins: []JoinCursor{{Partition: -1, Due: JoinPlace{700, 2, 3}, Applied: JoinPlace{600, 1, 6}, Labelled: 8,
				Counts: JoinCounts{Rows: 9, Absent: 4, Outcomes: 7, Matched: 5, Late: 1, Disorder: 60}}}},
		`{"rule":"4e1f","rows":[{"partition":2,"next":0,"time":900,"from":4,"since":100}],` +
			`"outcomes":[{"partition":1,"next":7,"last":"0123456789ab","time":800,"from":5,"since":-9223372036854775808}],` +
			`"joins":[{"partition":-1,"due":{"time":700,"partition":2,"offset":3},"applied":{"time":600,"partition":1,"offset":6},"labelled":8,` +
			`"counts":{"rows":9,"absent":4,"outcomes":7,"matched":5,"late":1,"disorder":60}}]}`
}

// How far rows were joined is read as it was written, and damage is an error.
func TestJoined(t *testing.T) {
	j, text := joined()
	h := j.Header()
	assert.True(t, h == (wire.Header{Key: "stagewise-joined", Value: text}), "the header is %+v", h)
	read, err := JoinedOf(wire.Message{Headers: []wire.Header{h}})
	assert.True(t, err == nil && read.Equal(j), "%+v is read, %v", read, err)
	other, _ := joined()
	other.Joins[0].Labelled++
	none, err := JoinedOf(wire.Message{})
	assert.True(t, err == nil && none.Equal(nil) && !none.Equal(j) && !j.Equal(none) && !j.Equal(other),
		"%+v is read of a message without the header, %v", none, err)
	for _, text := range []string{"[", "[]", `{"rows":[{"partition":-1}]}`, `{"outcomes":[{"from":-1}]}`, `{"outcomes":[{"next":-1}]}`} {
		assert.MustFail(JoinedOf(wire.Message{Headers: []wire.Header{{Key: "stagewise-joined", Value: text}}}))(t, wire.ErrDamaged)
	}
}

// Counts of joins together do not depend on their order, also if one of them is behind.
func TestTogether(t *testing.T) {
	ahead, near, behind := JoinCounts{Rows: 9, Outcomes: 100, Matched: 9}, JoinCounts{Rows: 8, Outcomes: 60, Matched: 6, Late: 3}, JoinCounts{Outcomes: 10, Matched: 1}
	for _, c := range []struct {
		joins []JoinCounts
		want  JoinCounts
	}{
		{nil, JoinCounts{}},
		{[]JoinCounts{ahead, near}, JoinCounts{Rows: 17, Outcomes: 100, Matched: 19, Late: 5}},
		{[]JoinCounts{ahead, near, behind}, JoinCounts{Rows: 17, Outcomes: 19, Matched: 16, Late: 3}},
		{[]JoinCounts{behind, near, ahead}, JoinCounts{Rows: 17, Outcomes: 19, Matched: 16, Late: 3}},
	} {
		assert.Equal(t, Together(c.joins), c.want, "%+v", c.joins)
	}
}

func TestSortLabels(t *testing.T) {
	for _, c := range [][2][]string{
		{{}, {}},
		{{"10", "9", "-1", "2.5"}, {"-1", "2.5", "9", "10"}},
		{{"b", "10", "9", "a"}, {"10", "9", "a", "b"}},
		{{"01", "1", "1.0", "0"}, {"0", "01", "1", "1.0"}},
		{{"nan", "1", "-inf"}, {"nan", "-inf", "1"}},
	} {
		got := slices.Clone(c[0])
		SortLabels(got)
		assert.Equal(t, got, c[1], "%q sorts to", c[0])
		slices.Reverse(got)
		SortLabels(got)
		assert.True(t, slices.Equal(got, c[1]), "%q reversed sorts to %q", c[1], got)
	}
}

func TestClassesCompareAsText(t *testing.T) {
	mem := assert.Allocator(t)
	labels := NewLabels([]string{"7", "07", "-3", "seven"})
	for _, c := range []struct {
		rows Rows
		want []int32
		err  string
	}{
		{rows: Rows{Words: []string{"seven", "7", "07"}}, want: []int32{3, 0, 1}},
		{rows: Rows{Numbers: []int64{-3, 7, 7}}, want: []int32{2, 0, 0}},
		{rows: Rows{}, want: []int32{Unlabelled, Unlabelled, Unlabelled}},
		{rows: Rows{Words: []string{"7", "eight", "7"}}, err: `row 1: label "eight" is not one of the classes`},
		{rows: Rows{Numbers: []int64{7, 7, 8}}, err: `row 2: label "8" is not one of the classes`},
	} {
		c.rows.Rows, c.rows.Cols, c.rows.Bytes = 3, 1, []uint8{1, 2, 3}
		e := assert.Must(Decode(encodeRows(t, &c.rows, mem), mem))(t)
		got := make([]int32, 3)
		err := e.Classes(got, labels, UnknownLabel)
		if c.err != "" {
			var unknown *ValueError
			assert.True(t, errors.As(err, &unknown) && errors.Is(err, wire.ErrDamaged) && err.Error() == c.err, "%v, expected %s", err, c.err)
		} else if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v, %v, expected %v", got, err, c.want)
		}
	}
}

func TestLabelsRefuseDuplicates(t *testing.T) {
	defer func() { assert.Equal(t, fmt.Sprint(recover()), `schemas: label "a" occurs twice`, "") }()
	NewLabels([]string{"a", "b", "a"})
}

// Labels are whole numbers if all of them are, in their shortest form, and then they are numbers in JSON. What is read is what was written.
func TestTypeOf(t *testing.T) {
	for _, test := range []struct {
		labels []string
		want   LabelType
		json   string
	}{
		{[]string{"0", "1"}, WholeLabels, `[0,1]`},
		{[]string{"-3", "7", "9223372036854775807"}, WholeLabels, `[-3,7,9223372036854775807]`},
		{[]string{"7"}, WholeLabels, `[7]`},
		{[]string{"007"}, TextLabels, `["007"]`},
		{[]string{"0", "007"}, TextLabels, `["0","007"]`},
		{[]string{"0", "spam"}, TextLabels, `["0","spam"]`},
		{[]string{"0.0", "1.0"}, TextLabels, `["0.0","1.0"]`},
		{[]string{"+1", "-1"}, TextLabels, `["+1","-1"]`},
		{[]string{"-0"}, TextLabels, `["-0"]`},
		{[]string{"1e3"}, TextLabels, `["1e3"]`},
		{[]string{" 1"}, TextLabels, `[" 1"]`},
		{[]string{"9223372036854775808"}, TextLabels, `["9223372036854775808"]`},
		{[]string{"", "1"}, TextLabels, `["","1"]`},
		{[]string{}, TextLabels, `[]`},
		{nil, TextLabels, `null`},
	} {
		assert.Equal(t, TypeOf(test.labels), test.want, "%q are of type", test.labels)
		assert.Fails(t, TypeOf(test.labels).Check(test.labels), nil)
		text, err := json.Marshal(ClassLabels(test.labels))
		assert.True(t, err == nil && string(text) == test.json, "%q are %s as JSON: %v, expected %s", test.labels, text, err, test.json)
		var read ClassLabels
		err = json.Unmarshal(text, &read)
		assert.True(t, err == nil && slices.Equal(read, test.labels), "%s is read as %q: %v", text, read, err)
	}
	for _, labels := range [][]string{{"0", "007"}, {}} {
		assert.True(t, WholeLabels.Check(labels) != nil, "%q pass as whole numbers", labels)
	}
	assert.True(t, LabelType("decimal").Check([]string{"1"}) != nil, "an unknown type passes")
	for _, text := range []string{`[1,"a"]`, `[1.5]`, `{}`, `[99999999999999999999]`} {
		assert.True(t, json.Unmarshal([]byte(text), new(ClassLabels)) != nil, "%s is read", text)
	}
}

// What was served comes back for each row, whoever wrote it.
func TestServed(t *testing.T) {
	mem := assert.Allocator(t)
	rows := &Rows{Rows: 4, Cols: 1, Floats: []float32{1, 2, 3, 4}, Served: []Served{{"a", 7}, {}, {"b", 0}, {"TRUE", 1}}}
	features := arrow.Field{Name: "features", Type: arrow.FixedSizeListOf(1, arrow.PrimitiveTypes.Float32)}
	foreign := fromJSON(t, mem, `[{"features":[1],"served":3,"served_version":7},{"features":[1],"served":null,"served_version":7},
		{"features":[1],"served":4,"served_version":0},{"features":[1],"served":-5,"served_version":2147483647}]`, features,
		arrow.Field{Name: "served", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		arrow.Field{Name: "served_version", Type: arrow.PrimitiveTypes.Uint32, Nullable: true})
	alone := fromJSON(t, mem, `[{"features":[1],"served":"a"}]`, features, arrow.Field{Name: "served", Type: arrow.BinaryTypes.String})
	for name, c := range map[string]struct {
		value []byte
		want  []Served
	}{
		"of ingest":           {encodeRows(t, rows, mem), []Served{{"a", 7}, {}, {}, {"true", 1}}},
		"of another producer": {foreign, []Served{{"3", 7}, {}, {}, {"-5", 2147483647}}},
		"without a version":   {alone, []Served{{}}},
		"without either":      {encodeRows(t, &Rows{Rows: 1, Cols: 1, Floats: []float32{1}}, mem), []Served{{}}},
	} {
		batch := assert.Must(Decode(c.value, mem))(t)
		for row, want := range c.want {
			got, ok := batch.Answer(row)
			assert.True(t, got == want && ok == (want != Served{}), "%s: row %d is %v, %v, expected %v", name, row, got, ok, want)
		}
	}
	wrong := fromJSON(t, mem, `[{"features":[1],"served":[1]}]`, features, arrow.Field{Name: "served", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32)})
	_, err := Decode(wrong, mem)
	assert.True(t, err != nil, "a list was taken as what was served")
}

// Sparse rows come back from a message as they were written, in bounded memory.
func TestSparseRows(t *testing.T) {
	mem := assert.Allocator(t)
	want := &SparseRows{Ends: []int{2, 2, 3}, Indices: []int32{0, 7, MaxColumns - 1}, Values: []float32{1, -2.5, 1e30}}
	rows := Rows{Rows: 3, Sparse: want, Words: []string{"a", "b", "a"}, Splits: []Split{Train, Test, Train}}
	record := rows.Record(mem)
	value, err := Encode(record, mem)
	record.Release()
	assert.NoError(t, err)
	e := assert.Must(Decode(value, mem))(t)
	got := e.Sparse
	assert.True(t, e.Sparse != nil && e.Cols == MaxColumns && slices.Equal(got.Ends, want.Ends) && slices.Equal(got.Indices, want.Indices) &&
		slices.Equal(got.Values, want.Values), "%+v, expected %+v", got, want)
	assert.True(t, e.Label(1) == "b" && e.Split(1) == Test, "row 1 has the label %q and is for %v", e.Label(1), e.Split(1))
}

// A feature that a producer says is 0 is as one that it leaves out.
func TestSparseZeros(t *testing.T) {
	mem := memory.NewGoAllocator()
	value := fromJSON(t, mem, `[{"features":[{"index":1,"value":0},{"index":4,"value":-1}]},{"features":[{"index":6,"value":0}]}]`,
		sparse(arrow.PrimitiveTypes.Uint8))
	got := assert.Must(Decode(value, mem))(t).Sparse
	assert.True(t, slices.Equal(got.Ends, []int{1, 1}) && slices.Equal(got.Indices, []int32{4}) && slices.Equal(got.Values, []float32{-1}),
		"%+v", got)
}

// Each row is in one fold, the folds are about as large, and no row is in a fold of none.
func TestFolds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, of := range []int{2, 3, 5, 7, 10, 100} {
		rows := make([]int, of)
		for i := range 100_000 {
			hash := random.Uint64()
			if i < 2 {
				hash = []uint64{0, math.MaxUint64}[i]
			}
			in := 0
			for number := range of {
				if (Fold{number, of}).Has(hash) {
					in++
					rows[number]++
				}
			}
			assert.Need(t, in == 1, "the hash %x is in %d of %d folds", hash, in, of)
		}
		for number, n := range rows {
			want := 100_000 / of
			assert.True(t, n >= want*8/10 && n <= want*12/10, "fold %d of %d has %d rows", number, of, n)
		}
	}
	assert.True(t, !(Fold{}).Has(0) && !(Fold{}).Has(math.MaxUint64), "a row is in a fold of none")
}

// Targets come through a message as they are, whatever list has them, in a slice too. A row without targets has none.
func TestTargets(t *testing.T) {
	const rows = `[{"features":[1],"targets":[1.5,-2]},{"features":[2],"targets":null},{"features":[3],"targets":[0.25,8]}]`
	types := arrow.PrimitiveTypes
	for _, of := range []arrow.DataType{
		arrow.FixedSizeListOf(2, types.Float64), arrow.FixedSizeListOf(2, types.Float32), arrow.ListOf(types.Float64),
		arrow.LargeListOf(types.Float32),
	} {
		mem := assert.Allocator(t)
		record, _, err := array.RecordFromJSON(mem, arrow.NewSchema([]arrow.Field{dense(1, types.Float32), field("targets", of)}, nil),
			strings.NewReader(rows))
		assert.NoError(t, err)
		for first := range 3 {
			slice := record.NewSlice(int64(first), 3)
			e := assert.Must(Decode(assert.Must(Encode(slice, mem))(t), mem))(t)
			slice.Release()
			got, known := make([]float64, 2*e.Rows), make([]bool, e.Rows)
			assert.NoError(t, e.CopyTargets(got, known, []string{"x", "y"}))
			want := []float64{1.5, -2, 0, 0, 0.25, 8}[2*first:]
			assert.True(t, slices.Equal(got, want) && slices.Equal(known, []bool{true, false, true}[first:]),
				"%v from row %d: %v %v", of, first, got, known)
			var wrong *ValueError
			err := e.CopyTargets(make([]float64, e.Rows), known, []string{"x"})
			assert.True(t, errors.As(err, &wrong), "one target of two: %v", err)
		}
		record.Release()
	}
	mem := assert.Allocator(t)
	written := Rows{Rows: 2, Cols: 1, Floats: []float32{1, 2}, Targets: []float64{7, math.NaN()}}
	e := assert.Must(Decode(encodeRows(t, &written, mem), mem))(t)
	got, known := make([]float64, 2), make([]bool, 2)
	err := e.CopyTargets(got, known, []string{"x"})
	assert.True(t, err == nil && got[0] == 7 && slices.Equal(known, []bool{true, false}), "%v %v %v", got, known, err)
}
