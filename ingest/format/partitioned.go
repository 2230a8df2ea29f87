package format

import (
	"slices"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/input"
)

// partitioned is a table with partition columns from its path.
type partitioned struct {
	tabular.Source
	fields []tabular.Field
	own    int // number of columns of the file
	path   []input.Partition
}

// withPath returns a table with the partition columns of its path that the file lacks.
func withPath(s tabular.Source, path []input.Partition) tabular.Source {
	p := &partitioned{Source: s, fields: slices.Clone(s.Fields())}
	p.own = len(p.fields)
	for _, v := range path {
		if slices.ContainsFunc(p.fields[:p.own], func(f tabular.Field) bool { return f.Name == v.Column }) {
			continue
		}
		f := tabular.Field{Name: v.Column, Kind: tabular.Text, Type: "text in the names of folders"}
		if v.IsWhole {
			f.Kind, f.Type = tabular.Whole, "whole numbers in the names of folders"
		}
		p.fields, p.path = append(p.fields, f), append(p.path, v)
	}
	if p.path == nil {
		return s
	}
	return p
}

func (p *partitioned) Fields() []tabular.Field { return p.fields }

// Read reads rows of the file, and repeats the values of the path.
func (p *partitioned) Read(n int, wanted []bool, b *tabular.Block) error {
	if err := p.Source.Read(n, wanted[:p.own], b); err != nil {
		return err
	}
	for _, v := range p.path {
		var c tabular.Column
		for range b.Rows {
			switch {
			case v.Null:
				c.AppendNull(!v.IsWhole)
			case v.IsWhole:
				c.AppendWhole(v.Whole, false)
			default:
				c.AppendText(v.Text)
			}
		}
		b.Columns = append(b.Columns, c)
	}
	return nil
}
