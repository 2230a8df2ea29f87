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

// The third byte of an idx file is the type of its values.
const (
	idxUint8   = 0x08
	idxFloat32 = 0x0D
	idxFloat64 = 0x0E
)

// idxType returns the size of the values of a type, and a function that decodes one; 0 if there is no such type.
func idxType(kind byte) (size int, number func(b []byte) float64) {
	big := binary.BigEndian
	switch kind {
	case idxUint8:
		return 1, func(b []byte) float64 { return float64(b[0]) }
	case 0x09:
		return 1, func(b []byte) float64 { return float64(int8(b[0])) }
	case 0x0B:
		return 2, func(b []byte) float64 { return float64(int16(big.Uint16(b))) }
	case 0x0C:
		return 4, func(b []byte) float64 { return float64(int32(big.Uint32(b))) }
	case idxFloat32:
		return 4, func(b []byte) float64 { return float64(math.Float32frombits(big.Uint32(b))) }
	case idxFloat64:
		return 8, func(b []byte) float64 { return math.Float64frombits(big.Uint64(b)) }
	}
	return 0, nil
}

// idxArray is the array in an open idx file. A row is an item of the first dimension: an image or a label.
type idxArray struct {
	*input.Content
	kind   byte // type of the values
	size   int  // of a value
	number func(b []byte) float64
	rows   int64    // number of rows in the header
	shape  []uint32 // shape of a row, without the first dimension; empty: a row is a number
	cols   int      // number of values of a row; above layout.MaxBatchBytes if there are more
	read   int64    // number of rows read so far
	packed []byte   // encoded values of the last rows
}

// openIDXArray reads the header. A header may claim any size, so memory is only allocated as values are read.
func openIDXArray(c *input.Content) (*idxArray, error) {
	f := &idxArray{Content: c, cols: 1}
	var magic [4]byte
	if n, err := io.ReadFull(c, magic[:]); err != nil {
		return nil, f.cutOff(int64(n), "in its header", err)
	}
	f.kind = magic[2]
	if f.size, f.number = idxType(f.kind); magic[0] != 0 || magic[1] != 0 || f.size == 0 || magic[3] == 0 {
		return nil, f.fail(0, fmt.Errorf("an idx file begins with 0000, a type (08 to 0e) and the number of dimensions: this one "+
			"begins with %x", magic))
	}
	header := make([]byte, 4*int(magic[3]))
	if n, err := io.ReadFull(c, header); err != nil {
		return nil, f.cutOff(4+int64(n), "in its header", err)
	}
	f.rows = int64(binary.BigEndian.Uint32(header))
	for at := 4; at < len(header); at += 4 {
		d := binary.BigEndian.Uint32(header[at:])
		f.shape = append(f.shape, d)
		f.cols = int(min(uint64(f.cols)*uint64(d), layout.MaxBatchBytes+1)) // the product may overflow
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

// describe describes the array for error messages.
func (f *idxArray) describe() string {
	if len(f.shape) == 0 {
		return fmt.Sprintf("%d numbers, as labels are", f.rows)
	}
	return fmt.Sprintf("%d × %s values, as images are", f.rows, strings.ReplaceAll(strings.Trim(fmt.Sprint(f.shape), "[]"), " ", " × "))
}

// offset returns the offset of a row.
func (f *idxArray) offset(row int64) int64 { return int64(8+4*len(f.shape)) + row*int64(f.size*f.cols) }

// next returns the encoded values of the next rows.
func (f *idxArray) next(rows int) ([]byte, error) {
	size := f.size * f.cols
	f.packed = slices.Grow(f.packed[:0], rows*size)[:rows*size]
	if n, err := io.ReadFull(f, f.packed); err != nil {
		where := fmt.Sprintf("in row %d of the %d in its header", f.read+int64(n/size), f.rows)
		return nil, f.cutOff(f.offset(f.read)+int64(n), where, err)
	}
	f.read += int64(rows)
	return f.packed, nil
}

// end returns an error if the file goes on after its last row. Reading to the end also makes the decompressor verify its checksum.
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
	images    *idxArray
	labels    *idxArray      // nil in prediction
	classes   map[int64]bool // nil: all labels are allowed
	batchRows int            // rows of a batch, except the last
	batch     examples.Rows
}

// openIDX reads images with their labels, or without labels to predict.
func openIDX(files []*input.Content, o layout.Options, want *layout.Features) (*format.Reader, error) {
	f, err := openIDXArray(files[0])
	if err != nil {
		return nil, err
	}
	if len(f.shape) == 0 {
		return nil, f.fail(0, fmt.Errorf("%s: expected images", f.describe()))
	}
	r := &idxReader{images: f}
	r.batch.Cols = f.cols
	rowBytes := layout.FloatRowBytes(f.cols)
	if f.kind == idxUint8 {
		rowBytes = layout.ByteRowBytes(f.cols)
	}
	switch {
	case f.rows == 0 || f.cols == 0:
		return nil, f.fail(4, fmt.Errorf("no values: %s", f.describe()))
	case rowBytes > layout.MaxBatchBytes:
		return nil, f.fail(8, fmt.Errorf("%s: an example does not fit a message of %d bytes", f.describe(), wire.MaxMessage))
	case want != nil && f.cols != want.Width:
		return nil, f.fail(0, fmt.Errorf("%s: expected %d features", f.describe(), want.Width))
	}
	r.batchRows = min(o.BatchRows, layout.MaxBatchBytes/rowBytes)
	if n := len(f.shape); n == 2 || n == 3 { // height, width, and channels if there is a third dimension
		r.batch.Image = examples.Image{int(f.shape[0]), int(f.shape[1]), f.cols / int(f.shape[0]*f.shape[1])}
	}
	if want == nil {
		err = r.openLabels(files[1], o.Classes)
	}
	return &format.Reader{Width: f.cols, Next: r.next}, err
}

// openLabels reads the header of the labels.
func (r *idxReader) openLabels(c *input.Content, classes []string) error {
	f, err := openIDXArray(c)
	switch {
	case err != nil:
		return err
	case len(f.shape) > 0:
		return f.fail(0, fmt.Errorf("%s: expected the labels of %s", f.describe(), r.images.Name))
	case f.kind == idxFloat32 || f.kind == idxFloat64:
		return f.fail(2, errors.New("labels are floating-point numbers: expected whole numbers"))
	case f.rows != r.images.rows:
		return f.fail(4, fmt.Errorf("%d labels, but %s has %d images", f.rows, r.images.Name, r.images.rows))
	}
	r.labels = f
	if len(classes) > 0 {
		r.classes = map[int64]bool{}
		for _, class := range classes { // labels compare as text: the class "07" is not the label 7
			if n, err := strconv.ParseInt(class, 10, 64); err == nil && strconv.FormatInt(n, 10) == class {
				r.classes[n] = true
			}
		}
	}
	return nil
}

// next returns the next batch.
func (r *idxReader) next() (*examples.Rows, error) {
	left := r.images.rows - r.images.read
	if left == 0 {
		return nil, io.EOF
	}
	r.batch.Rows = int(min(left, int64(r.batchRows)))
	err := r.readImages()
	if err == nil && r.labels != nil {
		err = r.readLabels()
	}
	for _, f := range []*idxArray{r.images, r.labels} {
		if err == nil && f != nil && f.read == f.rows {
			err = f.end()
		}
	}
	if err != nil {
		return nil, err
	}
	return &r.batch, nil
}

// readImages reads the features of the batch.
func (r *idxReader) readImages() error {
	f, b := r.images, &r.batch
	packed, err := f.next(b.Rows)
	if err != nil {
		return err
	}
	if f.kind == idxUint8 {
		b.Bytes = packed
		return nil
	}
	b.Floats = slices.Grow(b.Floats[:0], b.Rows*b.Cols)[:b.Rows*b.Cols]
	for at := range b.Floats {
		v := float32(f.number(packed[at*f.size:]))
		if b.Floats[at] = v; v-v != 0 { // 0 only for finite numbers
			return &input.Error{File: f.Name, Offset: f.offset(f.read-int64(b.Rows)) + int64(at*f.size), Column: strconv.Itoa(at % b.Cols),
				Err: errors.New("not a finite float32")}
		}
	}
	return nil
}

// readLabels reads the labels of the batch.
func (r *idxReader) readLabels() error {
	f, b := r.labels, &r.batch
	packed, err := f.next(b.Rows)
	b.Numbers = b.Numbers[:0]
	for at := 0; at < len(packed) && err == nil; at += f.size {
		n := int64(f.number(packed[at:]))
		if b.Numbers = append(b.Numbers, n); r.classes != nil && !r.classes[n] {
			row := f.read - int64(b.Rows) + int64(at/f.size)
			err = f.fail(f.offset(row), fmt.Errorf("label %q is not one of the classes", strconv.FormatInt(n, 10)))
		}
	}
	return err
}
