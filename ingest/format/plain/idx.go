package plain

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// IDX is MNIST's format (http://yann.lecun.com/exdb/mnist, "The IDX file format"): each file is an array of images or
// labels.
func IDX() format.Format {
	return format.Format{
		Name:      "idx",
		Meaning:   "the format of MNIST: a file of images and a file of their labels",
		Patterns:  []string{"*ubyte", "*.idx", "*idx[0-9]"}, // train-images-idx3-ubyte, train-images.idx3-ubyte, train-images.idx
		Files:     2,
		WantFiles: "files in pairs, images first, then their labels",
		OneLabel:  true,
		Rows:      openIDX,
	}
}

// The third byte of an idx file is the type of its values. All are big-endian.
const (
	idxUint8   = 0x08
	idxInt8    = 0x09
	idxInt16   = 0x0B
	idxInt32   = 0x0C
	idxFloat32 = 0x0D
	idxFloat64 = 0x0E
)

// idxValueBytes is the size of a type; 0 if there is no such type.
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

// idxArray is the array in an open idx file. A row is an item of the first dimension: an image or a label.
type idxArray struct {
	*input.Content
	kind      byte     // value type
	size      int      // of a value
	rows      int64    // number of rows in the header
	shape     []uint32 // shape of a row, without the first dimension; empty: a row is a number
	cols      int      // number of values of a row; above layout.MaxBatchBytes if there are more
	headerEnd int64    // offset of the first value
	read      int64    // number of rows read so far
	packed    []byte   // encoded values of the last rows
}

// newIDXArray reads the header. A header may claim any size, so memory is only allocated as values are read.
func newIDXArray(c *input.Content) (*idxArray, error) {
	f := &idxArray{Content: c, cols: 1}
	var magic [4]byte
	if n, err := io.ReadFull(c, magic[:]); err != nil {
		return nil, f.cutOff(int64(n), "in its header", err)
	}
	f.kind, f.size = magic[2], idxValueBytes(magic[2])
	if magic[0] != 0 || magic[1] != 0 || f.size == 0 || magic[3] == 0 {
		return nil, f.fail(0, fmt.Errorf("an idx file begins with 0000, a type (08 to 0e) and the number of dimensions: this one "+
			"begins with %x", magic))
	}
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
	for _, d := range f.shape { // whose product may overflow
		f.cols = int(min(uint64(f.cols)*uint64(d), layout.MaxBatchBytes+1))
	}
	return f, nil
}

func (f *idxArray) fail(offset int64, err error) error {
	return &input.Error{File: f.Name, Offset: offset, Err: err}
}

// cutOff returns the error of a truncated content, at offset. Other read errors already have a position and are returned
// unchanged.
func (f *idxArray) cutOff(offset int64, where string, err error) error {
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	return f.fail(offset, fmt.Errorf("the file ends %s: %w", where, io.ErrUnexpectedEOF))
}

// image returns the shape of a row as an image: height, width, and the number of channels if there is a third dimension.
// An array with other dimensions has no images.
func (f *idxArray) image() (shape examples.Image) {
	if n := len(f.shape); n != 2 && n != 3 {
		return shape
	}
	shape[2] = 1
	for i, d := range f.shape {
		shape[i] = int(d)
	}
	return shape
}

// describe describes the array for error messages.
func (f *idxArray) describe() string {
	if len(f.shape) == 0 {
		return fmt.Sprintf("%d numbers, as labels are", f.rows)
	}
	return fmt.Sprintf("%d × %s values, as images are", f.rows, strings.ReplaceAll(strings.Trim(fmt.Sprint(f.shape), "[]"), " ", " × "))
}

// readRows reads the encoded values of the next rows into dst.
func (f *idxArray) readRows(dst []byte, rows int) error {
	n, err := io.ReadFull(f, dst)
	if err != nil {
		at, size := f.read, f.size*f.cols
		return f.cutOff(f.offset(at)+int64(n), fmt.Sprintf("in row %d of the %d in its header", at+int64(n/size), f.rows), err)
	}
	f.read += int64(rows)
	return nil
}

// readPacked reads the encoded values of the next rows.
func (f *idxArray) readPacked(rows int) error {
	size := rows * f.cols * f.size
	f.packed = slices.Grow(f.packed[:0], size)[:size]
	return f.readRows(f.packed, rows)
}

// offset returns the offset of a row.
func (f *idxArray) offset(row int64) int64 { return f.headerEnd + row*int64(f.size*f.cols) }

// end returns an error if the file size does not match its header. Reading to the end also makes the decompressor verify
// its checksum.
func (f *idxArray) end() error {
	if _, err := f.ReadByte(); err == nil {
		return f.fail(f.offset(f.rows), errors.New("the file has more bytes than its header announces"))
	} else if err != io.EOF {
		return err
	}
	return nil
}

// idxReader reads images, and labels if there are any.
type idxReader struct {
	format.Unnamed
	images    *idxArray
	labels    *idxArray      // nil in prediction
	classes   map[int64]bool // nil: all labels are allowed
	batchRows int            // rows of a batch, except the last
	batch     examples.Rows
}

// openIDX reads images with their labels, or without labels to predict.
func openIDX(files []*input.Content, o layout.Options, want *layout.Features) (format.Reader, error) {
	r, err := newIDXReader(files[0], o)
	if err != nil {
		return nil, err
	}
	if want != nil {
		if r.batch.Cols != want.Width {
			return nil, r.images.fail(0, fmt.Errorf("%s: expected %d features", r.images.describe(), want.Width))
		}
		return r, nil
	}
	if r.labels, err = newIDXArray(files[1]); err != nil {
		return nil, err
	}
	switch f := r.labels; {
	case len(f.shape) > 0:
		return nil, f.fail(0, fmt.Errorf("%s: expected the labels of %s", f.describe(), r.images.Name))
	case f.kind == idxFloat32 || f.kind == idxFloat64:
		return nil, f.fail(2, errors.New("labels are floating-point numbers: expected whole numbers"))
	case f.rows != r.images.rows:
		return nil, f.fail(4, fmt.Errorf("%d labels, but %s has %d images", f.rows, r.images.Name, r.images.rows))
	}
	if len(o.Classes) > 0 {
		r.classes = map[int64]bool{}
		for _, class := range o.Classes {
			// Labels compare as text: the class "07" is not the label 7.
			if n, err := strconv.ParseInt(class, 10, 64); err == nil && strconv.FormatInt(n, 10) == class {
				r.classes[n] = true
			}
		}
	}
	return r, nil
}

// newIDXReader reads the header of the images.
func newIDXReader(images *input.Content, o layout.Options) (*idxReader, error) {
	f, err := newIDXArray(images)
	if err != nil {
		return nil, err
	}
	if len(f.shape) == 0 {
		return nil, f.fail(0, fmt.Errorf("%s: expected images", f.describe()))
	}
	r := &idxReader{images: f}
	r.batch.Cols = f.cols
	rowBytes := layout.FloatRowBytes(r.batch.Cols)
	if f.kind == idxUint8 {
		rowBytes = layout.ByteRowBytes(r.batch.Cols)
	}
	switch {
	case f.rows == 0 || r.batch.Cols == 0:
		return nil, f.fail(4, fmt.Errorf("no values: %s", f.describe()))
	case rowBytes > layout.MaxBatchBytes:
		return nil, f.fail(8, fmt.Errorf("%s: an example does not fit a message of %d bytes", f.describe(), wire.MaxMessage))
	}
	r.batchRows = min(o.BatchRows, layout.MaxBatchBytes/rowBytes)
	r.batch.Image = f.image()
	return r, nil
}

func (r *idxReader) Width() int { return r.batch.Cols }

func (r *idxReader) Next() (*examples.Rows, error) {
	left := r.images.rows - r.images.read
	if left == 0 {
		return nil, io.EOF
	}
	r.batch.Rows = int(min(left, int64(r.batchRows)))
	if err := r.readImages(); err != nil {
		return nil, err
	}
	if r.labels != nil {
		if err := r.readLabels(); err != nil {
			return nil, err
		}
	}
	for _, f := range []*idxArray{r.images, r.labels} {
		if f == nil || f.read < f.rows {
			continue
		}
		if err := f.end(); err != nil {
			return nil, err
		}
	}
	return &r.batch, nil
}

// readImages reads the features of the batch.
func (r *idxReader) readImages() error {
	f, count := r.images, r.batch.Rows*r.batch.Cols
	if f.kind == idxUint8 {
		r.batch.Bytes = slices.Grow(r.batch.Bytes[:0], count)[:count]
		return f.readRows(r.batch.Bytes, r.batch.Rows)
	}
	if err := f.readPacked(r.batch.Rows); err != nil {
		return err
	}
	r.batch.Floats = slices.Grow(r.batch.Floats[:0], count)[:count]
	for at := range count {
		v := float32(valueAt(f.packed, at, f.kind))
		if r.batch.Floats[at] = v; v-v != 0 { // 0 only for finite numbers
			return &input.Error{File: f.Name, Offset: f.offset(f.read-int64(r.batch.Rows)) + int64(at*f.size),
				Column: strconv.Itoa(at % r.batch.Cols), Err: errors.New("not a finite float32")}
		}
	}
	return nil
}

// readLabels reads the labels of the batch.
func (r *idxReader) readLabels() error {
	f := r.labels
	if err := f.readPacked(r.batch.Rows); err != nil {
		return err
	}
	r.batch.Numbers = slices.Grow(r.batch.Numbers[:0], r.batch.Rows)[:r.batch.Rows]
	for i := range r.batch.Numbers {
		n := int64(valueAt(f.packed, i, f.kind))
		if r.batch.Numbers[i] = n; r.classes != nil && !r.classes[n] {
			return f.fail(f.offset(f.read-int64(r.batch.Rows-i)), fmt.Errorf("label %q is not one of the classes", strconv.FormatInt(n, 10)))
		}
	}
	return nil
}

// valueAt decodes a value of a type.
func valueAt(packed []byte, i int, kind byte) float64 {
	big := binary.BigEndian
	switch kind {
	case idxInt8:
		return float64(int8(packed[i]))
	case idxInt16:
		return float64(int16(big.Uint16(packed[2*i:])))
	case idxInt32:
		return float64(int32(big.Uint32(packed[4*i:])))
	case idxFloat32:
		return float64(math.Float32frombits(big.Uint32(packed[4*i:])))
	case idxFloat64:
		return math.Float64frombits(big.Uint64(packed[8*i:]))
	}
	return float64(packed[i])
}
