package avro

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/hamba/avro/v2"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/internal/option"
)

// Messages is Avro's binary encoding (https://avro.apache.org/docs/1.12.0/specification/) in messages: a record, with a
// schema from a registry or a file. With both, the file provides defaults and aliases of fields that the writer schema
// lacks.
func Messages() message.Format {
	return message.Format{
		Name:    "avro",
		Meaning: "a record in Avro's binary encoding, with the schema of `registry` or of the file `schema`",
		Label:   message.Label,
		Keys:    append(message.NamedKeys(), "schema", "registry.url"),
		Schema:  message.SchemaKind{Type: "AVRO", Ending: ".avsc", Beside: true},
		Check:   func(o message.Options) []option.Problem { return message.CheckNamed(o) },
		Open: func(o message.Options) (message.Reader, error) {
			r := &messages{wanted: message.Want(o), options: o, programs: map[*message.Schema]compiled{}}
			r.most = message.MaxRows(o.Options)
			if o.Schema == "" {
				return r, nil
			}
			text, err := os.ReadFile(o.Schema)
			if err == nil {
				r.ours, err = parse(&message.Schema{Text: string(text)})
			}
			if err != nil {
				return nil, fmt.Errorf("examples.schema: %s: %w", o.Schema, err)
			}
			r.programs[nil], r.file = r.compile(&message.Schema{Name: o.Schema}, r.ours, nil), o.Schema
			return r, r.programs[nil].err
		},
	}
}

var errDeep = fmt.Errorf("nested values, more than %d deep", maxDepth)

// messages reads records.
type messages struct {
	options  message.Options
	wanted   *message.Wanted
	file     string      // file of the reader schema; "": none
	ours     avro.Schema // the reader schema
	programs map[*message.Schema]compiled
	decoder
	last *program // of the last value; nil: none was read
}

// Names implements message.Reader. Fields of nested records are not listed.
func (r *messages) Names() []string {
	if r.last == nil {
		return nil
	}
	return r.last.names
}

// compiled is a program or a compile error.
type compiled struct {
	*program
	name string
	err  error
}

// parse parses a schema with its references.
func parse(s *message.Schema) (schema avro.Schema, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the schema is damaged: %v", cause)
		}
	}()
	if text := strings.TrimSpace(s.Text); strings.HasPrefix(text, "{") && !json.Valid([]byte(text)) {
		return nil, errors.New("avro: the schema is not JSON") // the library would parse it as a type name
	}
	types := &avro.SchemaCache{}
	for _, r := range s.References {
		if _, err := avro.ParseWithCache(r.Text, "", types); err != nil {
			return nil, fmt.Errorf("the reference %s: %w", r.Name, err)
		}
	}
	return avro.ParseWithCache(s.Text, "", types)
}

// programOf returns the program of a registry schema, or of the file for nil.
func (r *messages) programOf(s *message.Schema) compiled {
	p, known := r.programs[s]
	if !known {
		schema, err := parse(s)
		if err != nil {
			p = compiled{err: fmt.Errorf("%s: %w", s.Name, err)}
		} else {
			p = r.compile(s, schema, r.ours)
		}
		r.programs[s] = p
	}
	return p
}

// compile compiles a schema, which must have the columns to predict, and the path of the rows if there is one.
func (r *messages) compile(s *message.Schema, writer, ours avro.Schema) compiled {
	p := compile(writer, ours, r.wanted)
	c := compiled{program: p, name: s.Name}
	if c.within && !p.reached {
		c.err = fmt.Errorf("%s: %w", s.Name, message.NoRowsError(r.options.Rows, p.names))
		return c
	}
	for at := range message.Predicted(r.options.Options) {
		if c.err = nil; !p.found[at] {
			c.err = fmt.Errorf("%s: %w", s.Name, message.NoColumnError(r.options.Options, at, p.names))
			return c
		}
	}
	return c
}

// Read implements message.Reader.
func (r *messages) Read(_ context.Context, m message.Payload) ([][]tabular.Cell, error) {
	p := r.programOf(m.Schema)
	if p.err != nil {
		return nil, p.err
	}
	r.last = p.program
	r.cursor, r.depth, r.rows = cursor{rest: m.Value}, 0, r.rows[:0]
	if p.within {
		copy(p.shared, p.preset)
		r.row = p.shared
	} else {
		r.row = message.NextRow(&r.rows, p.columns)
		copy(r.row, p.preset)
	}
	p.run(&r.decoder)
	if r.err == nil && len(r.rest) > 0 {
		r.err = fmt.Errorf("%d bytes behind the value", len(r.rest))
	}
	if r.err != nil {
		return nil, fmt.Errorf("%w: is it written with %s?", r.err, p.name)
	}
	if p.within {
		for _, row := range r.rows {
			for at := range row {
				if !p.own[at] {
					row[at] = p.shared[at]
				}
			}
		}
	}
	return r.rows, nil
}
