package tabular

import (
	"math"
	"slices"

	"github.com/stagewise/stagewise/ingest/input"
)

// partitioned is a table with partition columns from its path.
type partitioned struct {
	Table
	own  int // number of columns of the file
	path []input.Partition
	rows int // number of current rows
}

// withPath returns a table with the partition columns of its path that the file lacks.
func withPath(t Table, path []input.Partition) Table {
	own := t.Fields()
	path = slices.DeleteFunc(slices.Clone(path), func(v input.Partition) bool {
		return slices.ContainsFunc(own, func(f Field) bool { return f.Name == v.Column })
	})
	if len(path) == 0 {
		return t
	}
	return &partitioned{Table: t, own: len(own), path: path}
}

func (p *partitioned) Fields() []Field {
	fields := slices.Clone(p.Table.Fields())
	for _, v := range p.path {
		f := Field{Name: v.Column, Kind: Text, Type: "text in the names of folders"}
		if v.IsWhole {
			f.Kind, f.Type = Whole, "whole numbers in the names of folders"
		}
		fields = append(fields, f)
	}
	return fields
}

func (p *partitioned) Begin(n int) (rows int, err error) {
	p.rows, err = p.Table.Begin(n)
	return p.rows, err
}

func (p *partitioned) Numbers(column int, put func(i int, v float64) error) error {
	if column < p.own {
		return p.Table.Numbers(column, put)
	}
	return p.Wholes(column, func(row int, v int64, null bool) error { return put(row, numberInPath(v, null)) })
}

func (p *partitioned) Wholes(column int, put func(row int, v int64, null bool) error) error {
	if column < p.own {
		return p.Table.Wholes(column, put)
	}
	v := p.path[column-p.own]
	return p.each(func(row int) error { return put(row, v.Whole, v.Null) })
}

func (p *partitioned) Texts(column int, put func(row int, v string, null bool) error) error {
	if column < p.own {
		return p.Table.Texts(column, put)
	}
	v := p.path[column-p.own]
	if v.Null {
		v.Text = ""
	}
	return p.each(func(row int) error { return put(row, v.Text, v.Null) })
}

// each calls put for each current row.
func (p *partitioned) each(put func(row int) error) error {
	for row := range p.rows {
		if err := put(row); err != nil {
			return err
		}
	}
	return nil
}

// Lists implements wordLists, if the file does.
func (p *partitioned) Lists(column int, put func(row int, items []string, null bool) error) error {
	t, ok := p.Table.(wordLists)
	if !ok || column >= p.own {
		return errNoLists
	}
	return t.Lists(column, put)
}

// Singles implements singleLists.
func (p *partitioned) Singles(column int, put func(row int, values []float32) error) (ok bool, err error) {
	if t, ok := p.Table.(singleLists); ok && column < p.own {
		return t.Singles(column, put)
	}
	return false, nil
}

// numberInPath returns an integer as Numbers does; NaN for a null.
func numberInPath(v int64, null bool) float64 {
	if null {
		return math.NaN()
	}
	return float64(v)
}

// Sparse implements sparseLists for the columns of the file.
func (p *partitioned) Sparse(column int, put func(row int, indices []int64, values []float64) error) error {
	return p.Table.(sparseLists).Sparse(column, put)
}
