package parquet

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// pages reads the pages of a column chunk for which the library returns wrong values without an error, both in files with data pages v2:
//   - of booleans with the encoding RLE it takes the lengths of runs as multiples of 8;
//   - of int32 with the encoding DELTA_BINARY_PACKED it cuts differences of more than 32 bits, as DuckDB writes them.
type pages struct {
	parquet.Pages // nil: its other methods are not called
	column        *parquet.Column
	from          *bufio.Reader
	headers       *thrift.Decoder
	size          int64 // of the chunk
}

// decodes reports whether the library does not decode a chunk.
func decodes(chunk *format.ColumnMetaData) bool {
	isDelta := slices.Contains(chunk.Encoding, format.DeltaBinaryPacked) && chunk.DictionaryPageOffset == 0
	return chunk.Type == format.Boolean || chunk.Type == format.Int32 && isDelta
}

func newPages(file io.ReaderAt, column *parquet.Column, chunk *format.ColumnMetaData) *pages {
	p := &pages{column: column, size: chunk.TotalCompressedSize}
	p.from = bufio.NewReader(io.NewSectionReader(file, chunk.DataPageOffset, p.size))
	p.headers = thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(p.from))
	return p
}

// Close implements io.Closer.
func (p *pages) Close() error { return nil }

// ReadPage implements parquet.PageReader.
func (p *pages) ReadPage() (parquet.Page, error) {
	var header format.PageHeader
	if err := p.headers.Decode(&header); err != nil {
		return nil, err
	}
	if size := header.CompressedPageSize; size < 0 || int64(size) > p.size {
		return nil, errOtherValues
	}
	content := make([]byte, header.CompressedPageSize)
	if _, err := io.ReadFull(p.from, content); err != nil {
		return nil, err
	}
	if header.CRC != 0 && uint32(header.CRC) != crc32.ChecksumIEEE(content) {
		return nil, fmt.Errorf("a page has another checksum: %w", parquet.ErrCorrupted)
	}
	d := &decoded{column: p.column, kind: p.column.Type().Kind()}
	if header.Type == format.DataPageV2 {
		return d, d.readV2(header.DataPageHeaderV2.V, content)
	}
	return d, d.readV1(header.DataPageHeader.V, content)
}

// decoded has the values of a page.
type decoded struct {
	parquet.Page // nil: its other methods are not called
	column       *parquet.Column
	kind         parquet.Kind
	count        int    // number of values, with nulls
	repetition   []byte // levels of these values; nil: all are 0
	definition   []byte
	values       []int32 // without nulls; booleans are 0 or 1
	read, nulls  int     // number of values that were read, and of nulls among them
}

// readV1 decodes a data page v1: levels with their size before them and values are compressed together.
func (p *decoded) readV1(header format.DataPageHeader, content []byte) (err error) {
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
func (p *decoded) readV2(header format.DataPageHeaderV2, content []byte) error {
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
func (p *decoded) decode(count int, repetition, definition, values []byte, of format.Encoding) (err error) {
	p.count = count
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
	if count > 0 {
		p.values, err = p.numbers(values, of, count)
	}
	return err
}

// numbers decodes values that are not null.
func (p *decoded) numbers(encoded []byte, of format.Encoding, count int) (all []int32, err error) {
	switch {
	case of == format.Plain && p.kind == parquet.Boolean && (count+7)/8 <= len(encoded):
		for i := range count {
			all = append(all, int32(encoded[i/8]>>(i%8)&1))
		}
	case of == format.Plain && p.kind == parquet.Int32 && 4*count <= len(encoded):
		for i := range count {
			all = append(all, int32(binary.LittleEndian.Uint32(encoded[4*i:])))
		}
	case of == format.RLE && p.kind == parquet.Boolean:
		if _, encoded, err = cut(encoded, 4); err == nil { // their size
			encoded, err = runs(encoded, 1, count)
		}
		for _, v := range encoded {
			all = append(all, int32(v))
		}
	case of == format.DeltaBinaryPacked && p.kind == parquet.Int32:
		var wide []int64
		if wide, err = new(delta.BinaryPackedEncoding).DecodeInt64(nil, encoded); err == nil && len(wide) < count {
			err = errOtherValues
		}
		for _, v := range wide {
			all = append(all, int32(v)) // some writers compute differences in 32 bits
		}
	default:
		err = fmt.Errorf("values with the encoding %s: %w", of, errOtherValues)
	}
	return all, err
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

// NumValues implements parquet.Page.
func (p *decoded) NumValues() int64 { return int64(p.count) }

// DefinitionLevels implements parquet.Page.
func (p *decoded) DefinitionLevels() []byte { return p.definition }

// Data implements parquet.Page.
func (p *decoded) Data() encoding.Values { return encoding.Int32Values(p.values) }

// Dictionary implements parquet.Page.
func (p *decoded) Dictionary() parquet.Dictionary { return nil }

// Values implements parquet.Page.
func (p *decoded) Values() parquet.ValueReader { return p }

// ReadValues implements parquet.ValueReader.
func (p *decoded) ReadValues(to []parquet.Value) (n int, err error) {
	level := func(all []byte, otherwise int) int {
		if all == nil {
			return otherwise
		}
		return int(all[p.read])
	}
	most := p.column.MaxDefinitionLevel()
	for ; n < len(to) && p.read < p.count; n++ {
		v, repetition, definition := parquet.NullValue(), level(p.repetition, 0), level(p.definition, most)
		if definition < most {
			p.nulls++
		} else if v = parquet.Int32Value(p.values[p.read-p.nulls]); p.kind == parquet.Boolean {
			v = parquet.BooleanValue(v.Int32() == 1)
		}
		to[n] = v.Level(repetition, definition, p.column.Index())
		p.read++
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
