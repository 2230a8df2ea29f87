package ingest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas"
)

// The type of an idx file's values, its third byte
// (http://yann.lecun.com/exdb/mnist, "The IDX file format"). All are big-endian.
const (
	idxUint8   = 0x08
	idxInt8    = 0x09
	idxInt16   = 0x0B
	idxInt32   = 0x0C
	idxFloat32 = 0x0D
	idxFloat64 = 0x0E
)

// idxValueBytes is 0 for what is no type.
func idxValueBytes(kind byte) int {
	switch kind {
	case idxUint8, idxInt8:
		return 1
	case idxInt16:
		return 2
	case idxInt32, idxFloat32:
		return 4
	case idxFloat64:
		return 8
	}
	return 0
}

// looksLikeIDX tells whether a content begins as idx does.
func looksLikeIDX(c *content) (bool, error) {
	magic, err := c.Peek(4)
	if err == io.EOF {
		return false, nil
	}
	return err == nil && isIDX(magic), err
}

func isIDX(magic []byte) bool {
	return magic[0] == 0 && magic[1] == 0 && idxValueBytes(magic[2]) > 0 && magic[3] > 0
}

// idx is an open idx file of which the header has been read.
type idx struct {
	*content
	kind      byte
	rows      int64
	shape     []uint32 // of a row; empty: a number
	headerEnd int64
	read      int64 // rows
}

// openIDX reads the header. What the header claims is believed only as far as
// bytes follow: nothing is allocated for it.
func openIDX(c *content) (*idx, error) {
	f := &idx{content: c}
	var magic [4]byte
	if n, err := io.ReadFull(c, magic[:]); err != nil {
		return nil, f.cutOff(int64(n), "in its header", err)
	}
	if !isIDX(magic[:]) {
		return nil, f.fail(0, fmt.Errorf("magic %x: expected that of an idx file, 0000, a type (08 to 0e) and the number of dimensions", magic))
	}
	f.kind = magic[2]
	dims := make([]uint32, magic[3])
	f.headerEnd = 4 + 4*int64(len(dims))
	header := make([]byte, 4*len(dims))
	if n, err := io.ReadFull(c, header); err != nil {
		return nil, f.cutOff(4+int64(n), "in its header", err)
	}
	for i := range dims {
		dims[i] = binary.BigEndian.Uint32(header[4*i:])
	}
	f.rows, f.shape = int64(dims[0]), dims[1:]
	return f, nil
}

func (f *idx) fail(offset int64, err error) error {
	return &FileError{File: f.name, Offset: offset, Err: err}
}

// cutOff names the place where the content ends too early, unless reading it
// failed, which names its own.
func (f *idx) cutOff(offset int64, where string, err error) error {
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	return f.fail(offset, fmt.Errorf("the file ends %s: %w", where, io.ErrUnexpectedEOF))
}

// cols is the number of values of a row, or limit+1 if there are more than
// limit: the product of what a header claims may not fit an int.
func (f *idx) cols(limit int) int {
	cols := uint64(1)
	for _, d := range f.shape {
		if cols *= uint64(d); cols > uint64(limit) {
			return limit + 1
		}
	}
	return int(cols)
}

// describe is for those who gave the wrong file.
func (f *idx) describe() string {
	if len(f.shape) == 0 {
		return fmt.Sprintf("%d numbers, as labels are", f.rows)
	}
	return fmt.Sprintf("%d × %s values, as images are", f.rows, strings.ReplaceAll(strings.Trim(fmt.Sprint(f.shape), "[]"), " ", " × "))
}

// next reads the next rows into dst.
func (f *idx) next(dst []byte, rows int) error {
	n, err := io.ReadFull(f, dst)
	if err != nil {
		rowLength := int64(len(dst) / rows)
		offset := f.headerEnd + f.read*rowLength + int64(n)
		return f.cutOff(offset, fmt.Sprintf("in row %d of the %d that its header says", f.read+int64(n)/rowLength, f.rows), err)
	}
	f.read += int64(rows)
	return nil
}

// end makes sure that the file ends where its header says. It also makes the
// decompressor compare its checksum.
func (f *idx) end(rowLength int) error {
	if _, err := f.ReadByte(); err == nil {
		return f.fail(f.headerEnd+f.rows*int64(rowLength), errors.New("more bytes than its header says"))
	} else if err != io.EOF {
		return err
	}
	return nil
}

// idxReader reads images, and labels if there are any.
type idxReader struct {
	images  *idx
	labels  *idx           // nil: for prediction
	classes map[int64]bool // nil: any
	perRead int            // rows
	batch   schemas.ExampleRows
	packed  []byte // values that are not bytes, and labels, as they are in the file
}

func newIDXReader(images, labels *content, o Options) (*idxReader, error) {
	r, err := newImages(images, o)
	if err != nil {
		return nil, err
	}
	if r.labels, err = openIDX(labels); err != nil {
		return nil, err
	}
	switch f := r.labels; {
	case len(f.shape) > 0:
		return nil, f.fail(0, fmt.Errorf("%s, where the labels of %s should be", f.describe(), images.name))
	case f.kind == idxFloat32 || f.kind == idxFloat64:
		return nil, f.fail(2, errors.New("labels that are not whole numbers"))
	case f.rows != r.images.rows:
		return nil, f.fail(4, fmt.Errorf("%d labels, but %s has %d images", f.rows, images.name, r.images.rows))
	}
	if len(o.Classes) > 0 {
		r.classes = map[int64]bool{}
		for _, class := range o.Classes {
			// "07" is not the label 7: labels compare as text
			if n, err := strconv.ParseInt(class, 10, 64); err == nil && strconv.FormatInt(n, 10) == class {
				r.classes[n] = true
			}
		}
	}
	return r, nil
}

func newImageReader(images *content, o Options, width int) (*idxReader, error) {
	r, err := newImages(images, o)
	if err != nil {
		return nil, err
	}
	if r.batch.Cols != width {
		return nil, r.images.fail(0, fmt.Errorf("%s: expected %d features", r.images.describe(), width))
	}
	return r, nil
}

func newImages(images *content, o Options) (*idxReader, error) {
	f, err := openIDX(images)
	if err != nil {
		return nil, err
	}
	if len(f.shape) == 0 {
		return nil, f.fail(0, fmt.Errorf("%s, where images should be", f.describe()))
	}
	r := &idxReader{images: f}
	r.batch.Cols = f.cols(messageRoom)
	rowBytes := floatRowBytes(r.batch.Cols)
	if f.kind == idxUint8 {
		rowBytes = byteRowBytes(r.batch.Cols)
	}
	switch {
	case f.rows == 0 || r.batch.Cols == 0:
		return nil, f.fail(4, fmt.Errorf("no values: %s", f.describe()))
	case rowBytes > messageRoom:
		return nil, f.fail(8, fmt.Errorf("%s: an example does not fit a message of %d bytes", f.describe(), schemas.MaxMessage))
	}
	r.perRead = min(o.BatchRows, messageRoom/rowBytes)
	return r, nil
}

func (r *idxReader) width() int { return r.batch.Cols }

func (r *idxReader) contents() []*content {
	if r.labels == nil {
		return []*content{r.images.content}
	}
	return []*content{r.images.content, r.labels.content}
}

func (r *idxReader) close() { closeAll(r.contents()) }

func (r *idxReader) next() (*schemas.ExampleRows, error) {
	left := r.images.rows - r.images.read
	if left == 0 {
		return nil, io.EOF
	}
	r.batch.Rows = int(min(left, int64(r.perRead)))
	if err := r.readImages(); err != nil {
		return nil, err
	}
	if r.labels != nil {
		if err := r.readLabels(); err != nil {
			return nil, err
		}
	}
	if left == int64(r.batch.Rows) {
		if err := r.end(); err != nil {
			return nil, err
		}
	}
	return &r.batch, nil
}

func (r *idxReader) end() error {
	if err := r.images.end(r.batch.Cols * idxValueBytes(r.images.kind)); err != nil || r.labels == nil {
		return err
	}
	return r.labels.end(idxValueBytes(r.labels.kind))
}

func (r *idxReader) readImages() error {
	count := r.batch.Rows * r.batch.Cols
	if r.images.kind == idxUint8 {
		r.batch.Bytes = slices.Grow(r.batch.Bytes[:0], count)[:count]
		return r.images.next(r.batch.Bytes, r.batch.Rows)
	}
	if err := r.unpack(r.images, count); err != nil {
		return err
	}
	r.batch.Floats = slices.Grow(r.batch.Floats[:0], count)[:count]
	if at := floats(r.batch.Floats, r.packed, r.images.kind); at < count {
		size := idxValueBytes(r.images.kind)
		before := (r.images.read - int64(r.batch.Rows)) * int64(r.batch.Cols)
		return &FileError{
			File: r.images.name, Offset: r.images.headerEnd + (before+int64(at))*int64(size),
			Column: strconv.Itoa(at % r.batch.Cols), Err: errors.New("not a finite float32"),
		}
	}
	return nil
}

func (r *idxReader) readLabels() error {
	if err := r.unpack(r.labels, r.batch.Rows); err != nil {
		return err
	}
	r.batch.Numbers = slices.Grow(r.batch.Numbers[:0], r.batch.Rows)[:r.batch.Rows]
	wholeNumbers(r.batch.Numbers, r.packed, r.labels.kind)
	if r.classes == nil {
		return nil
	}
	for i, n := range r.batch.Numbers {
		if !r.classes[n] {
			row := r.labels.read - int64(r.batch.Rows) + int64(i)
			return r.labels.fail(r.labels.headerEnd+row*int64(idxValueBytes(r.labels.kind)), fmt.Errorf("label %q is not one of the classes", strconv.FormatInt(n, 10)))
		}
	}
	return nil
}

func (r *idxReader) unpack(f *idx, values int) error {
	size := values * idxValueBytes(f.kind)
	r.packed = slices.Grow(r.packed[:0], size)[:size]
	return f.next(r.packed, r.batch.Rows)
}

// floats converts the values of an idx file up to one that is not finite, and
// answers how many it converted.
func floats(dst []float32, packed []byte, kind byte) int {
	big := binary.BigEndian
	for i := range dst {
		switch kind {
		case idxInt8:
			dst[i] = float32(int8(packed[i]))
		case idxInt16:
			dst[i] = float32(int16(big.Uint16(packed[2*i:])))
		case idxInt32:
			dst[i] = float32(int32(big.Uint32(packed[4*i:])))
		case idxFloat32:
			dst[i] = math.Float32frombits(big.Uint32(packed[4*i:]))
		case idxFloat64:
			dst[i] = float32(math.Float64frombits(big.Uint64(packed[8*i:])))
		}
		// v-v is 0 for a finite v only
		if v := dst[i]; v-v != 0 {
			return i
		}
	}
	return len(dst)
}

func wholeNumbers(dst []int64, packed []byte, kind byte) {
	big := binary.BigEndian
	for i := range dst {
		switch kind {
		case idxUint8:
			dst[i] = int64(packed[i])
		case idxInt8:
			dst[i] = int64(int8(packed[i]))
		case idxInt16:
			dst[i] = int64(int16(big.Uint16(packed[2*i:])))
		case idxInt32:
			dst[i] = int64(int32(big.Uint32(packed[4*i:])))
		}
	}
}
