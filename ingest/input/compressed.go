package input

import (
	"bufio"
	"compress/bzip2"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/stagewise/stagewise/internal/signature"
	"github.com/stagewise/stagewise/schemas/wire"
)

// readSize is the number of bytes per system call.
const readSize = 1 << 16

// Content is the decompressed content of an open file. Its errors are io.EOF and *Error.
type Content struct {
	*bufio.Reader
	Name string
	Kind string     // compression: "gzip", "bzip2", "zstd"; "": none
	File *fileBytes // as stored
	// Value is the content if it is in memory; nil: it is read.
	Value []byte
	// Reserve reserves memory for what the rows of an Arrow stream unpack to, before they are unpacked. Its error ends the
	// stream. nil: the limits are those of files.
	Reserve func(Unpacked) error
	Path    []Partition // partition values from directory names
	Decoded bool        // decoded from another encoding
	unzip   *zstd.Decoder
}

// Unpacked is what rows unpack to, in addition to the bytes that were sent.
type Unpacked struct {
	Buffers int // decompressed bytes
	Texts   int // bytes of the texts of all rows: those of a dictionary count for each row that has them
	Values  int // values of sparse rows
}

// New detects the compression by the first bytes, not by the name, since files are often decompressed without being
// renamed.
func New(ctx context.Context, name string, file io.ReadCloser) (*Content, error) {
	raw := &fileBytes{ReadCloser: file, ctx: ctx, sum: sha256.New()}
	packed := bufio.NewReaderSize(raw, readSize)
	plain := &decompressed{name: name, file: raw, packed: packed, from: packed}
	magic, err := packed.Peek(len(bzip2First))
	if err != nil && err != io.EOF {
		return nil, WholeFile(name, err)
	}
	switch first := string(magic); {
	case strings.HasPrefix(first, gzipMagic):
		plain.kind = "gzip"
		unzip, err := gzip.NewReader(packed)
		if err != nil {
			return nil, plain.fail(err)
		}
		plain.from = unzip
	case isBzip2(first):
		plain.kind = "bzip2"
		plain.from = bzip2.NewReader(packed)
	case strings.HasPrefix(first, zstdMagic):
		plain.kind = "zstd"
		unzip, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, plain.fail(err)
		}
		plain.from = unzip
		return &Content{Reader: bufio.NewReaderSize(plain, readSize), Name: name, Kind: plain.kind, File: raw, unzip: unzip}, nil
	}
	return &Content{Reader: bufio.NewReaderSize(plain, readSize), Name: name, Kind: plain.kind, File: raw}, nil
}

// DecodeText converts the rest of the content to UTF-8.
func (c *Content) DecodeText(from string) {
	c.Reader, c.Decoded = bufio.NewReaderSize(&encoded{name: c.Name, from: signature.NewTextReader(c.Reader, from)}, readSize), true
}

// encoded reads decoded text, and adds the file to its errors.
type encoded struct {
	name string
	from io.Reader
}

func (e *encoded) Read(p []byte) (int, error) {
	n, err := e.from.Read(p)
	if errors.As(err, new(*signature.EncodingError)) {
		err = WholeFile(e.name, fmt.Errorf("%w, which examples.encoding expects", err))
	}
	return n, err
}

func (c *Content) Close() error {
	if c.unzip != nil {
		c.unzip.Close()
	}
	return c.File.Close()
}

// Digest is the sha256 of the bytes of the file read so far, which are all of them once Read has returned io.EOF.
func (c *Content) Digest() wire.Digest {
	return wire.Digest(hex.EncodeToString(c.File.sum.Sum(nil)))
}

// Bytes is the number of bytes of the file read so far: see Digest.
func (c *Content) Bytes() int64 { return c.File.read }

const (
	gzipMagic  = "\x1f\x8b" // RFC 1952, 2.3.1
	bzip2First = "BZh9\x31\x41\x59\x26\x53\x59"
	zstdMagic  = "\x28\xb5\x2f\xfd" // RFC 8878, 3.1.1
	bzip2Empty = "BZh9\x17\x72\x45\x38\x50\x90"
)

// maxZstdWindow limits the memory that a file may request: by default, `zstd -d` rejects larger windows too.
const maxZstdWindow = 128 << 20

// isBzip2 reports whether a file starts like bzip2. The magic "BZh" is not sufficient, because a CSV may start with it.
// After the level (1 to 9) comes the magic of a block, the digits of π, or of the end of the stream, those of √π.
func isBzip2(first string) bool {
	if len(first) < 4 || first[3] < '1' || first[3] > '9' {
		return false
	}
	first = first[:min(len(first), len(bzip2First))]
	n := len(first) // shorter than the magic if the file is truncated
	return first[:3] == bzip2First[:3] && (first[4:] == bzip2First[4:n] || first[4:] == bzip2Empty[4:n])
}

// fileBytes reads a file, counts its bytes and digests them. It fails once the context has ended.
type fileBytes struct {
	io.ReadCloser
	ctx  context.Context
	read int64 // number of bytes so far
	sum  hash.Hash
}

func (f *fileBytes) Read(p []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := f.ReadCloser.Read(p)
	f.read += int64(n)
	f.sum.Write(p[:n])
	return n, err
}

// decompressed reads through a decompressor and adds the file and the offset to its errors.
type decompressed struct {
	name   string
	kind   string // "gzip", "bzip2", "zstd"; "": not compressed
	file   *fileBytes
	packed *bufio.Reader // of file
	from   io.Reader     // the decompressor; packed if there is none
}

func (d *decompressed) Read(p []byte) (int, error) {
	n, err := d.from.Read(p)
	if err != nil && err != io.EOF {
		err = d.fail(err)
	}
	return n, err
}

// fail returns an error at the next byte of the file.
func (d *decompressed) fail(err error) error {
	e := WholeFile(d.name, err)
	if d.kind == "" || d.file.ctx.Err() != nil {
		return e
	}
	e.Offset = d.file.read - int64(d.packed.Buffered())
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		e.Err = fmt.Errorf("the %s stream is cut off: %w", d.kind, io.ErrUnexpectedEOF)
	} else {
		e.Err = fmt.Errorf("the %s stream is damaged: %w", d.kind, e.Err)
	}
	return e
}

// randomAccess is a file that can be read at any offset.
type randomAccess interface {
	fs.File
	io.ReaderAt
}

// RandomAccess returns the file if it can be read at any offset, that is, if it is not compressed.
func (c *Content) RandomAccess() (file randomAccess, ok bool) {
	file, ok = c.File.ReadCloser.(randomAccess)
	return file, ok && c.Kind == ""
}
