package ingest

import (
	"archive/tar"
	"bytes"
	"context"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas/examples"
)

func encodePNG(t testing.TB, pixels image.Image) string {
	t.Helper()
	var b strings.Builder
	assert.NoError(t, png.Encode(&b, pixels))
	return b.String()
}

// grayImage returns an image with one row of pixels.
func grayImage(pixels ...uint8) *image.Gray {
	return &image.Gray{Pix: pixels, Stride: len(pixels), Rect: image.Rect(0, 0, len(pixels), 1)}
}

// A class is a directory of images. A tar of the directory has the same examples, in its own order.
func TestImages(t *testing.T) {
	f, files := newFolder(t), map[string]string{}
	for i := range 9 {
		class := []string{"cat", "dog", "eel"}[i%3]
		files[class+"/"+string(rune('a'+i))+".png"] = encodePNG(t, grayImage(uint8(i), uint8(10*i)))
	}
	hidden := []string{".DS_Store", "cat/.hidden", ".git/x.png", "cat/.ipynb_checkpoints/a.png", "__MACOSX/cat/a.png", "_SUCCESS", "dog/._b.png"}
	for _, name := range hidden {
		files[name] = "x"
	}
	o := Defaults()
	o.BatchRows = 4
	o.Train = []string{f.writeAll(t, "pets", files)}
	rows := assert.Must(readSources(o))(t)[0]
	assert.True(t, rows.Image == (examples.Image{1, 2, 1}), "the images are %v", rows.Image)
	for i, label := range rows.Words {
		first := int(rows.Bytes[2*i])
		assert.True(t, label == []string{"cat", "dog", "eel"}[first%3] && int(rows.Bytes[2*i+1]) == 10*first,
			"row %d is of class %s, its pixels are %v", i, label, rows.Bytes[2*i:2*i+2])
	}
	assert.True(t, rows.Rows == 9 && !slices.IsSorted(rows.Words), "%d rows of the classes %v: expected 9, mixed", rows.Rows, rows.Words)
	archive := tarOf(t, files, append(hidden, "dog/b.png", "cat/a.png")...)
	o.Train = []string{f.write(t, "pets.tar.gz", gzipped(t, string(archive)))}
	rows = assert.Must(readSources(o))(t)[0]
	assert.True(t, slices.Equal(rows.Words, []string{"dog", "cat"}) && bytes.Equal(rows.Bytes, []byte{1, 10, 0, 0}),
		"the archive has the classes %v, the pixels %v", rows.Words, rows.Bytes)
}

func TestImagesHaveColours(t *testing.T) {
	colours := image.NewNRGBA(image.Rect(0, 0, 2, 1))
	colours.Set(0, 0, color.NRGBA{200, 100, 50, 255})
	colours.Set(1, 0, color.NRGBA{255, 255, 255, 0}) // transparent
	var jpg bytes.Buffer
	assert.NoError(t, jpeg.Encode(&jpg, grayImage(9, 9), &jpeg.Options{Quality: 100}))
	f := newFolder(t)
	o := Defaults()
	o.Train = []string{f.writeAll(t, "pets", map[string]string{"cat/1.png": encodePNG(t, colours), "cat/2.jpg": jpg.String()})}
	o.Image = []string{"1", "2", "3"}
	rows := assert.Must(readSources(o))(t)[0]
	for _, want := range [][]byte{{200, 100, 50, 0, 0, 0}, {9, 9, 9, 9, 9, 9}} {
		assert.True(t, bytes.Contains(rows.Bytes, want), "pixels %v: expected %v among them", rows.Bytes, want)
	}
	o.Image = []string{"1", "2"}
	rows = assert.Must(readSources(o))(t)[0]
	assert.True(t, bytes.Contains(rows.Bytes, []byte{124, 0}) && len(rows.Bytes) == 4,
		"without colours: %v, expected 0.299 · 200 + 0.587 · 100 + 0.114 · 50 and 0 among them", rows.Bytes)
}

func TestImagesThatAreWrong(t *testing.T) {
	gray, wide := encodePNG(t, grayImage(1, 2)), encodePNG(t, grayImage(1, 2, 3))
	for name, test := range map[string]struct {
		files map[string]string
		set   func(*Options)
		want  string
	}{
		"no files":      {map[string]string{".x": ""}, nil, "an empty folder: expected PNG or JPEG files"},
		"no folder":     {map[string]string{"1.png": gray}, nil, "1.png: image is not inside a class folder"},
		"another shape": {map[string]string{"a/1.png": gray, "a/2.png": wide}, nil, "pixels: expected 1 × "},
		"not as asked": {map[string]string{"a/1.png": gray}, func(o *Options) { o.Image = []string{"2", "2"} },
			"an image of 1 × 2 pixels: expected 2 × 2, as set in examples.image"},
		"two channels": {map[string]string{"a/1.png": gray}, func(o *Options) { o.Image = []string{"1", "2", "2"} }, "expected 1 or 3 channels"},
		"no image":     {map[string]string{"a/labels.txt": "1"}, nil, "labels.txt: neither PNG nor JPEG: remove the file"},
		"cut off":      {map[string]string{"a/1.png": gray[:len(gray)-20]}, nil, "1.png: "},
		"no class":     {map[string]string{"a/1.png": gray}, func(o *Options) { o.Classes = []string{"b", "c"} }, `label "a" is not one of the classes`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			o := Defaults()
			o.Train = []string{f.writeAll(t, "pets", test.files)}
			if test.set != nil {
				test.set(&o)
			}
			assert.MustFail(readSources(o))(t, test.want)
		})
	}
}

// Rows to predict are in the order of their names, and need no directories.
func TestImagesToPredict(t *testing.T) {
	images := newFolder(t).writeAll(t, "new", map[string]string{
		"2.png": encodePNG(t, grayImage(3, 4)), "1.png": encodePNG(t, grayImage(1, 2)), "3.png": encodePNG(t, grayImage(5, 6)),
	})
	for input, want := range map[string][]byte{images: {1, 2, 3, 4, 5, 6}, filepath.Join(images, "2.png"): {3, 4}} {
		var got []byte
		for rows, err := range File(context.Background(), input, Defaults(), layout.Features{Width: 2, Image: examples.Image{1, 2, 1}}) {
			assert.NoError(t, err)
			got = append(got, rows.Bytes...)
		}
		assert.Equal(t, got, want, "%s", input)
	}
}

// The first image determines whether images have colours. The colours of a later one are not dropped silently.
func TestImagesOfWhichSomeHaveColours(t *testing.T) {
	f := newFolder(t)
	gray, colours := encodePNG(t, grayImage(1, 2)), encodePNG(t, image.NewRGBA(image.Rect(0, 0, 2, 1)))
	images := f.writeAll(t, "new", map[string]string{"1.png": gray, "2.png": colours})
	var err error
	for _, err = range File(t.Context(), images, Defaults(), layout.Features{Width: 2}) {
		if err != nil {
			break
		}
	}
	want := "a color image, but 1.png is grayscale: set examples.image to [1, 2, 1] or [1, 2, 3]"
	assert.True(t, err != nil && strings.Contains(err.Error(), want), "%v: expected %q", err, want)
}

// tarOf returns a tar of files with these names, in their order.
func tarOf(t testing.TB, files map[string]string, names ...string) []byte {
	t.Helper()
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	for _, name := range names {
		assert.NoError(t, w.WriteHeader(&tar.Header{Name: "./pets/" + name, Mode: 0o600, Size: int64(len(files[name]))}))
		assert.Must(io.WriteString(w, files[name]))(t)
	}
	assert.NoError(t, w.Close())
	return content.Bytes()
}
