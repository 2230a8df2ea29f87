package ingest

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
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/stagewise/stagewise/schemas"
)

// readSize is how many bytes one system call asks for.
const readSize = 1 << 16

// content is the decompressed content of an open file. Its errors are io.EOF
// and *FileError.
type content struct {
	*bufio.Reader
	name string
	kind string     // of the compression: "gzip", "bzip2"; "": none
	file *fileBytes // as it is on disk
	// value is the content if it is in memory; nil: it is read.
	value []byte
	// unpacked is how many bytes the compressed buffers of a batch of Arrow may have when they are decompressed; 0: what a file may have.
	unpacked int
}

// openContent opens a file. The caller closes the content.
func (o Options) openContent(ctx context.Context, name string) (*content, error) {
	file, err := o.open(name)
	if err != nil {
		return nil, wholeFile(shown(name), err)
	}
	c, err := newContent(ctx, shown(name), file)
	if err != nil {
		file.Close()
		return nil, err
	}
	return c, nil
}

// newContent tells the compression by the first bytes and not by the name:
// people and browsers decompress files without renaming them.
func newContent(ctx context.Context, name string, file io.ReadCloser) (*content, error) {
	raw := &fileBytes{ReadCloser: file, ctx: ctx, sum: sha256.New()}
	packed := bufio.NewReaderSize(raw, readSize)
	plain := &decompressed{name: name, file: raw, packed: packed, from: packed}
	magic, err := packed.Peek(len(bzip2First))
	if err != nil && err != io.EOF {
		return nil, wholeFile(name, err)
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
	}
	return &content{Reader: bufio.NewReaderSize(plain, readSize), name: name, kind: plain.kind, file: raw}, nil
}

func (c *content) Close() error { return c.file.Close() }

// digest is the sha256 of the bytes of the file that were read, which are all
// of them once Read has returned io.EOF.
func (c *content) digest() schemas.Digest {
	return schemas.Digest(hex.EncodeToString(c.file.sum.Sum(nil)))
}

const (
	gzipMagic  = "\x1f\x8b" // RFC 1952, 2.3.1
	bzip2First = "BZh9\x31\x41\x59\x26\x53\x59"
	bzip2Empty = "BZh9\x17\x72\x45\x38\x50\x90"
)

// isBzip2 reports whether a file begins as bzip2 does. The magic "BZh" alone is
// not enough, as a CSV may begin with it. After the level (1 to 9) comes the
// magic of a block, the digits of π, or of the end of the stream, those of √π.
func isBzip2(first string) bool {
	if len(first) < 4 || first[3] < '1' || first[3] > '9' {
		return false
	}
	n := len(first) // less than a magic if the file is cut off
	return first[:3] == bzip2First[:3] && (first[4:] == bzip2First[4:n] || first[4:] == bzip2Empty[4:n])
}

// fileBytes reads a file, counts its bytes and digests them. It fails once the
// context has ended.
type fileBytes struct {
	io.ReadCloser
	ctx  context.Context
	read int64 // bytes so far
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

// decompressed reads through a decompressor and adds the file and the offset to
// its errors.
type decompressed struct {
	name   string
	kind   string // "gzip", "bzip2"; "": not compressed
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

// fail returns an error at the byte of the file that the decompressor reads next.
func (d *decompressed) fail(err error) error {
	e := wholeFile(d.name, err)
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
