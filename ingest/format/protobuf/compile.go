package protobuf

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/message"
)

// step writes the wanted parts of a message to the current row.
type step func(r *rows, m protoreflect.Message)

// rows are the rows of a value.
type rows struct {
	row  []tabular.Cell // the current row
	all  [][]tabular.Cell
	most int // maximum number of rows of a value
	err  error
}

// program is a compiled schema.
type program struct {
	of      protoreflect.MessageDescriptor
	read    *dynamicpb.Message // reusable message, empty between values, since its large field map is expensive to create
	steps   []step
	within  bool // rows are at a path in the value
	reached bool // the schema has that path
	found   map[int]bool
	own     map[int]bool // columns of rows at a path; others are shared
	names   []string     // field names of the schema, for errors
	columns int
	shared  []tabular.Cell // shared by all rows of a value
}

func compile(of protoreflect.MessageDescriptor, wanted *message.Wanted) *program {
	p := &program{of: of, read: dynamicpb.NewMessage(of), within: wanted.Rows, found: map[int]bool{}, own: map[int]bool{},
		columns: wanted.Columns, shared: make([]tabular.Cell, wanted.Columns)}
	for i := range of.Fields().Len() {
		p.names = append(p.names, string(of.Fields().Get(i).Name()))
	}
	p.steps = p.message(of, wanted.Root)
	return p
}

// empty clears the message after reading.
func (p *program) empty() {
	p.read.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		p.read.Clear(f)
		return true
	})
}

// message returns the steps for the wanted parts of a message.
func (p *program) message(of protoreflect.MessageDescriptor, want *message.Node) (steps []step) {
	for name, next := range want.Below {
		f := of.Fields().ByName(protoreflect.Name(name))
		if f == nil {
			f = of.Fields().ByJSONName(name)
		}
		if f != nil {
			steps = append(steps, p.field(f, next)...)
		}
	}
	return steps
}

// field returns the steps for the wanted parts of a field.
func (p *program) field(f protoreflect.FieldDescriptor, want *message.Node) (steps []step) {
	if want.Rows != nil {
		steps = append(steps, p.rowsOf(f, want.Rows))
	}
	if at := want.Column; at >= 0 {
		p.found[at] = true
		cell := cellOf(f)
		steps = append(steps, func(r *rows, m protoreflect.Message) { r.row[at] = cell(m) })
	}
	if len(want.Below) == 0 {
		return steps
	}
	switch {
	case f.IsMap():
		for name, next := range want.Below {
			if step := p.value(f.MapValue(), next); step != nil {
				key, ok := keyOf(f.MapKey(), name)
				if !ok {
					continue
				}
				steps = append(steps, func(r *rows, m protoreflect.Message) {
					if values := m.Get(f).Map(); values.Has(key) {
						step(r, values.Get(key))
					}
				})
			}
		}
	case f.IsList():
		for place, next := range want.Below {
			i, err := strconv.Atoi(place)
			step := p.value(f, next)
			if err != nil || i < 0 || step == nil {
				continue
			}
			steps = append(steps, func(r *rows, m protoreflect.Message) {
				if values := m.Get(f).List(); i < values.Len() {
					step(r, values.Get(i))
				}
			})
		}
	case f.Message() != nil:
		within := p.message(f.Message(), want)
		steps = append(steps, func(r *rows, m protoreflect.Message) {
			if m.Has(f) {
				run(within, r, m.Get(f).Message())
			}
		})
	}
	return steps
}

// value returns the step for the wanted parts of a list or map value; nil: the schema has none of them.
func (p *program) value(f protoreflect.FieldDescriptor, want *message.Node) func(r *rows, v protoreflect.Value) {
	at := want.Column
	var within []step
	if f.Message() != nil {
		within = p.message(f.Message(), want)
	}
	if at < 0 && len(within) == 0 {
		return nil
	}
	leaf := leafOf(f)
	if at >= 0 {
		p.found[at] = true
	}
	return func(r *rows, v protoreflect.Value) {
		if at >= 0 {
			r.row[at] = leaf(v)
		}
		if within != nil {
			run(within, r, v.Message())
		}
	}
}

func run(steps []step, r *rows, m protoreflect.Message) {
	for _, step := range steps {
		step(r, m)
	}
}

// keyOf parses a map key.
func keyOf(f protoreflect.FieldDescriptor, name string) (key protoreflect.MapKey, ok bool) {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(name).MapKey(), true
	case protoreflect.BoolKind:
		v, err := strconv.ParseBool(name)
		return protoreflect.ValueOfBool(v).MapKey(), err == nil
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		v, err := strconv.ParseInt(name, 10, 32)
		return protoreflect.ValueOfInt32(int32(v)).MapKey(), err == nil
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		v, err := strconv.ParseInt(name, 10, 64)
		return protoreflect.ValueOfInt64(v).MapKey(), err == nil
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		v, err := strconv.ParseUint(name, 10, 32)
		return protoreflect.ValueOfUint32(uint32(v)).MapKey(), err == nil
	}
	v, err := strconv.ParseUint(name, 10, 64)
	return protoreflect.ValueOfUint64(v).MapKey(), err == nil
}

// rowsOf returns the step for the field with the rows: a list of messages, or a message.
func (p *program) rowsOf(f protoreflect.FieldDescriptor, want *message.Node) step {
	p.reached = true
	if f.Message() == nil || f.IsMap() {
		return func(r *rows, _ protoreflect.Message) {
			r.err = fmt.Errorf("examples.rows: %s is neither a message nor a list of messages", f.FullName())
		}
	}
	before := p.found
	p.found = map[int]bool{}
	steps := p.message(f.Message(), want)
	for at := range p.found {
		p.own[at], before[at] = true, true
	}
	p.found = before
	add := func(r *rows, m protoreflect.Message) {
		if len(r.all) >= r.most {
			r.err = message.TooManyRows(r.most)
			return
		}
		shared := r.row
		r.row = message.NextRow(&r.all, p.columns)
		run(steps, r, m)
		r.row = shared
	}
	return func(r *rows, m protoreflect.Message) {
		switch {
		case f.IsList():
			for i, list := 0, m.Get(f).List(); i < list.Len(); i++ {
				add(r, list.Get(i).Message())
			}
		case m.Has(f): // for example the state before the deletion of a row
			add(r, m.Get(f).Message())
		}
	}
}
