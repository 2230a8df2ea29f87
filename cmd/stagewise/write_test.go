package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// modeOf returns the permissions of a file.
func modeOf(t *testing.T, file string) os.FileMode {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// What the program writes has the mode that the umask says, or that of the file that was there; a data directory is its owner's alone.
func TestModesOfWhatIsWritten(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(90, 1), "test.csv": blobs(30, 2), "secret.model": "",
		"shared.model": ""})
	before := syscall.Umask(0o027)
	defer syscall.Umask(before)
	for file, mode := range map[string]os.FileMode{"secret.model": 0o600, "shared.model": 0o664} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	typed(t, exitDone, "train", "-c", "good.yaml", "--quiet", "--model", "new.model", "--report", "report.json", "--set", "data_dir="+
		filepath.Join("data", "of", "blobs"))
	for _, file := range []string{"secret.model", "shared.model"} {
		typed(t, exitDone, "weights", "export", "-c", "good.yaml", "--set", "data_dir="+filepath.Join("data", "of", "blobs"), "--version",
			"1", "-o", file)
	}
	for file, want := range map[string]os.FileMode{
		"new.model": 0o640, "report.json": 0o640, "secret.model": 0o600, "shared.model": 0o664, "data": 0o750, "data/of": 0o750,
		"data/of/blobs": 0o700,
	} {
		if got := modeOf(t, file); got != want {
			t.Errorf("%s has mode %v, expected %v", file, got, want)
		}
	}
	if left, err := filepath.Glob(".*.model*"); len(left) > 0 || err != nil {
		t.Errorf("%v are left, %v", left, err)
	}
	if err := os.Chmod("data/of/blobs", 0o755); err != nil {
		t.Fatal(err)
	}
	typed(t, exitDone, "runs", "list", "-c", "good.yaml", "--set", "data_dir=data/of/blobs")
	if got := modeOf(t, "data/of/blobs"); got != 0o755 {
		t.Errorf("a data directory that was there has mode %v", got)
	}
}
