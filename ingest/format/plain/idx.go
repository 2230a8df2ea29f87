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

// isIDX reports whether a file starts with the magic number of idx: two zeros, the type, and the number of dimensions.
func isIDX(first []byte) bool {
	return len(first) >= 4 && first[0] == 0 && first[1] == 0 && idxValueBytes(first[2]) > 0 && first[3] > 0
}

// idxArray is the array in an open idx file. A row is an item of the first dimension: an image or a label.
type idxArray struct {
	*input.Content
	kind      byte     // value type
	rows      int64    // number of rows in the header
	shape     []uint32 // shape of a row, without the first dimension; empty: a row is a number
	headerEnd int64    // offset of the first value
	read      int64    // number of rows read so far
}

// newIDXArray reads the header. A header may claim any size, so memory is only allocated as values are read.
func newIDXArray(c *input.Content) (*idxArray, error) {
	f := &idxArray{Content: c}
	var magic [4]byte
	if n, err := io.ReadFull(c, magic[:]); err != nil {
		return nil, f.cutOff(int64(n), "in its header", err)
	}
	if !isIDX(magic[:]) {
		return nil, f.fail(0, fmt.Errorf("an idx file begins with 0000, a type (08 to 0e) and the number of dimensions: this one "+
			"begins with %x", magic))
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

// cols returns the number of values of a row, or maxCols+1 if there are more than maxCols: the product of the dimensions
// in a header may overflow.
func (f *idxArray) cols(maxCols int) int {
	cols := uint64(1)
	for _, d := range f.shape {
		if cols *= uint64(d); cols > uint64(maxCols) {
			return maxCols + 1
		}
	}
	return int(cols)
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
		rowLength := int64(len(dst) / rows)
		offset := f.headerEnd + f.read*rowLength + int64(n)
		return f.cutOff(offset, fmt.Sprintf("in row %d of the %d in its header", f.read+int64(n)/rowLength, f.rows), err)
	}
	f.read += int64(rows)
	return nil
}

// end returns an error if the file size does not match its header. Reading to the end also makes the decompressor verify
// its checksum.
func (f *idxArray) end(rowLength int) error {
	if _, err := f.ReadByte(); err == nil {
		return f.fail(f.headerEnd+f.rows*int64(rowLength), errors.New("the file has more bytes than its header announces"))
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
	packed    []byte // encoded values: labels, and images that are not uint8
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
	r.batch.Cols = f.cols(layout.MaxBatchBytes)
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
	if left == int64(r.batch.Rows) {
		if err := r.end(); err != nil {
			return nil, err
		}
	}
	return &r.batch, nil
}

// end checks that the sizes of both files match their headers.
func (r *idxReader) end() error {
	if err := r.images.end(r.batch.Cols * idxValueBytes(r.images.kind)); err != nil || r.labels == nil {
		return err
	}
	return r.labels.end(idxValueBytes(r.labels.kind))
}

// readImages reads the features of the batch.
func (r *idxReader) readImages() error {
	count := r.batch.Rows * r.batch.Cols
	if r.images.kind == idxUint8 {
		r.batch.Bytes = slices.Grow(r.batch.Bytes[:0], count)[:count]
		return r.images.readRows(r.batch.Bytes, r.batch.Rows)
	}
	if err := r.readPacked(r.images, count); err != nil {
		return err
	}
	r.batch.Floats = slices.Grow(r.batch.Floats[:0], count)[:count]
	for at := range count {
		v := float32(valueAt(r.packed, at, r.images.kind))
		if r.batch.Floats[at] = v; v-v == 0 { // 0 only for finite numbers
			continue
		}
		size := idxValueBytes(r.images.kind)
		before := (r.images.read - int64(r.batch.Rows)) * int64(r.batch.Cols)
		return &input.Error{
			File: r.images.Name, Offset: r.images.headerEnd + (before+int64(at))*int64(size),
			Column: strconv.Itoa(at % r.batch.Cols), Err: errors.New("not a finite float32"),
		}
	}
	return nil
}

// readLabels reads the labels of the batch.
func (r *idxReader) readLabels() error {
	if err := r.readPacked(r.labels, r.batch.Rows); err != nil {
		return err
	}
	r.batch.Numbers = slices.Grow(r.batch.Numbers[:0], r.batch.Rows)[:r.batch.Rows]
	for i := range r.batch.Numbers {
		n := int64(valueAt(r.packed, i, r.labels.kind))
		if r.batch.Numbers[i] = n; r.classes != nil && !r.classes[n] {
			row := r.labels.read - int64(r.batch.Rows) + int64(i)
			return r.labels.fail(r.labels.headerEnd+row*int64(idxValueBytes(r.labels.kind)), fmt.Errorf("label %q is not one of the classes",
				strconv.FormatInt(n, 10)))
		}
	}
	return nil
}

// readPacked reads the encoded values of the batch's rows into packed.
func (r *idxReader) readPacked(f *idxArray, values int) error {
	size := values * idxValueBytes(f.kind)
	r.packed = slices.Grow(r.packed[:0], size)[:size]
	return f.readRows(r.packed, r.batch.Rows)
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
