package parquet

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// booleans reads the pages of a column chunk of booleans. The library returns wrong values for those with the encoding RLE, which writers
// of data pages v2 use: it takes the lengths of runs as multiples of 8.
type booleans struct {
	parquet.Pages // nil: pages are read in order
	column        *parquet.Column
	from          *bufio.Reader
	headers       *thrift.Decoder
	size          int64 // of the chunk
}

func newBooleans(file io.ReaderAt, column *parquet.Column, chunk *format.ColumnMetaData) *booleans {
	b := &booleans{column: column, size: chunk.TotalCompressedSize}
	b.from = bufio.NewReader(io.NewSectionReader(file, chunk.DataPageOffset, b.size))
	b.headers = thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(b.from))
	return b
}

// Close implements io.Closer.
func (b *booleans) Close() error { return nil }

// ReadPage implements parquet.PageReader.
func (b *booleans) ReadPage() (parquet.Page, error) {
	var header format.PageHeader
	if err := b.headers.Decode(&header); err != nil {
		return nil, err
	}
	if size := header.CompressedPageSize; size < 0 || int64(size) > b.size {
		return nil, errOtherValues
	}
	content := make([]byte, header.CompressedPageSize)
	if _, err := io.ReadFull(b.from, content); err != nil {
		return nil, err
	}
	if header.CRC != 0 && uint32(header.CRC) != crc32.ChecksumIEEE(content) {
		return nil, fmt.Errorf("a page has another checksum: %w", parquet.ErrCorrupted)
	}
	p := &booleanPage{column: b.column}
	if header.Type == format.DataPageV2 {
		return p, p.readV2(header.DataPageHeaderV2.V, content)
	}
	return p, p.readV1(header.DataPageHeader.V, content)
}

// booleanPage has the values of a page.
type booleanPage struct {
	parquet.Page // nil: its values are read one by one
	column       *parquet.Column
	left         int    // number of values that were not read yet, with nulls
	repetition   []byte // levels of these values; nil: all are 0
	definition   []byte
	values       []byte // 0 or 1, without nulls
}

// readV1 decodes a data page v1: levels with their size before them and values are compressed together.
func (p *booleanPage) readV1(header format.DataPageHeader, content []byte) (err error) {
	if content, err = p.column.Compression().Decode(nil, content); err != nil {
		return err
	}
	levels := func(most int) (levels []byte) {
		if most == 0 || err != nil {
			return nil
		}
		var size []byte
		if size, content, err = cut(content, 4); err == nil {
			levels, content, err = cut(content, int64(binary.LittleEndian.Uint32(size)))
		}
		return levels
	}
	repetition, definition := levels(p.column.MaxRepetitionLevel()), levels(p.column.MaxDefinitionLevel())
	if err != nil {
		return err
	}
	return p.decode(int(header.NumValues), repetition, definition, content, header.Encoding)
}

// readV2 decodes a data page v2: the values alone are compressed.
func (p *booleanPage) readV2(header format.DataPageHeaderV2, content []byte) error {
	repetition, content, err := cut(content, int64(header.RepetitionLevelsByteLength))
	if err != nil {
		return err
	}
	definition, content, err := cut(content, int64(header.DefinitionLevelsByteLength))
	if compressed := !header.IsCompressed.Valid || header.IsCompressed.V; err == nil && compressed && len(content) > 0 {
		content, err = p.column.Compression().Decode(nil, content)
	}
	if err != nil {
		return err
	}
	return p.decode(int(header.NumValues), repetition, definition, content, header.Encoding)
}

// cut returns the first n bytes, and the others.
func cut(content []byte, n int64) (first, others []byte, err error) {
	if n < 0 || n > int64(len(content)) {
		return nil, nil, errOtherValues
	}
	return content[:n], content[n:], nil
}

// decode decodes the levels and the values.
func (p *booleanPage) decode(count int, repetition, definition, values []byte, encoding format.Encoding) (err error) {
	p.left = count
	if p.repetition, err = runs(repetition, p.column.MaxRepetitionLevel(), count); err != nil {
		return err
	}
	if p.definition, err = runs(definition, p.column.MaxDefinitionLevel(), count); err != nil {
		return err
	}
	for _, level := range p.definition {
		if int(level) < p.column.MaxDefinitionLevel() {
			count--
		}
	}
	switch {
	case count == 0:
	case encoding == format.Plain && (count+7)/8 <= len(values):
		p.values = make([]byte, count)
		for i := range p.values {
			p.values[i] = values[i/8] >> (i % 8) & 1
		}
	case encoding == format.RLE:
		if _, values, err = cut(values, 4); err == nil { // their size
			p.values, err = runs(values, 1, count)
		}
	default:
		err = fmt.Errorf("booleans with the encoding %s: %w", encoding, errOtherValues)
	}
	return err
}

// runs decodes levels or values up to most with the encoding RLE; nil if most is 0.
func runs(encoded []byte, most, count int) ([]byte, error) {
	if most == 0 {
		return nil, nil
	}
	all, err := (&rle.Encoding{BitWidth: bits.Len(uint(most))}).DecodeLevels(nil, encoded)
	if err == nil && (count < 0 || len(all) < count) {
		err = errOtherValues
	}
	if err != nil {
		return nil, err
	}
	return all[:count], nil
}

// Values implements parquet.Page.
func (p *booleanPage) Values() parquet.ValueReader { return p }

// ReadValues implements parquet.ValueReader.
func (p *booleanPage) ReadValues(to []parquet.Value) (int, error) {
	first := func(all *[]byte, otherwise int) int {
		if len(*all) == 0 {
			return otherwise
		}
		level := (*all)[0]
		*all = (*all)[1:]
		return int(level)
	}
	to = to[:min(len(to), p.left)]
	if p.left -= len(to); len(to) == 0 {
		return 0, io.EOF
	}
	most := p.column.MaxDefinitionLevel()
	for i := range to {
		v, repetition, definition := parquet.NullValue(), first(&p.repetition, 0), first(&p.definition, most)
		if definition == most {
			v = parquet.BooleanValue(first(&p.values, 0) == 1)
		}
		to[i] = v.Level(repetition, definition, p.column.Index())
	}
	return len(to), nil
}
