package plain

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	_ "image/jpeg" // a format of image.Decode
	_ "image/png"  // another one
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/signature"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Images is photographs in directories, one directory for each class.
func Images() format.Format {
	return format.Format{
		Name:         "images",
		Meaning:      "a folder, or a tar of one, with a folder of PNG and JPEG files for each class",
		Patterns:     []string{"*.tar", "*.tgz", "*.png", "*.jpg", "*.jpeg"},
		Files:        1,
		ReadsFolders: true,
		OneLabel:     true,
		Rows:         openImages,
	}
}

// maxImageFile limits the size of a file: its image must fit into a message, which is far smaller.
const maxImageFile = 64 << 20

// imageReader reads images of the same shape.
type imageReader struct {
	content *input.Content
	archive *tar.Reader // nil: the content is a single image
	options layout.Options
	first   string        // name of the first image, for errors
	ahead   *decodedImage // read, and not yet in a batch; nil: none
	batch   examples.Rows
	labels  bool
	ended   bool // the single image was read
}

// decodedImage is an image with its file.
type decodedImage struct {
	file   string // relative to the directory
	pixels image.Image
}

// openImages reads images with the names of their directories as classes, or without classes to predict. All have the shape of the first
// one.
func openImages(files []*input.Content, o layout.Options, want *layout.Features) (*format.Reader, error) {
	if want != nil && want.Image != (examples.Image{}) {
		o.Image = nil
		for _, n := range want.Image {
			o.Image = append(o.Image, fmt.Sprint(n))
		}
	}
	r := &imageReader{content: files[0], options: o, labels: want == nil}
	first, err := r.content.Peek(signature.TarBytes)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if form, _ := signature.Of(first); form.Format != "images" {
		return nil, input.WholeFile(r.content.Name, errors.New("neither a folder, a tar archive, nor a PNG or JPEG file"))
	}
	if signature.IsTar(first) {
		r.archive = tar.NewReader(r.content)
	}
	if r.ahead, err = r.read(); err == io.EOF {
		return nil, input.WholeFile(r.content.Name, errors.New("no images: expected PNG or JPEG files"))
	} else if err != nil {
		return nil, err
	}
	r.first = r.ahead.file
	r.batch.Image = o.Shape()
	if r.batch.Image == (examples.Image{}) {
		size := r.ahead.pixels.Bounds().Size()
		r.batch.Image = examples.Image{size.Y, size.X, channelsOf(r.ahead.pixels)}
	}
	r.batch.Cols = r.batch.Image.Size()
	switch n := r.batch.Image.Channels(); {
	case n != 1 && n != 3:
		return nil, r.fail(r.first, fmt.Errorf("examples.image %v: expected 1 or 3 channels", o.Image))
	case layout.ByteRowBytes(r.batch.Cols)+examples.MaxLabel > layout.MaxBatchBytes:
		return nil, r.fail(r.first, fmt.Errorf("an image of %s does not fit a message of %d bytes", r.batch.Image, wire.MaxMessage))
	case want != nil && r.batch.Cols != want.Width:
		return nil, r.fail(r.first, fmt.Errorf("an image of %s: expected %d features", r.batch.Image, want.Width))
	}
	shape := layout.Reading{Image: r.batch.Image.Text()} // which determines whether colours are kept
	return &format.Reader{Width: r.batch.Cols, Next: r.next, Reading: func() layout.Reading { return shape }}, nil
}

func (r *imageReader) fail(file string, err error) error {
	if r.archive == nil {
		return input.WholeFile(r.content.Name, err)
	}
	return input.WholeFile(filepath.Join(r.content.Name, file), err)
}

// next returns the next batch.
func (r *imageReader) next() (*examples.Rows, error) {
	b := &r.batch
	b.Rows, b.Bytes, b.Words = 0, b.Bytes[:0], b.Words[:0]
	room := layout.MaxBatchBytes
	for b.Rows < r.options.BatchRows {
		if r.ahead == nil {
			var err error
			if r.ahead, err = r.read(); err == io.EOF {
				break
			} else if err != nil {
				return nil, err
			}
		}
		if err := r.checkShape(); err != nil {
			return nil, err
		}
		row := layout.ByteRowBytes(b.Cols)
		if r.labels {
			label, err := r.label(r.ahead.file)
			if err != nil {
				return nil, r.fail(r.ahead.file, err)
			}
			if row += len(label); row > room {
				break
			}
			b.Words = append(b.Words, label)
		} else if row > room {
			break
		}
		room -= row
		b.Bytes = appendPixels(b.Bytes, r.ahead.pixels, b.Image.Channels())
		b.Rows++
		r.ahead = nil
	}
	if b.Rows == 0 {
		return nil, io.EOF
	}
	return b, nil
}

// read reads the next image; io.EOF at the end of the archive.
func (r *imageReader) read() (*decodedImage, error) {
	from, name := io.Reader(r.content), filepath.Base(r.content.Name)
	switch {
	case r.ended:
		return nil, io.EOF
	case r.archive == nil:
		r.ended = true
	default:
		var err error
		if name, err = r.nextFile(); err != nil {
			return nil, err
		}
		from = r.archive
	}
	data, err := io.ReadAll(io.LimitReader(from, maxImageFile+1))
	switch {
	case err != nil:
		return nil, r.fail(name, err)
	case len(data) > maxImageFile:
		return nil, r.fail(name, fmt.Errorf("more than %d bytes: expected an image that fits a message", maxImageFile))
	}
	size, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err == image.ErrFormat {
		err = errors.New("neither PNG nor JPEG: remove the file, or start its name with a dot; unpack an archive of tables")
	}
	if err != nil {
		return nil, r.fail(name, err)
	}
	if size.Width < 1 || size.Height < 1 || size.Width > layout.MaxBatchBytes/size.Height {
		return nil, r.fail(name, fmt.Errorf("an image of %d × %d pixels does not fit a message of %d bytes", size.Height, size.Width,
			wire.MaxMessage))
	}
	pixels, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, r.fail(name, err)
	}
	return &decodedImage{name, pixels}, nil
}

// nextFile advances to the next file of the archive that is not hidden. At the end it reads what follows the archive.
func (r *imageReader) nextFile() (string, error) {
	for {
		header, err := r.archive.Next()
		if err == io.EOF {
			if _, err := io.Copy(io.Discard, r.content); err != nil {
				return "", err
			}
			return "", io.EOF
		}
		if err != nil {
			if file, ok := errors.AsType[*input.Error](err); ok {
				return "", file
			}
			return "", input.WholeFile(r.content.Name, fmt.Errorf("the tar archive is damaged: %w", err))
		}
		name := path.Clean(header.Name)
		if header.Typeflag == tar.TypeReg && !input.Hidden(name) {
			return name, nil
		}
	}
}

// label returns the class of an image: the name of its directory.
func (r *imageReader) label(file string) (string, error) {
	label := path.Base(path.Dir(file))
	switch {
	case path.Dir(file) == "." || path.Dir(file) == "/":
		return "", errors.New("image is not inside a class folder: expected CLASS/IMAGE")
	case !utf8.ValidString(label):
		return "", fmt.Errorf("label %s is not UTF-8", value.Quote(label))
	case len(label) > examples.MaxLabel:
		return "", fmt.Errorf("label %s: expected at most %d bytes", value.Quote(label), examples.MaxLabel)
	case len(r.options.Classes) > 0 && !slices.Contains(r.options.Classes, label):
		return "", fmt.Errorf("label %s is not one of the classes", value.Quote(label))
	}
	return label, nil
}

// checkShape returns an error if the shape of the last image differs from that of the others.
func (r *imageReader) checkShape() error {
	shape, size := r.batch.Image, r.ahead.pixels.Bounds().Size()
	asked := len(r.options.Image) > 0
	like := "as " + r.first + " has"
	if asked {
		like = "as set in examples.image"
	}
	switch {
	case size.Y != shape.Height() || size.X != shape.Width():
		return r.fail(r.ahead.file, fmt.Errorf("an image of %d × %d pixels: expected %d × %d, %s", size.Y, size.X, shape.Height(),
			shape.Width(), like))
	case !asked && shape.Channels() == 1 && channelsOf(r.ahead.pixels) == 3:
		return r.fail(r.ahead.file, fmt.Errorf("a color image, but %s is grayscale: set examples.image to [%d, %d, 1] or "+
			"[%[2]d, %[3]d, 3]", r.first, shape.Height(), shape.Width()))
	}
	return nil
}

// channelsOf returns 1 for a grey image, and otherwise 3.
func channelsOf(pixels image.Image) int {
	switch pixels.ColorModel() {
	case color.GrayModel, color.Gray16Model:
		return 1
	}
	return 3
}

// appendPixels appends the pixels of an image, row by row: their luminance, or red, green and blue. Transparent pixels are
// blended with black.
func appendPixels(dst []byte, pixels image.Image, channels int) []byte {
	bounds := pixels.Bounds()
	whole := image.Rect(0, 0, bounds.Dx(), bounds.Dy())
	if channels == 1 {
		gray := image.NewGray(whole)
		draw.Draw(gray, whole, pixels, bounds.Min, draw.Src)
		return append(dst, gray.Pix...)
	}
	colours := image.NewRGBA(whole)
	draw.Draw(colours, whole, pixels, bounds.Min, draw.Src)
	for at := 0; at < len(colours.Pix); at += 4 {
		dst = append(dst, colours.Pix[at:at+3]...)
	}
	return dst
}

// OpenFolder opens a directory as the tar archive of its files, with names and contents only. So a directory is read, digested and checked
// for changes like a file. Its files are in the order of their names, or, if mixed is set, in a pseudorandom order derived from the names:
// otherwise classes in directories of their own would follow one another.
func OpenFolder(name string, mixed bool) (io.ReadCloser, error) {
	var files []string
	folder := os.DirFS(name)
	for file, err := range input.Walk(folder, false) {
		if err != nil {
			return nil, err
		}
		files = append(files, file.Path)
	}
	if len(files) == 0 {
		return nil, errors.New("an empty folder: expected PNG or JPEG files, in a folder for each class")
	}
	if mixed {
		slices.SortFunc(files, func(a, b string) int {
			first, second := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
			return bytes.Compare(first[:], second[:])
		})
	}
	read, write := io.Pipe()
	go func() { write.CloseWithError(packFolder(folder, files, write)) }() // it ends when read is closed
	return read, nil
}

// packFolder writes the archive of files in a directory.
func packFolder(folder fs.FS, files []string, to io.Writer) error {
	archive := tar.NewWriter(to)
	for _, name := range files {
		data, err := fs.ReadFile(folder, name)
		if err == nil {
			err = archive.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o644})
		}
		if err == nil {
			_, err = archive.Write(data)
		}
		if err != nil {
			return err
		}
	}
	return archive.Close()
}
