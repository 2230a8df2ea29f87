package ingest

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"

	"github.com/stagewise/stagewise/schemas"
)

// readSize is what one system call asks for.
const readSize = 1 << 16

// content is what a file holds, decompressed. All its errors but io.EOF are
// *FileError.
type content struct {
	*bufio.Reader
	name string
	file *fileBytes
}

// openContent opens a file. The caller closes it.
func openContent(ctx context.Context, name string) (*content, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, wholeFile(name, err)
	}
	c, err := newContent(ctx, name, file)
	if err != nil {
		file.Close()
		return nil, err
	}
	return c, nil
}

// newContent finds the compression by the first bytes, because files are
// renamed, and decompressed by those who download them, without their name
// telling.
func newContent(ctx context.Context, name string, file io.ReadCloser) (*content, error) {
	raw := &fileBytes{ReadCloser: file, ctx: ctx, sum: sha256.New()}
	packed := bufio.NewReaderSize(raw, readSize)
	plain := &decompressed{name: name, file: raw, packed: packed, from: packed}
	first, err := packed.Peek(len(bzip2First))
	if err != nil && err != io.EOF {
		return nil, wholeFile(name, err)
	}
	switch {
	case bytes.HasPrefix(first, gzipMagic):
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
	return &content{Reader: bufio.NewReaderSize(plain, readSize), name: name, file: raw}, nil
}

func (c *content) Close() error { return c.file.Close() }

// digest is the sha256 of the file's bytes as they were read. It is of the
// whole file once the content has answered io.EOF.
func (c *content) digest() schemas.Digest {
	return schemas.Digest(hex.EncodeToString(c.file.sum.Sum(nil)))
}

var (
	gzipMagic  = []byte{0x1f, 0x8b} // RFC 1952, 2.3.1
	bzip2First = []byte("BZh9\x31\x41\x59\x26\x53\x59")
	bzip2Empty = []byte("BZh9\x17\x72\x45\x38\x50\x90")
)

// isBzip2 wants more than the magic "BZh", with which a CSV may begin: after
// the level (1 to 9) there is a block, whose magic is the digits of π, or the
// end of the stream, √π.
func isBzip2(first []byte) bool {
	if len(first) < 4 || first[3] < '1' || first[3] > '9' {
		return false
	}
	n := len(first) // less than a magic if the file is cut off there
	return bytes.Equal(first[:3], bzip2First[:3]) &&
		(bytes.Equal(first[4:], bzip2First[4:n]) || bytes.Equal(first[4:], bzip2Empty[4:n]))
}

// fileBytes are the bytes of the file itself: counted, digested, and no more of
// them once the context ends.
type fileBytes struct {
	io.ReadCloser
	ctx  context.Context
	read int64
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

// decompressed turns the errors of a decompressor into ones that say where.
type decompressed struct {
	name   string
	kind   string // "": as it is in the file
	file   *fileBytes
	packed *bufio.Reader
	from   io.Reader
}

func (d *decompressed) Read(p []byte) (int, error) {
	n, err := d.from.Read(p)
	if err != nil && err != io.EOF {
		err = d.fail(err)
	}
	return n, err
}

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
