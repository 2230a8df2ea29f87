package format

import (
	"slices"

	"github.com/stagewise/stagewise/ingest/format/tabular"
)

// addPath adds the partition columns of the path that the file lacks.
func (r *tableReader) addPath(fields []tabular.Field) []tabular.Field {
	if r.own = len(fields); !r.table.HasNames {
		return fields
	}
	all := slices.Clone(fields)
	for _, v := range r.Path {
		if slices.ContainsFunc(fields, func(f tabular.Field) bool { return f.Name == v.Column }) {
			continue
		}
		f := tabular.Field{Name: v.Column, Kind: tabular.Text, Type: "text in the names of folders"}
		if v.IsWhole {
			f.Kind, f.Type = tabular.Whole, "whole numbers in the names of folders"
		}
		all, r.path = append(all, f), append(r.path, v)
	}
	return all
}

// repeatPath appends the columns of the path to the block.
func (r *tableReader) repeatPath() {
	for _, v := range r.path {
		var c tabular.Column
		for range r.block.Rows {
			switch {
			case v.Null:
				c.AppendNull(!v.IsWhole)
			case v.IsWhole:
				c.AppendWhole(v.Whole, false)
			default:
				c.AppendText(v.Text)
			}
		}
		r.block.Columns = append(r.block.Columns, c)
	}
}
