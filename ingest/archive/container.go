package archive

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	avromessages "github.com/stagewise/stagewise/ingest/format/avro"
)

// datums are the rows of a file in Avro.
type datums interface {
	// Schema returns the schema of the rows.
	Schema() string
	// Next returns the next row; io.EOF after the last.
	Next() ([]byte, error)
	io.Closer
}

// container is an Avro object container file. The library decodes its blocks; the rows are taken from them as bytes.
type container struct {
	file  *ocf.Reader
	rows  *avro.Schema
	block []byte // rows that are not returned yet
}

// openContainer reads the header of a container file.
func openContainer(r io.Reader) (*container, error) {
	c := &container{}
	zstd, err := ocf.ZstdCodec(nil, nil)
	if err != nil {
		return nil, err
	}
	options := []ocf.ReaderOpt{ocf.WithSchemaOpts(avromessages.AnyNames()), ocf.WithDecodeOpts(avro.SkipUnknown())}
	for _, codec := range []ocf.Codec{plain{}, ocf.DeflateCodec(1), ocf.SnappyCodec(), zstd} {
		options = append(options, ocf.WithCodec(&captured{codec, &c.block}))
	}
	if c.file, err = ocf.NewReader(r, options...); err != nil {
		return nil, err
	}
	c.rows = c.file.Schema()
	return c, nil
}

func (c *container) Schema() string { return string(c.file.Metadata()["avro.schema"]) }

func (c *container) Close() error { return c.file.Close() }

func (c *container) Next() ([]byte, error) {
	var none struct{}
	if err := c.file.Decode(&none); err != nil {
		return nil, err
	}
	rest, err := c.rows.Decode(c.block, &none, avro.SkipUnknown())
	if err != nil {
		return nil, err
	}
	row := c.block[:len(c.block)-len(rest)]
	c.block = rest
	return bytes.Clone(row), nil
}

// captured is a codec that keeps the last block.
type captured struct {
	ocf.Codec
	block *[]byte
}

// DecompressBounded implements ocf.BoundedDecompressor.
func (c *captured) DecompressBounded(src []byte, most int64) (plain []byte, err error) {
	plain, err = c.Codec.(ocf.BoundedDecompressor).DecompressBounded(src, most)
	*c.block = plain
	return plain, err
}

// plain is the codec of blocks that are not compressed.
type plain struct{}

func (plain) Name() string                                          { return "null" }
func (plain) Compress(src []byte) ([]byte, error)                   { return src, nil }
func (plain) Decompress(src []byte) ([]byte, error)                 { return src, nil }
func (plain) DecompressBounded(src []byte, _ int64) ([]byte, error) { return src, nil }
func (plain) Close() error                                          { return nil }

// fields reads some fields of rows, and skips the others.
type fields struct {
	rows  *avro.Schema
	found [properties]string
	to    reflect.Value // a pointer to a struct with a field for each name
	at    [properties]int
}

// newFields returns a reader of the properties that rows of a schema have in columns.
func newFields(schema string, columns [properties][]string) (*fields, error) {
	rows, err := avro.Parse(schema, avromessages.AnyNames())
	if err != nil {
		return nil, err
	}
	f := &fields{rows: rows}
	var members []reflect.StructField
	for property, names := range columns {
		for _, name := range slices.Backward(names) {
			if slices.ContainsFunc(rows.Root().Fields, func(field avro.SchemaField) bool { return field.Name == name }) {
				f.found[property] = name
			}
		}
		name := f.found[property]
		if name == "" || property == atValue && !isText(rows.Root(), name) {
			f.at[property] = -1
			continue
		}
		f.at[property] = len(members)
		members = append(members, reflect.StructField{Name: fmt.Sprint("F", property), Type: reflect.TypeFor[any](),
			Tag: reflect.StructTag(fmt.Sprintf("avro:%q", name))})
	}
	f.to = reflect.New(reflect.StructOf(members))
	return f, nil
}

// isText reports whether a field has texts or bytes, or nulls.
func isText(record *avro.SchemaNode, name string) bool {
	is := func(t string) bool { return t == "string" || t == "bytes" }
	for _, field := range record.Fields {
		if field.Name == name {
			return is(field.Type.Type) || slices.ContainsFunc(field.Type.Branches, func(b avro.SchemaNode) bool { return is(b.Type) })
		}
	}
	return false
}

// read returns the properties of a row that are columns.
func (f *fields) read(row []byte) (values [properties]any, err error) {
	f.to.Elem().SetZero()
	if _, err = f.rows.Decode(row, f.to.Interface(), avro.SkipUnknown()); err != nil {
		return values, err
	}
	for property, at := range f.at {
		if at >= 0 {
			values[property] = f.to.Elem().Field(at).Interface()
		}
	}
	return values, nil
}
