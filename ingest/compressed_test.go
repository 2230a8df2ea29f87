package ingest

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/stagewise/stagewise/ingest/input"
)

const plainRows = "a,1,2\nb,3,4\n"

// bzip2Rows is plainRows, compressed by bzip2 1.0.8: Go only decompresses bzip2.
const bzip2Rows = "425a683931415926535954c5397e0000055900001000043c003000200021a0c9ea10c088fa0090bc5dc914e142415314e5f8"

func gzipped(t testing.TB, content string) []byte {
	t.Helper()
	var file bytes.Buffer
	w := gzip.NewWriter(&file)
	must(io.WriteString(w, content))(t)
	noError(t, w.Close())
	return file.Bytes()
}

func zstandard(t testing.TB, content string) []byte {
	t.Helper()
	w := must(zstd.NewWriter(nil))(t)
	defer w.Close()
	return w.EncodeAll([]byte(content), nil)
}

func bzipped(t testing.TB, file string) []byte {
	t.Helper()
	return must(hex.DecodeString(file))(t)
}

func readContent(file io.Reader) (string, error) {
	c, err := input.New(context.Background(), "file", io.NopCloser(file))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(c)
	return string(text), err
}

func TestContent(t *testing.T) {
	zipped := gzipped(t, plainRows)
	twice := bytes.Repeat(zipped, 2)
	bz := bzipped(t, bzip2Rows)
	for name, test := range map[string]struct {
		file []byte
		want string
	}{
		"plain":              {[]byte(plainRows), plainRows},
		"empty":              {nil, ""},
		"gzip":               {zipped, plainRows},
		"gzip, empty":        {gzipped(t, ""), ""},
		"gzip, two members":  {twice, plainRows + plainRows},
		"gzip, large":        {gzipped(t, strings.Repeat(plainRows, 100_000)), strings.Repeat(plainRows, 100_000)},
		"bzip2":              {bz, plainRows},
		"bzip2, two streams": {bytes.Repeat(bz, 2), plainRows + plainRows},
		"bzip2, empty":       {bzipped(t, "425a683917724538509000000000"), ""},
		"zstd":               {zstandard(t, plainRows), plainRows},
		"zstd, two frames":   {bytes.Repeat(zstandard(t, plainRows), 2), plainRows + plainRows},
		"zstd, large":        {zstandard(t, strings.Repeat(plainRows, 100_000)), strings.Repeat(plainRows, 100_000)},
		"begins like bzip2":  {[]byte("BZh1,2,3\n"), "BZh1,2,3\n"},
	} {
		for _, from := range []io.Reader{bytes.NewReader(test.file), iotest.OneByteReader(bytes.NewReader(test.file))} {
			if got, err := readContent(from); err != nil || got != test.want {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
		}
	}
}

// A compressed file truncated at any byte is an error with the offset, even if only bytes after the content are missing.
// No example is lost silently.
func TestContentCutOff(t *testing.T) {
	for kind, file := range map[string][]byte{"gzip": gzipped(t, plainRows), "bzip2": bzipped(t, bzip2Rows), "zstd": zstandard(t, plainRows)} {
		magic := map[string]int{"gzip": 2, "bzip2": 4, "zstd": 4}[kind]
		for n := magic; n < len(file); n++ {
			_, err := readContent(bytes.NewReader(file[:n]))
			want := fmt.Sprintf("file: offset %d: the %s stream is cut off: unexpected EOF", n, kind)
			if err == nil || err.Error() != want || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%d bytes of %s: %v", n, kind, err)
			}
		}
		f := newFolder(t)
		o := Defaults()
		for n := range file {
			o.Train = []string{f.write(t, "a.csv", file[:n])}
			if rows, err := readSources(o); !isFileError(err) {
				t.Errorf("%d bytes of %s: %v, %v", n, kind, rows, err)
			}
		}
	}
	// the checksums at the end of both files of an idx pair are verified too
	images, labels := idxFile(8, []uint32{2, 1}, []uint8{1, 2}), idxFile(8, []uint32{2}, []uint8{1, 2})
	for _, cut := range []string{"images", "labels"} {
		a, b := gzipped(t, string(images)), gzipped(t, string(labels))
		if cut == "images" {
			a = a[:len(a)-1]
		} else {
			b = b[:len(b)-1]
		}
		f := newFolder(t)
		o := Defaults()
		o.Train = []string{f.write(t, "images-ubyte.gz", a), f.write(t, "labels-ubyte.gz", b)}
		_, err := readSources(o)
		if err == nil || !strings.HasPrefix(f.text(err), cut+"-ubyte.gz: offset ") || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s cut off: %v", cut, err)
		}
	}
}

func TestContentDamaged(t *testing.T) {
	file := gzipped(t, plainRows)
	file[len(file)-5] ^= 1 // in the length: RFC 1952, 2.3
	file[len(file)-6] ^= 1 // in the checksum
	_, err := readContent(bytes.NewReader(file))
	if want := fmt.Sprintf("file: offset %d: the gzip stream is damaged: gzip: invalid checksum", len(file)); err == nil ||
		err.Error() != want {
		t.Errorf("checksum: %v, expected %s", err, want)
	}
	bz := bzipped(t, bzip2Rows)
	bz[12] ^= 1
	if _, err = readContent(bytes.NewReader(bz)); !isFileError(err) || !strings.Contains(err.Error(), "the bzip2 stream is damaged: ") {
		t.Errorf("bzip2: %v", err)
	}
	_, err = readContent(bytes.NewReader(append(gzipped(t, plainRows), "rest"...)))
	if !isFileError(err) {
		t.Errorf("bytes after the stream: %v", err)
	}
	// flipped bits cause no panic
	for i := range file {
		for bit := range 8 {
			damaged := gzipped(t, plainRows)
			damaged[i] ^= 1 << bit
			if text, err := readContent(bytes.NewReader(damaged)); err != nil && !isFileError(err) {
				t.Errorf("%T: %v after %q", err, err, text)
			}
		}
	}
}

// Any file either has a content, or reading it returns a *input.Error.
func FuzzContent(f *testing.F) {
	zipped := gzipped(f, plainRows)
	for _, file := range [][]byte{
		nil, []byte(plainRows), zipped, append(zipped, zipped...), append(zipped, "more"...), zipped[:len(zipped)-3], bzipped(f, bzip2Rows),
		zstandard(f, plainRows), zstandard(f, strings.Repeat("0", 1<<20)), zstandard(f, plainRows)[:9], []byte("\xfd7zXZ\x00"),
		[]byte("PK\x03\x04"),
		gzipped(f, strings.Repeat("0", 1<<20)), []byte("BZh9"), []byte("BZh9\x17\x72\x45\x38\x50\x90\x00\x00\x00\x00"),
	} {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		c, err := input.New(t.Context(), "file", io.NopCloser(bytes.NewReader(file)))
		if err != nil {
			checkFuzzError(t, err)
			return
		}
		if _, err := io.Copy(io.Discard, io.LimitReader(c, 16<<20)); err != nil {
			checkFuzzError(t, err)
		}
	})
}
