package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// arithmetic returns what decides, besides the terms, the bits of a sum in this process: build, BLAS and vector instructions.
func arithmetic(blas *kernel.BLAS) (schemas.Arithmetic, error) {
	build, err := build()
	if err != nil {
		return schemas.Arithmetic{}, fmt.Errorf("find the build of this program: %w", err)
	}
	return schemas.Arithmetic{
		Build: fmt.Sprintf("%s %s %s/%s", build, runtime.Version(), runtime.GOOS, runtime.GOARCH),
		BLAS:  blas.Name(), Vector: blas.Vector(),
	}, nil
}

// build returns the commit that this program was built from. If the commit is not known for certain, it returns the digest of the
// program's file.
func build() (string, error) {
	if info, ok := debug.ReadBuildInfo(); ok {
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		if revision := settings["vcs.revision"]; revision != "" && settings["vcs.modified"] == "false" {
			return revision, nil
		}
	}
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
