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
	Name    string
	Kind    string      // compression: "gzip", "bzip2", "zstd"; "": none
	File    *fileBytes  // as stored
	Path    []Partition // partition values from directory names
	Decoded bool        // decoded from another encoding
	packed  *bufio.Reader
	unzip   *zstd.Decoder
}

// New detects the compression by the first bytes, not by the name, since files are often decompressed without being
// renamed.
func New(ctx context.Context, name string, file io.ReadCloser) (*Content, error) {
	raw := &fileBytes{ReadCloser: file, ctx: ctx, sum: sha256.New()}
	c := &Content{Name: name, File: raw, packed: bufio.NewReaderSize(raw, readSize)}
	from := io.Reader(c.packed)
	magic, err := c.packed.Peek(signature.CompressionBytes)
	if err != nil && err != io.EOF {
		return nil, WholeFile(name, err)
	}
	switch c.Kind, err = signature.Compression(magic), nil; c.Kind {
	case "gzip":
		from, err = gzip.NewReader(c.packed)
	case "bzip2":
		from = bzip2.NewReader(c.packed)
	case "zstd":
		c.unzip, err = zstd.NewReader(c.packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxZstdWindow))
		from = c.unzip
	}
	if err != nil {
		return nil, c.fail(err)
	}
	c.Reader = bufio.NewReaderSize(placed{from, c.fail}, readSize)
	return c, nil
}

// SkipMark skips a byte order mark, with which some programs begin a text.
func (c *Content) SkipMark() {
	if mark, _ := c.Peek(3); string(mark) == "\ufeff" {
		c.Discard(3)
	}
}

// DecodeText converts the rest of the content to UTF-8.
func (c *Content) DecodeText(from string) {
	c.Decoded = true
	c.Reader = bufio.NewReaderSize(placed{signature.NewTextReader(c.Reader, from), func(err error) error {
		if errors.As(err, new(*signature.EncodingError)) {
			err = WholeFile(c.Name, fmt.Errorf("%w, which examples.encoding expects", err))
		}
		return err
	}}, readSize)
}

// placed adds the position to the errors of a reader.
type placed struct {
	io.Reader
	place func(error) error
}

func (r placed) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = r.place(err)
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

// maxZstdWindow limits the memory that a file may request: by default, `zstd -d` rejects larger windows too.
const maxZstdWindow = 128 << 20

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

// fail returns an error of the file or of its decompressor, at the next byte of the file.
func (c *Content) fail(err error) error {
	e := WholeFile(c.Name, err)
	if c.Kind == "" || c.File.ctx.Err() != nil {
		return e
	}
	e.Offset = c.Bytes() - int64(c.packed.Buffered())
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		e.Err = fmt.Errorf("the %s stream is cut off: %w", c.Kind, io.ErrUnexpectedEOF)
	} else {
		e.Err = fmt.Errorf("the %s stream is damaged: %w", c.Kind, e.Err)
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
