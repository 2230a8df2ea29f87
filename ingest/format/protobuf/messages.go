package protobuf

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/internal/option"
)

// Messages is Protobuf's binary encoding (https://protobuf.dev/programming-guides/encoding/) in messages, with a schema
// from a registry or a file.
func Messages() message.Format {
	return message.Format{
		Name:    "protobuf",
		Meaning: "a message in Protobuf's binary encoding, with the schema of `registry` or of the file `schema`",
		Label:   message.Label,
		Keys:    append(message.NamedKeys(), "schema", "registry.url"),
		Schema:  message.SchemaKind{Type: "PROTOBUF", Ending: ".proto", Named: true},
		Check:   func(o message.Options) []option.Problem { return message.CheckNamed(o) },
		Open: func(o message.Options) (message.Reader, error) {
			r := &messages{wanted: message.Want(o), options: o, programs: map[*message.Schema][]compiled{}}
			r.most = message.MaxRows(o.Options)
			if o.Schema == "" {
				return r, nil
			}
			file, err := compileFile(context.Background(), o.Schema)
			if err != nil {
				return nil, fmt.Errorf("examples.schema: %w", err)
			}
			of, err := named(file, o.Message)
			if err != nil {
				return nil, err
			}
			c := compiled{name: o.Schema, program: compile(of, r.wanted)}
			if err := r.check(&c); err != nil {
				return nil, err
			}
			r.programs[nil] = []compiled{c}
			return r, nil
		},
	}
}

// messages decodes messages.
type messages struct {
	options  message.Options
	wanted   *message.Wanted
	programs map[*message.Schema][]compiled // programs of the message types of a schema, as encountered
	rows
	last *program // of the last value; nil: none was read
}

// Names implements message.Reader. Fields of nested messages are not listed.
func (r *messages) Names() []string {
	if r.last == nil {
		return nil
	}
	return r.last.names
}

// compiled is a program or a compile error.
type compiled struct {
	*program
	name    string // name of the schema
	indexes []int
	err     error
}

// programOf returns the program of a message.
func (r *messages) programOf(ctx context.Context, m message.Payload) compiled {
	of := r.programs[m.Schema]
	for _, c := range of {
		if m.Schema == nil || slices.Equal(c.indexes, m.Indexes) {
			return c
		}
	}
	c := compiled{name: m.Schema.Name, indexes: slices.Clone(m.Indexes)}
	file, err := compileText(ctx, m.Schema)
	if err != nil {
		c.err = fmt.Errorf("%s: %w", c.name, err)
	} else if found, err := indexed(file, m.Indexes); err != nil {
		c.err = fmt.Errorf("%s: %w", c.name, err)
	} else {
		c.program = compile(found, r.wanted)
		c.err = r.check(&c)
	}
	if ctx.Err() == nil && len(of) < maxPrograms {
		r.programs[m.Schema] = append(of, c)
	}
	return c
}

// maxPrograms limits the message types of a schema that are cached, because untrusted messages may name any.
const maxPrograms = 1000

// check returns an error if a schema lacks the columns to predict, or the path of the rows.
func (r *messages) check(c *compiled) error {
	if c.within && !c.reached {
		return fmt.Errorf("%s: %w", c.name, message.NoRowsError(r.options.Rows, c.names))
	}
	for at := range message.Predicted(r.options.Options) {
		if !c.found[at] {
			return fmt.Errorf("%s: %w", c.name, message.NoColumnError(r.options.Options, at, c.names))
		}
	}
	return nil
}

// Read implements message.Reader.
func (r *messages) Read(ctx context.Context, m message.Payload) ([][]tabular.Cell, error) {
	p := r.programOf(ctx, m)
	if p.err != nil {
		return nil, p.err
	}
	r.last = p.program
	defer p.empty()
	read := p.read
	if err := unmarshal(m.Value, read); err != nil {
		p.read = dynamicpb.NewMessage(p.of) // its state after an error is undefined
		return nil, fmt.Errorf("%s: is it written with %s?", strings.ReplaceAll(err.Error(), "\u00a0", " "), p.name)
	}
	r.all, r.err = r.all[:0], nil
	if p.within {
		clear(p.shared)
		r.row = p.shared
	} else {
		r.row = message.NextRow(&r.all, p.columns)
	}
	run(p.steps, &r.rows, read)
	if p.within {
		for _, row := range r.all {
			for at := range row {
				if !p.own[at] {
					row[at] = p.shared[at]
				}
			}
		}
	}
	return r.all, r.err
}

// unmarshal decodes a message. The library panics on some inputs, such as a map entry with a second key of another wire
// type.
func unmarshal(value []byte, into proto.Message) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("proto: cannot parse invalid wire-format data: %v", cause)
		}
	}()
	// An unset required field is a missing value; checking for these takes a third of the time.
	return proto.UnmarshalOptions{Merge: true, AllowPartial: true, DiscardUnknown: true}.Unmarshal(value, into)
}
