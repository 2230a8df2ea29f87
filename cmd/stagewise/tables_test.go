package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// A tableColumn is a column of a test's table: text, or numbers as people write them. "" is a missing value.
type tableColumn struct {
	name   string
	isText bool
	values []string
}

// recordOf returns a table as a record of Arrow whose column j has the type textType(j) if it is text.
func recordOf(table []tableColumn, textType func(j int) arrow.DataType) (arrow.Record, error) {
	var fields []arrow.Field
	var rows []map[string]any
	for range table[0].values {
		rows = append(rows, map[string]any{})
	}
	for j, c := range table {
		field := arrow.Field{Name: c.name, Type: arrow.PrimitiveTypes.Float64, Nullable: true}
		if c.isText {
			field.Type = textType(j)
		}
		fields = append(fields, field)
		for i, value := range c.values {
			if value == "" {
				rows[i][c.name] = nil
			} else if rows[i][c.name] = value; !c.isText {
				rows[i][c.name] = json.Number(value)
			}
		}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return nil, err
	}
	record, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(fields, nil), bytes.NewReader(text))
	return record, err
}

// asArrow writes text with a dictionary, as data frames do for categories, or as large_utf8.
func asArrow(table []tableColumn) (string, error) {
	record, err := recordOf(table, func(j int) arrow.DataType {
		category := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
		return []arrow.DataType{category, arrow.BinaryTypes.LargeString}[j%2]
	})
	if err != nil {
		return "", err
	}
	var stream strings.Builder
	w := ipc.NewWriter(&stream, ipc.WithSchema(record.Schema()))
	err = errors.Join(w.Write(record), w.Close())
	return stream.String(), err
}

// asParquet writes text as UTF-8.
func asParquet(table []tableColumn) (string, error) {
	var fields schema.FieldList
	for _, c := range table {
		if c.isText {
			fields = append(fields, schema.MustPrimitive(schema.NewPrimitiveNodeLogical(c.name, parquet.Repetitions.Optional,
				schema.StringLogicalType{}, parquet.Types.ByteArray, 0, -1)))
		} else {
			fields = append(fields, schema.NewFloat64Node(c.name, parquet.Repetitions.Optional, -1))
		}
	}
	var content bytes.Buffer
	w := file.NewParquetWriter(&content, schema.MustGroup(schema.NewGroupNode("schema", parquet.Repetitions.Required, fields, -1)))
	group := w.AppendRowGroup()
	for _, c := range table {
		var levels []int16
		var texts []parquet.ByteArray
		var numbers []float64
		for _, value := range c.values {
			if value == "" {
				levels = append(levels, 0)
				continue
			}
			levels, texts = append(levels, 1), append(texts, parquet.ByteArray(value))
			v, _ := strconv.ParseFloat(value, 64) // 0 for text
			numbers = append(numbers, v)
		}
		column, err := group.NextColumn()
		if err != nil {
			return "", err
		}
		switch column := column.(type) {
		case *file.ByteArrayColumnChunkWriter:
			_, err = column.WriteBatch(texts, levels, nil)
		case *file.Float64ColumnChunkWriter:
			_, err = column.WriteBatch(numbers, levels, nil)
		}
		if err := errors.Join(err, column.Close()); err != nil {
			return "", err
		}
	}
	err := errors.Join(group.Close(), w.Close())
	return content.String(), err
}
