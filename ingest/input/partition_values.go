package input

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas/value"
)

// noPartition is the partition value for null.
const noPartition = "__HIVE_DEFAULT_PARTITION__"

// valuesInPaths returns the partition values of the tables in a directory.
func valuesInPaths(folder string, tables []string, kindOf func(name string) Kind) (map[string][]Partition, error) {
	values := map[string][]Partition{}
	words, features := map[string]bool{}, map[string]bool{} // columns with a value that is not an integer, or not of a layout
	for _, table := range tables {
		values[table] = nil
		relative, err := filepath.Rel(folder, filepath.Dir(table))
		if err != nil {
			return nil, err
		}
		for part := range strings.SplitSeq(filepath.ToSlash(relative), "/") {
			column, text, partitioned := strings.Cut(part, "=")
			if !partitioned {
				continue
			}
			if plain, err := url.PathUnescape(text); err == nil { // special characters in directory names are escaped
				text = plain
			}
			v := Partition{Column: column, Text: text, Null: text == noPartition}
			if v.Whole, err = strconv.ParseInt(text, 10, 64); !v.Null && (err != nil || strconv.FormatInt(v.Whole, 10) != text) {
				words[column] = true
			}
			values[table] = append(values[table], v)
		}
		storage := storageOf(table, values[table])
		for _, v := range values[table] {
			features[v.Column] = features[v.Column] || !v.Null && !storage.has(v)
		}
	}
	for _, table := range tables {
		for i := range values[table] {
			v := &values[table][i]
			v.IsWhole, v.IsLayout = !words[v.Column], !features[v.Column]
			if !v.IsLayout && !kindOf(table).HasPath {
				return nil, WholeFile(folder, fmt.Errorf("folders such as %s=%s hold the values of the column %s, which only "+
					"Parquet and Arrow support: write the table without partitions", v.Column, v.Text, value.Quote(v.Column)))
			}
		}
	}
	return values, nil
}
