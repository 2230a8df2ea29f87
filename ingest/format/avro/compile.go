package avro

import (
	"slices"
	"strconv"

	"github.com/hamba/avro/v2"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/message"
)

// step reads a value, and writes its wanted parts to the current row.
type step func(d *decoder)

// decoder reads values with one schema.
type decoder struct {
	cursor
	row   []tabular.Cell   // the current row
	rows  [][]tabular.Cell // of the value
	most  int              // maximum number of rows of a value
	depth int              // nesting depth of skipped values
}

// program is a compiled schema.
type program struct {
	run     step
	columns int
	within  bool           // rows are at a path in the value
	reached bool           // the schema has that path
	found   map[int]bool   // columns in the schema
	own     map[int]bool   // columns of rows at a path; others are shared
	names   []string       // field names of the schema, for errors
	shared  []tabular.Cell // shared by all rows of a value
	preset  []tabular.Cell // values of columns that the schema lacks: defaults of the reader schema
}

// maxDepth limits the nesting of skipped values, since a schema may be recursive.
const maxDepth = 500

// compile returns the program of a writer schema. ours is the reader schema with defaults and aliases of fields; nil:
// none.
func compile(writer, ours avro.Schema, wanted *message.Wanted) *program {
	p := &program{columns: wanted.Columns, within: wanted.Rows, found: map[int]bool{}, own: map[int]bool{},
		shared: make([]tabular.Cell, wanted.Columns), preset: make([]tabular.Cell, wanted.Columns)}
	p.run = p.value(writer, ours, wanted.Root)
	if s, ok := deref(writer).(*avro.RecordSchema); ok {
		for _, f := range s.Fields() {
			p.names = append(p.names, f.Name())
		}
	}
	return p
}

// deref resolves a named schema.
func deref(s avro.Schema) avro.Schema {
	if ref, ok := s.(*avro.RefSchema); ok {
		return ref.Schema()
	}
	return s
}

// value returns the step for a value; nil if no part of it is wanted.
func (p *program) value(s, ours avro.Schema, want *message.Node) step {
	s = deref(s)
	if want == nil {
		return passing(s)
	}
	if s.Type() != avro.Union {
		ours = branch(ours, s.Type())
	}
	var steps []step
	if want.Rows != nil {
		steps = append(steps, p.rowsOf(s, ours, want.Rows))
	}
	if at := want.Column; at >= 0 {
		p.found[at] = true
		cell := cellOf(s)
		steps = append(steps, func(d *decoder) { d.row[at] = cell(d) })
	}
	if len(want.Below) > 0 {
		steps = append(steps, p.below(s, ours, want))
	}
	if len(steps) == 1 {
		return steps[0]
	}
	return func(d *decoder) { // both the whole value and parts of it may be wanted
		for i, step := range steps {
			before := d.rest
			if step(d); i < len(steps)-1 && d.err == nil {
				d.rest = before
			}
		}
	}
}

// branch returns the branch of ours for a value of a type; nil: none.
func branch(ours avro.Schema, t avro.Type) avro.Schema {
	if ours == nil {
		return nil
	}
	ours = deref(ours)
	if union, ok := ours.(*avro.UnionSchema); ok {
		for _, s := range union.Types() {
			if deref(s).Type() == t {
				return deref(s)
			}
		}
		return nil
	}
	return ours
}

// below returns the step for the wanted parts of a value.
func (p *program) below(s, ours avro.Schema, want *message.Node) step {
	switch s := s.(type) {
	case *avro.RecordSchema:
		return p.record(s, ours, want)
	case *avro.UnionSchema:
		return p.union(s, func(branch avro.Schema) step {
			return p.value(branch, ours, &message.Node{Column: -1, Below: want.Below})
		})
	case *avro.MapSchema:
		values, pass := map[string]step{}, passing(s.Values())
		for name, next := range want.Below {
			values[name] = p.value(s.Values(), nil, next)
		}
		return func(d *decoder) {
			d.items(func() {
				if value := values[string(d.bytes())]; value != nil {
					value(d)
				} else {
					pass(d)
				}
			})
		}
	case *avro.ArraySchema:
		items, pass := map[int]step{}, passing(s.Items())
		for place, next := range want.Below {
			if i, err := strconv.Atoi(place); err == nil {
				items[i] = p.value(s.Items(), nil, next)
			}
		}
		return func(d *decoder) {
			i := 0
			d.items(func() {
				if item := items[i]; item != nil {
					item(d)
				} else {
					pass(d)
				}
				i++
			})
		}
	}
	return passing(s)
}

// union returns the step for a union, with of returning the steps for its branches.
func (p *program) union(s *avro.UnionSchema, of func(avro.Schema) step) step {
	branches := make([]step, len(s.Types()))
	for i, b := range s.Types() {
		branches[i] = of(b)
	}
	return func(d *decoder) {
		i := d.long()
		if i < 0 || i >= int64(len(branches)) {
			d.fail(errShort)
			return
		}
		branches[i](d)
	}
}

// record returns the step for a record. Missing fields get the defaults of ours.
func (p *program) record(s *avro.RecordSchema, ours avro.Schema, want *message.Node) step {
	mine, _ := ours.(*avro.RecordSchema)
	named := func(name string) *avro.Field {
		if mine == nil {
			return nil
		}
		i := slices.IndexFunc(mine.Fields(), func(f *avro.Field) bool { return f.Name() == name })
		if i < 0 {
			return nil
		}
		return mine.Fields()[i]
	}
	at := map[string]*message.Node{} // wanted parts of the fields, by their names in the writer schema
	for name, next := range want.Below {
		f := named(name)
		has := func(name string) bool {
			return slices.ContainsFunc(s.Fields(), func(f *avro.Field) bool { return f.Name() == name })
		}
		switch {
		case has(name):
			at[name] = next
		case f == nil:
		case slices.ContainsFunc(f.Aliases(), has):
			at[f.Aliases()[slices.IndexFunc(f.Aliases(), has)]] = next
		case f.HasDefault():
			p.defaults(f.Default(), next)
		}
	}
	fields := make([]step, len(s.Fields()))
	for i, f := range s.Fields() {
		var type_ avro.Schema
		if own := named(f.Name()); own != nil {
			type_ = own.Type()
		}
		fields[i] = p.value(f.Type(), type_, at[f.Name()])
	}
	return func(d *decoder) {
		for _, field := range fields {
			field(d)
		}
	}
}

// defaults writes a default to its wanted columns.
func (p *program) defaults(v any, want *message.Node) {
	if want.Column >= 0 {
		p.found[want.Column] = true
		p.preset[want.Column] = defaultCell(v)
	}
	if members, ok := v.(map[string]any); ok {
		for name, next := range want.Below {
			if member, has := members[name]; has {
				p.defaults(member, next)
			}
		}
	}
}

func defaultCell(v any) tabular.Cell {
	switch v := v.(type) {
	case nil:
		return tabular.Cell{}
	case bool:
		return tabular.Truth(v)
	case int:
		return tabular.Integer(int64(v))
	case int32:
		return tabular.Integer(int64(v))
	case int64:
		return tabular.Integer(v)
	case float32:
		return tabular.Float(float64(v))
	case float64:
		return tabular.Float(v)
	case string:
		return tabular.Word(v)
	case []byte:
		return tabular.Word(string(v))
	case []any:
		items := make([]tabular.Cell, len(v))
		for i := range v {
			items[i] = defaultCell(v[i])
		}
		return tabular.Items(items)
	}
	return tabular.Object()
}

// cellOf returns a function that reads a value as one cell.
func cellOf(s avro.Schema) func(d *decoder) tabular.Cell {
	s = deref(s)
	switch s := s.(type) {
	case *avro.UnionSchema:
		branches := make([]func(d *decoder) tabular.Cell, len(s.Types()))
		for i, b := range s.Types() {
			branches[i] = cellOf(b)
		}
		return func(d *decoder) tabular.Cell {
			i := d.long()
			if i < 0 || i >= int64(len(branches)) {
				d.fail(errShort)
				return tabular.Cell{}
			}
			return branches[i](d)
		}
	case *avro.ArraySchema:
		if within := deref(s.Items()).Type(); within != avro.Record && within != avro.Array && within != avro.Map {
			item := cellOf(s.Items())
			return func(d *decoder) tabular.Cell {
				items := []tabular.Cell{}
				d.items(func() { items = append(items, item(d)) })
				return tabular.Items(items)
			}
		}
	}
	if leaf := leafOf(s); leaf != nil {
		return func(d *decoder) tabular.Cell { return leaf(&d.cursor) }
	}
	pass := passing(s)
	return func(d *decoder) tabular.Cell {
		pass(d)
		return tabular.Object()
	}
}

// rowsOf returns the step for the value with the rows: an array of records, or a record.
func (p *program) rowsOf(s, ours avro.Schema, want *message.Node) step {
	s = deref(s)
	switch s := s.(type) {
	case *avro.UnionSchema:
		return p.union(s, func(b avro.Schema) step { return p.rowsOf(b, branch(ours, deref(b).Type()), want) })
	case *avro.ArraySchema:
		var of avro.Schema
		if mine, ok := ours.(*avro.ArraySchema); ok {
			of = mine.Items()
		}
		item := p.rowsOf(s.Items(), branch(of, deref(s.Items()).Type()), want)
		return func(d *decoder) { d.items(func() { item(d) }) }
	case *avro.NullSchema: // for example the state after the deletion of a row
		return func(*decoder) {}
	}
	p.reached = true
	before := p.found
	p.found = map[int]bool{}
	row := p.value(s, ours, want)
	for at := range p.found {
		p.own[at], before[at] = true, true
	}
	p.found = before
	return func(d *decoder) {
		if len(d.rows) >= d.most {
			d.fail(message.TooManyRows(d.most))
			return
		}
		shared := d.row
		d.row = message.NextRow(&d.rows, p.columns)
		copy(d.row, p.preset)
		row(d)
		d.row = shared
	}
}

// passing returns the step that skips a value.
func passing(s avro.Schema) step {
	s = deref(s)
	switch s := s.(type) {
	case *avro.NullSchema:
		return func(*decoder) {}
	case *avro.FixedSchema:
		size := int64(s.Size())
		return func(d *decoder) { d.next(size) }
	}
	switch s.Type() {
	case avro.Boolean:
		return func(d *decoder) { d.next(1) }
	case avro.Int, avro.Long, avro.Enum:
		return func(d *decoder) { d.long() }
	case avro.Float:
		return func(d *decoder) { d.next(4) }
	case avro.Double:
		return func(d *decoder) { d.next(8) }
	case avro.String, avro.Bytes:
		return func(d *decoder) { d.bytes() }
	}
	return func(d *decoder) { d.pass(s) }
}

// pass skips a value of a recursive schema.
func (d *decoder) pass(s avro.Schema) {
	if d.err != nil {
		return
	}
	if d.depth++; d.depth > maxDepth {
		d.fail(errDeep)
	}
	switch s := deref(s).(type) {
	case *avro.RecordSchema:
		for _, f := range s.Fields() {
			d.pass(f.Type())
		}
	case *avro.UnionSchema:
		i := d.long()
		if i < 0 || i >= int64(len(s.Types())) {
			d.fail(errShort)
			break
		}
		d.pass(s.Types()[i])
	case *avro.ArraySchema:
		d.passItems(func() { d.pass(s.Items()) })
	case *avro.MapSchema:
		d.passItems(func() {
			d.bytes()
			d.pass(s.Values())
		})
	default:
		passing(s)(d)
	}
	d.depth--
}
