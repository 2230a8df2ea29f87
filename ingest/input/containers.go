package input

import (
	"bytes"
	"fmt"
)

// containers are the magic numbers of unsupported container formats, with advice.
var containers = []struct{ magic, name, advice string }{
	{"\xfd7zXZ\x00", "compressed with xz", "decompress it with `xz -d`, or compress it with gzip, bzip2 or zstd"},
	{"PK\x03\x04", "a zip archive, or a spreadsheet workbook", "unpack it with `unzip`, or save the sheet as CSV"},
	{"PK\x05\x06", "an empty zip archive", "name the file that it should contain"},
	{"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it"},
	{"\x04\x22\x4d\x18", "compressed with lz4", "decompress it with `lz4 -d`, or compress it with gzip, bzip2 or zstd"},
	{"\xff\x06\x00\x00sNaPpY", "compressed with snappy", "decompress it, or compress it with gzip, bzip2 or zstd"},
	{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old spreadsheet workbook", "save the sheet as CSV"},
	{"SQLite format 3\x00", "a SQLite database", "export a table as CSV"},
	{"\x89HDF\r\n\x1a\n", "an HDF5 file", "write the table as Parquet or Arrow"},
	{"FEA1", "a Feather file of version 1", "write it as Arrow: `pyarrow.feather.write_feather(…, version=2)`"},
	{"Obj\x01", "an Avro file", "write it as Parquet or JSON Lines"},
	{"ORC", "an ORC file", "write it as Parquet"},
}

// containerBytes is the number of bytes needed for the longest magic number.
const containerBytes = 16

// contained returns an error with advice if the first bytes are those of a container. A CSV header may start with ORC or
// PK.
func contained(first []byte) error {
	for _, c := range containers {
		if bytes.HasPrefix(first, []byte(c.magic)) && !LooksLikeText(first) {
			return fmt.Errorf("%s: %s", c.name, c.advice)
		}
	}
	return nil
}

// LooksLikeText reports whether all bytes occur in text.
func LooksLikeText(first []byte) bool {
	return !bytes.ContainsFunc(first[:min(len(first), 512)], func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\r' && r != '\n' && r != '\f'
	})
}
