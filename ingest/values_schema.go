package ingest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/format/typed"
	"github.com/stagewise/stagewise/internal/signature"
)

// rowsOf returns the rows of a message.
func (v opened) rowsOf(ctx context.Context, m TopicMessage) ([][]tabular.Cell, error) {
	switch {
	case m.rows != nil:
		return m.rows, nil
	case m.Row != nil:
		return v.reader.ReadRow(*m.Row)
	}
	if len(m.Value) == 0 && m.Key != "" {
		return nil, nil // a tombstone, as change data capture writes after a deletion
	}
	if len(m.Value) == 0 {
		return nil, fmt.Errorf("an empty value: expected %s", cmp.Or(v.format.Values, v.format.Meaning))
	}
	p, err := v.payload(ctx, m)
	if err != nil {
		return nil, err
	}
	if v.whole.Encoding != "" && v.format.IsText {
		if p.Value, err = signature.DecodeText(p.Value, v.whole.Encoding); err != nil {
			return nil, fmt.Errorf("%w, which examples.encoding expects", err)
		}
	}
	if v.format.IsText {
		p.Value = bytes.TrimPrefix(p.Value, []byte("\ufeff")) // as for files
	}
	return v.reader.Read(ctx, p)
}

// explain replaces the reason why a message is unusable if its value is not of the format.
func (v opened) explain(ctx context.Context, err error, m TopicMessage) error {
	if unusable, _ := Unusable(err); err == nil || ctx.Err() != nil || !unusable || m.Row != nil {
		return err
	}
	key := func(name string) string { return cmp.Or(v.under, "examples") + "." + name }
	id, _, framed := format.Framed(m.Value)
	form, known := signature.Of(m.Value)
	if v.under != "" {
		form.Encoding = "" // outcomes have no such key
	}
	switch {
	case known && form.Values == v.format.Name || form.Encoding != "" && v.whole.Encoding != "":
		return err
	case known && !(framed && form.Format != ""): // a frame may begin as idx does
		return fmt.Errorf("%s: %s", form.Name, form.OfValue(key))
	case framed && v.schemas == nil && v.format.Schema.Type != "":
		return fmt.Errorf("%w It begins with the prefix of schema registry serializers and the schema ID %s: set %s", err, id,
			key("registry.url"))
	case v.format.IsText && v.whole.Encoding == "" && !framed && signature.IsBinary(m.Value):
		return fmt.Errorf("binary data: set %s to what the producer writes: %s", key("format"),
			formatNames("", "or", func(f format.Format) bool { return f.IsOfMessages() && !f.IsText }))
	}
	return err
}

// payload returns the value of a message without framing, with its schema if a registry has it.
func (v opened) payload(ctx context.Context, m TopicMessage) (p format.Payload, err error) {
	kind := v.format.Schema
	if v.schemas == nil {
		if id, _, framed := format.Framed(m.Value); framed && kind.Type == "" && !v.format.Unframed {
			return p, fmt.Errorf("it begins with the prefix of schema registry serializers (a zero byte and the schema ID %s): expected %s: "+
				"set examples.registry.url, or configure the producer without a registry", id, cmp.Or(v.format.Values, v.format.Meaning))
		}
		return format.Payload{Value: m.Value}, nil
	}
	p.Value = m.Value
	indexes := []byte(nil)
	var id format.SchemaID
	if m.SchemaID != "" {
		if id, indexes, err = format.FramedHeader(m.SchemaID); err != nil {
			return p, err
		}
	} else {
		framed := false
		if id, p.Value, framed = format.Framed(m.Value); !framed {
			return p, fmt.Errorf("no schema ID, neither before the value nor in the header %s: configure the producer with the registry, "+
				"or remove examples.registry%s", format.SchemaHeader, orSetSchema(kind))
		}
	}
	if kind.Type == "" {
		return p, nil
	}
	if p.Schema, err = v.schemas.Schema(ctx, id); err != nil {
		return p, err
	}
	if p.Schema.Type != kind.Type {
		return p, fmt.Errorf("%s is %s: expected %s, because examples.format is %s", p.Schema.Name, p.Schema.Type, kind.Type, v.format.Name)
	}
	if kind.Named {
		if len(indexes) > 0 {
			p.Indexes, _, err = typed.Indexes(indexes)
		} else {
			p.Indexes, p.Value, err = typed.Indexes(p.Value)
		}
	}
	return p, err
}

// orSetSchema returns the alternative to a registry, for errors.
func orSetSchema(kind format.SchemaKind) string {
	if kind.Type == "" {
		return ""
	}
	return ", and set examples.schema"
}

// Unusable reports whether an error of Add is due to the message, which is then quarantined. Any other error is due to its file in an
// archive, or to the schema registry: away means that the registry is unavailable.
func Unusable(err error) (unusable, away bool) {
	of, is := errors.AsType[*format.RegistryError](err)
	return !is && !errors.As(err, new(*changedError)), is && of.Away
}
