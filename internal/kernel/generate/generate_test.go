package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The generated files in package kernel are up to date.
func TestGeneratedFilesAreUpToDate(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is not what this program writes: run go generate ./internal/kernel, and commit the result", name)
		}
	}
}

// All assembly is generated.
func TestAllAssemblyIsGenerated(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(filepath.Join("..", "..", ".."), func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".." {
			return filepath.SkipDir // what scripts fetched
		}
		if filepath.Ext(path) == ".s" && files[filepath.Base(path)] == nil {
			t.Errorf("%s is written by hand: describe its loop here", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
