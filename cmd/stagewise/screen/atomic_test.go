package screen

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// After an error a file has its old content, otherwise all of its new content. No other file is left in its folder.
func TestWriteIsAtomic(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("old", []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("old", "link"); err != nil {
		t.Fatal(err)
	}
	half := func(w io.Writer) {
		if _, err := w.Write([]byte("half")); err != nil {
			t.Error(err)
		}
	}
	// A failed write leaves the file alone. A write through a link replaces what the link points to.
	err := Write("old", nil, func(w io.Writer) error { half(w); return os.ErrClosed })
	if content, _ := os.ReadFile("old"); err == nil || string(content) != "old" {
		t.Errorf("%q, error %v", content, err)
	}
	if err := Write("link", nil, func(w io.Writer) error { half(w); return nil }); err != nil {
		t.Error(err)
	}
	if content, _ := os.ReadFile("old"); string(content) != "half" {
		t.Errorf("%q behind the link", content)
	}
	if files, _ := filepath.Glob("*"); len(files) != 2 {
		t.Errorf("files %v", files)
	}
}
