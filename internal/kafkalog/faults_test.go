package kafkalog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A failed write returns the file error, not a Kafka error code. When the cause is gone, writes succeed again, and nothing
// is missing.
func TestRefusedWrite(t *testing.T) {
	ctx, dir := testContext(t), t.TempDir()
	l, err := Open(ctx, Options{DataDir: dir})
	noError(t, err)
	defer func() { noError(t, l.Close()) }()
	noError(t, l.Create(ctx, Topic{Name: "x", Partitions: 1}))
	// A file in place of the partition's directory.
	folder := filepath.Join(dir, "log", "partitions", "x-0")
	noError(t, os.RemoveAll(folder))
	noError(t, os.MkdirAll(filepath.Dir(folder), 0o755))
	noError(t, os.WriteFile(folder, nil, 0o644))
	_, err = l.Append(ctx, "x", 0, numbered(0, 10))
	if !errors.Is(err, syscall.ENOTDIR) || !strings.HasPrefix(err.Error(), "append to x[0]: the embedded broker could not write to "+
		folder+": not a directory; ") {
		t.Errorf("error %v", err)
	}
	noError(t, os.Remove(folder))
	if base, err := l.Append(ctx, "x", 0, numbered(0, 10)); base != 0 || err != nil {
		t.Errorf("offset %d, %v", base, err)
	}
}
