// Package signature says what bytes are that hold no rows, or hold them in another form than expected, by how they begin, and turns text in
// other encodings into UTF-8:
//
//	first bytes ──Of──▶ what they are ──OfFile, OfValue──▶ what to do
//	bytes in latin-1, utf-16, … ──NewTextReader──▶ UTF-8
package signature

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Form is what bytes are, and how to get rows from them.
type Form struct {
	// Name says what they are, with an article if it needs one.
	Name string
	// Format is the value of examples.format for such files, Values that for such values of a topic; "": none.
	Format, Values string
	// Encoding is the value of examples.encoding for such a text; "": none is needed.
	Encoding string
	// Advice says what to do with a file, Send with a value of a topic, besides setting these keys.
	Advice, Send string
}

// Of returns the form of a file, given its first bytes, or of a value. ok is false if it is not in the table.
func Of(first []byte) (f Form, ok bool) {
	text, isText := begin(first), LooksLikeText(first)
	i := slices.IndexFunc(forms, func(s signature) bool {
		switch {
		case s.magic != "" && (isText || !bytes.HasPrefix(first, []byte(s.magic))): // the header of a CSV may start with ORC or PK
			return false
		case s.text != "" && (len(text) < len(s.text) || !strings.EqualFold(string(text[:len(s.text)]), s.text)):
			return false
		}
		return s.is == nil || s.is(first)
	})
	if i < 0 {
		return Form{}, false
	}
	return forms[i].Form, true
}

// OfFile says what to do with a file of this form; "" if the program reads it without keys. key is the name of a key under examples,
// as the user writes it.
func (f Form) OfFile(key func(name string) string) string { return f.do(key, f.Format, f.Advice) }

// OfValue says what to do with such values of a topic.
func (f Form) OfValue(key func(name string) string) string {
	send := f.Send
	if f.Values == "" && f.Encoding == "" {
		send = cmp.Or(send, sendRows)
	}
	return f.do(key, f.Values, send)
}

func (f Form) do(key func(name string) string, format, otherwise string) string {
	var ways []string
	for _, way := range [][2]string{{"format", format}, {"encoding", f.Encoding}} {
		if way[1] != "" {
			ways = append(ways, "set "+key(way[0])+": "+way[1])
		}
	}
	if otherwise != "" {
		ways = append(ways, otherwise)
	}
	return strings.Join(ways, ", or ")
}

// IsBinary reports whether bytes are no text in UTF-8 or in an encoding of single bytes.
func IsBinary(b []byte) bool {
	return bytes.IndexByte(b, 0) >= 0 || !LooksLikeText(b) && (!utf8.Valid(b) || !LooksLikeText(b[:min(len(b), 1)]))
}

// LooksLikeText reports whether all of the first bytes occur in text.
func LooksLikeText(first []byte) bool {
	return !bytes.ContainsFunc(first[:min(len(first), 512)], func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\r' && r != '\n' && r != '\f'
	})
}

// begin returns a text without the byte order mark and the spaces before it.
func begin(text []byte) []byte {
	return bytes.TrimLeft(bytes.TrimPrefix(text, []byte("\ufeff")), " \t\r\n")
}

// signature is how a form begins: with a magic number, which has bytes that no text has; with a text, in any case, behind a byte
// order mark and spaces; and with what a function accepts.
type signature struct {
	magic, text string
	is          func(first []byte) bool
	Form
}

// The formats of examples.format.
const (
	images     = "images"
	idx        = "idx"
	arrow      = "arrow"
	parquet    = "parquet"
	jsonLines  = "jsonl"
	jsonValues = "json"
)

const (
	sendRows   = "let the producer write JSON, CSV, Arrow, Avro or Protobuf"
	sendPlain  = "let the producer send plain values, and compress batches (`compression.type`), which consumers undo"
	sendRecord = "let the producer send the record alone, or with a schema registry, and set examples.format: avro"
	unpackTo   = ", or compress it with gzip, bzip2 or zstd"
	asTable    = "write the table as Parquet or CSV"
	asImages   = "convert it to PNG or JPEG"
	fetchAgain = "a server sent it instead of the file: download the file again"
)

// forms are in the order in which they are tried: the first file in a tar archive may have any name.
var forms = []signature{
	{is: IsTar, Form: Form{Name: "a tar archive", Format: images}},
	{magic: "\x89PNG\r\n\x1a\n", Form: Form{Name: "a PNG image", Format: images}},
	{is: prefix("\xff\xd8\xff"), Form: Form{Name: "a JPEG image", Format: images}},
	{is: isIDX, Form: Form{Name: "an idx file", Format: idx}},
	{is: prefix("ARROW1\x00\x00"), Form: Form{Name: "an Arrow file", Format: arrow, Values: arrow}},
	{is: prefix("\xff\xff\xff\xff"), Form: Form{Name: "an Arrow stream", Format: arrow, Values: arrow}},
	{is: prefix("PAR1"), Form: Form{Name: "a Parquet file", Format: parquet}},

	// Files are decompressed before: these are compressed twice.
	{is: packed("gzip"), Form: compressed("gzip", "it is compressed twice: decompress it with `gzip -d`")},
	{is: packed("zstd"), Form: compressed("zstd", "it is compressed twice: decompress it with `zstd -d`")},
	{is: packed("bzip2"), Form: compressed("bzip2", "it is compressed twice: decompress it with `bzip2 -d`")},
	{magic: "\xfd7zXZ\x00", Form: compressed("xz", "decompress it with `xz -d`"+unpackTo)},
	{magic: "\x04\x22\x4d\x18", Form: compressed("lz4", "decompress it with `lz4 -d`"+unpackTo)},
	{magic: "LZ4Block", Form: compressed("lz4", "decompress it"+unpackTo)},
	{magic: "\xff\x06\x00\x00sNaPpY", Form: compressed("snappy", "decompress it"+unpackTo)},
	{magic: "\x82SNAPPY\x00", Form: compressed("snappy", "decompress it"+unpackTo)},
	{is: isZlib, Form: compressed("zlib", "decompress it"+unpackTo)},
	{magic: "7z\xbc\xaf\x27\x1c", Form: Form{Name: "a 7z archive", Advice: "unpack it"}},
	{magic: "Rar!\x1a\x07", Form: Form{Name: "a RAR archive", Advice: "unpack it"}},
	{magic: "PK\x05\x06", Form: Form{Name: "an empty zip archive", Advice: "name the file that it should contain"}},
	{magic: "PK\x03\x04", is: holds(".npy"), Form: Form{Name: "arrays of numpy (.npz)", Advice: asColumns}},
	{magic: "PK\x03\x04", is: holds("data.pkl"), Form: Form{Name: "a file of PyTorch", Advice: asTable}},
	{magic: "PK\x03\x04", Form: Form{Name: "a zip archive, or a spreadsheet workbook",
		Advice: "unpack it with `unzip`, or save the sheet as CSV", Send: sendPlain}},

	{magic: "Obj\x01", Form: Form{Name: "an Avro file", Advice: "write it as Parquet or JSON Lines", Send: sendRecord}},
	{is: prefix("\xc3\x01"), Form: Form{Name: "Avro's single-object encoding", Advice: asTable, Send: sendRecord}},
	{magic: "ORC", Form: Form{Name: "an ORC file", Advice: "write it as Parquet"}},
	{magic: "FEA1", Form: Form{Name: "a Feather file of version 1",
		Advice: "write it as Arrow: `pyarrow.feather.write_feather(…, version=2)`"}},
	{magic: "SQLite format 3\x00", Form: Form{Name: "a SQLite database", Advice: "export a table as CSV"}},
	{is: at(8, "DUCK"), Form: Form{Name: "a DuckDB database", Advice: "export a table with `COPY … TO 'rows.parquet'`"}},
	{magic: "\x89HDF\r\n\x1a\n", Form: Form{Name: "an HDF5 file", Advice: "write the table as Parquet or Arrow"}},
	{magic: "CDF", Form: Form{Name: "a NetCDF file", Advice: asTable}},
	{magic: "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Form: Form{Name: "an old spreadsheet workbook", Advice: "save the sheet as CSV"}},
	{is: prefix("\x93NUMPY"), Form: Form{Name: "an array of numpy (.npy)", Advice: asColumns}},
	{is: isPickle, Form: Form{Name: "a pickle of Python", Advice: "write the rows as Parquet: `frame.to_parquet(…)`"}},
	{is: isRData, Form: Form{Name: "data of R", Advice: asTable}},
	{magic: "MATLAB 5.0 MAT-file", Form: Form{Name: "a MATLAB file", Advice: asTable}},
	{magic: "$FL2", Form: Form{Name: "an SPSS file", Advice: asTable}},
	{is: at(12, "\xc2\xea\x81\x60"), Form: Form{Name: "a SAS file", Advice: asTable}},
	{is: isStata, Form: Form{Name: "a Stata file", Advice: asTable}},
	{is: prefix("%PDF-"), Form: Form{Name: "a PDF document", Advice: asTable}},
	{magic: "GIF8", Form: Form{Name: "a GIF image", Advice: asImages}},
	{is: at(8, "WEBP"), Form: Form{Name: "a WebP image", Advice: asImages}},
	{magic: "II*\x00", Form: Form{Name: "a TIFF image", Advice: asImages}},
	{magic: "MM\x00*", Form: Form{Name: "a TIFF image", Advice: asImages}},
	{magic: "\x7fELF", Form: Form{Name: "a program", Advice: "name a file with rows"}},

	{is: prefix("\xac\xed\x00\x05"), Form: Form{Name: "an object serialized by Java", Advice: asTable}},
	{is: isGlue, Form: Form{Name: "the framing of the AWS Glue Schema Registry", Advice: asTable}},
	{is: prefix("\xd9\xd9\xf7"), Form: Form{Name: "CBOR", Advice: asTable}},
	{is: prefix(":)\n"), Form: Form{Name: "Smile, a binary form of JSON", Advice: asTable}},
	{is: prefix("\xe0\x01\x00\xea"), Form: Form{Name: "Amazon Ion", Advice: asTable}},
	{is: isBSON, Form: Form{Name: "BSON", Advice: "write it as JSON Lines, as with `mongoexport`"}},
	{is: isMessagePack, Form: Form{Name: "MessagePack", Advice: asTable}},
	{is: prefix("\xff\xfe\x00\x00"), Form: inUTF32()},
	{is: prefix("\x00\x00\xfe\xff"), Form: inUTF32()},
	{is: encodedIn("utf-16"), Form: inUTF16("utf-16")},
	{is: encodedIn("utf-16le"), Form: inUTF16("utf-16le")},
	{is: encodedIn("utf-16be"), Form: inUTF16("utf-16be")},

	{text: "version https://git-lfs.github.com/spec/",
		Form: Form{Name: "a pointer of Git LFS instead of the file", Advice: "fetch the file with `git lfs pull`"}},
	{text: "/annex/objects/", Form: Form{Name: "a pointer of git-annex instead of the file", Advice: "fetch the file with `git annex get`"}},
	{text: "outs:\n- md5:", Form: Form{Name: "a pointer of DVC instead of the file", Advice: "fetch the file with `dvc pull`, and name it"}},
	{text: "<!doctype html", Form: Form{Name: "an HTML page", Advice: fetchAgain}},
	{text: "<html", Form: Form{Name: "an HTML page", Advice: fetchAgain}},
	{text: "<head", Form: Form{Name: "an HTML page", Advice: fetchAgain}},
	{text: "<error>", Form: Form{Name: "an error message in XML", Advice: fetchAgain}},
	{text: "<?xml", Form: Form{Name: "an XML document",
		Advice: "write its rows as CSV, or, if it is the error message of a server, download the file again"}},
	{text: "sep=", Form: Form{Name: "a CSV whose first line names the delimiter, for spreadsheets", Advice: "remove the line: `sed -i 1d`"}},
	{text: "@relation", Form: Form{Name: "an ARFF file of Weka", Advice: "write it as CSV"}},
	{text: "{'", Form: Form{Name: "a dictionary of Python as text", Advice: "write it with `json.dumps`",
		Send: "let the producer write it with `json.dumps`"}},
	{is: isArrayOfObjects, Form: Form{Name: "a JSON array", Values: jsonValues, Advice: "write one object a line, as with `jq -c '.[]'`"}},
	{is: isArray, Form: Form{Name: "a JSON array without objects", Advice: "write it as CSV, as with `jq -r '.[] | @csv'`",
		Send: "let the producer write an object with the names of the columns, or CSV"}},
	{is: isObjectOfLines, Form: Form{Name: "JSON with objects over several lines", Values: jsonValues,
		Advice: "write one object a line, as with `jq -c .`, or `jq -c '.rows[]'` if the objects are in a member rows"}},
	{is: isObject, Form: Form{Name: "JSON", Format: jsonLines, Values: jsonValues}},
	{is: isQuotedJSON, Form: Form{Name: "JSON within a JSON text", Advice: "it was encoded twice: write the object itself",
		Send: "the producer encodes it twice: let it write the object itself"}},
	{is: isBase64JSON, Form: Form{Name: "JSON in Base64", Advice: "decode it with `base64 -d`",
		Send: "let the producer write the JSON itself"}},
}

const asColumns = "write it, with the labels, as columns of Parquet: `pandas.DataFrame(array).to_parquet(…)`"

func compressed(by, advice string) Form {
	return Form{Name: "compressed with " + by, Advice: advice, Send: sendPlain}
}

func inUTF16(encoding string) Form {
	return Form{Name: "text in UTF-16", Encoding: encoding, Advice: "convert it with `iconv -f " + strings.ToUpper(encoding) + " -t utf-8`",
		Send: "let the producer write UTF-8"}
}

func inUTF32() Form {
	return Form{Name: "text in UTF-32", Advice: "convert it with `iconv -f UTF-32 -t utf-8`", Send: "let the producer write UTF-8"}
}

func prefix(magic string) func([]byte) bool { return at(0, magic) }

func at(offset int, magic string) func([]byte) bool {
	return func(b []byte) bool { return len(b) >= offset && bytes.HasPrefix(b[offset:], []byte(magic)) }
}

// IsTar reports whether the first TarBytes bytes are those of an archive of POSIX or GNU tar.
func IsTar(b []byte) bool { return at(tarOffset, tarMagic)(b) }

const (
	tarOffset = 257
	tarMagic  = "ustar"
	// TarBytes is the number of bytes that IsTar needs.
	TarBytes = tarOffset + len(tarMagic)
)

// isIDX accepts two zeros, a type, and a number of dimensions.
func isIDX(b []byte) bool {
	return len(b) >= 4 && b[0] == 0 && b[1] == 0 && strings.IndexByte("\x08\x09\x0b\x0c\x0d\x0e", b[2]) >= 0 && b[3] > 0
}

// Compression returns the compression of a file, which may be cut off, given its first CompressionBytes bytes: "gzip" (RFC 1952), "bzip2"
// or "zstd" (RFC 8878); "": none of these.
func Compression(first []byte) string {
	switch {
	case prefix("\x1f\x8b")(first):
		return "gzip"
	case prefix("\x28\xb5\x2f\xfd")(first), isSkippable(first):
		return "zstd"
	case isBzip2(first):
		return "bzip2"
	}
	return ""
}

// CompressionBytes is the number of bytes that Compression needs.
const CompressionBytes = 10

func packed(by string) func([]byte) bool {
	return func(b []byte) bool { return Compression(b) == by }
}

// isSkippable accepts a frame that zstd skips, with which pzstd begins each of its parts.
func isSkippable(b []byte) bool {
	return len(b) >= 4 && b[0]&0xf0 == 0x50 && string(b[1:4]) == "\x2a\x4d\x18"
}

// isBzip2 accepts a level (1 to 9), and the magic of a block, the digits of π, or of the end of the stream, those of √π. BZh alone may
// begin a CSV.
func isBzip2(b []byte) bool {
	if len(b) < 4 || !prefix("BZh")(b) || b[3] < '1' || b[3] > '9' {
		return false
	}
	magic := string(b[4:min(len(b), CompressionBytes)])
	return strings.HasPrefix("\x31\x41\x59\x26\x53\x59", magic) || strings.HasPrefix("\x17\x72\x45\x38\x50\x90", magic)
}

// isZlib accepts the header of RFC 1950, without that of level 1 to 5, which is the text x^.
func isZlib(b []byte) bool { return prefix("x\x9c")(b) || prefix("x\xda")(b) || prefix("x\x01")(b) }

// holds accepts a zip archive whose first file has a name with this end.
func holds(end string) func([]byte) bool {
	return func(b []byte) bool {
		const header = 30
		if len(b) < header {
			return false
		}
		name := b[header:]
		return bytes.HasSuffix(name[:min(len(name), int(binary.LittleEndian.Uint16(b[26:])))], []byte(end))
	}
}

// isPickle accepts protocols 2 to 5.
func isPickle(b []byte) bool { return len(b) > 2 && b[0] == 0x80 && b[1] >= 2 && b[1] <= 5 }

func isRData(b []byte) bool {
	return prefix("RDX2\n")(b) || prefix("RDX3\n")(b) || prefix("X\n\x00\x00\x00")(b)
}

// isStata accepts the XML of version 117 and later, and a version from 113, a byte order, and the type of the file.
func isStata(b []byte) bool {
	return prefix("<stata_dta>")(b) || len(b) > 3 && b[0] >= 113 && b[0] <= 115 && (b[1] == 1 || b[1] == 2) && b[2] == 1 && b[3] == 0
}

// isGlue accepts a version, a compression, and a UUID.
func isGlue(b []byte) bool { return len(b) > 18 && b[0] == 3 && (b[1] == 0 || b[1] == 5) }

// isBSON accepts a document that has its length in front and a zero at its end.
func isBSON(b []byte) bool {
	if len(b) < 5 {
		return false
	}
	n := binary.LittleEndian.Uint32(b)
	return n >= 5 && uint64(n) <= uint64(len(b)) && b[n-1] == 0 && (b[4] > 0 && b[4] <= 0x13 || n == 5)
}

// isMessagePack accepts a map whose first key is a text.
func isMessagePack(b []byte) bool {
	switch {
	case len(b) > 3 && b[0] == 0xde: // with a length of two bytes
		b = b[3:]
	case len(b) > 1 && b[0] > 0x80 && b[0] <= 0x8f:
		b = b[1:]
	default:
		return false
	}
	n := int(b[0]) - 0xa0
	return n > 0 && n < 32 && len(b) > n && LooksLikeText(b[1:1+n])
}

func encodedIn(encoding string) func([]byte) bool {
	return func(b []byte) bool {
		if SniffEncoding(b) != encoding {
			return false
		}
		text, err := DecodeText(b[:len(b)&^1], encoding)
		return err == nil && LooksLikeText(text)
	}
}

// next returns the byte behind the first byte of a text, and spaces; 0: another first byte, or nothing behind it.
func next(text []byte, first byte) byte {
	if text = begin(text); len(text) == 0 || text[0] != first {
		return 0
	}
	if text = begin(text[1:]); len(text) == 0 {
		return 0
	}
	return text[0]
}

func isArrayOfObjects(b []byte) bool {
	at := bytes.IndexByte(b, '[')
	return next(b, '[') == '{' && isObject(b[at+1:])
}

// isArray accepts a whole array, or the beginning of an array of arrays. A CSV may begin with [1 2 3].
func isArray(b []byte) bool {
	whole := bytes.TrimSpace(begin(b))
	if next(b, '[') == 0 || json.Valid(whole) {
		return next(b, '[') != 0
	}
	d := json.NewDecoder(bytes.NewReader(whole[1:]))
	var inner json.RawMessage
	return next(b, '[') == '[' && d.Decode(&inner) == nil && d.More()
}

func isObject(b []byte) bool {
	c := next(b, '{')
	return c == '"' || c == '}'
}

// isObjectOfLines accepts an object with a line end in it.
func isObjectOfLines(b []byte) bool {
	if !isObject(b) {
		return false
	}
	text := begin(b)
	var first json.RawMessage
	err := json.NewDecoder(bytes.NewReader(text)).Decode(&first)
	if errors.Is(err, io.ErrUnexpectedEOF) { // it goes on behind these bytes
		line, _, wide := bytes.Cut(text, []byte("\n"))
		line = bytes.TrimSpace(line)
		return wide && strings.IndexByte("{[,", line[len(line)-1]) >= 0
	}
	return err == nil && bytes.IndexByte(first, '\n') >= 0
}

// isQuotedJSON accepts a JSON text with an object or an array in it.
func isQuotedJSON(b []byte) bool {
	var inner string
	return next(b, '"') != 0 && json.Unmarshal(begin(b), &inner) == nil && isContainer([]byte(inner))
}

func isBase64JSON(b []byte) bool {
	text := strings.TrimSpace(string(b))
	content, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	return err == nil && len(text) > 8 && isContainer(content)
}

// isContainer reports whether a text is a JSON object or array.
func isContainer(text []byte) bool {
	return (next(text, '{') != 0 || next(text, '[') != 0) && json.Valid(text)
}
