package export

import (
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/model"
)

// Format is a format of files that have a whole model.
type Format struct {
	// Name is the format's name on the command line.
	Name string
	// Doc says in a few words what reads such files.
	Doc string
	// Write writes a model. It wraps errors of w. Other errors say what of the model the format has no room for.
	Write func(w io.Writer, m *model.Model) error
}

// All returns the formats, in the order of the documentation. The first is that of model files.
func All() []Format {
	return []Format{arrow(), safetensors(), onnxFormat()}
}

// Names returns the names of all formats, in the order of the documentation.
func Names() (names []string) {
	for _, f := range All() {
		names = append(names, f.Name)
	}
	return names
}

// OfFile returns the name of the format that is the extension of a file, as in model.onnx; that of model files if there is none.
func OfFile(file string) string {
	if format, ok := Named(strings.TrimPrefix(filepath.Ext(file), ".")); ok {
		return format.Name
	}
	return Names()[0]
}

// Named returns the format with that name, and whether it exists.
func Named(name string) (Format, bool) {
	all := All()
	i := slices.IndexFunc(all, func(f Format) bool { return f.Name == name })
	if i < 0 {
		return Format{}, false
	}
	return all[i], true
}
