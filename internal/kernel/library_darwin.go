//go:build !noblas && (amd64 || arm64)

package kernel

import (
	"os"
	"syscall"
)

const accelerate = "/System/Library/Frameworks/Accelerate.framework/Accelerate"

// families lists what Open looks for, in order. Accelerate is always available, and only Accelerate uses the matrix
// units of Apple's processors.
func families() []family {
	return []family{
		{"accelerate", []string{accelerate}},
		{"openblas", []string{"libopenblas.dylib", "/opt/homebrew/opt/openblas/lib/libopenblas.dylib",
			"/usr/local/opt/openblas/lib/libopenblas.dylib"}},
		{"blis", []string{"libblis.dylib", "/opt/homebrew/opt/blis/lib/libblis.dylib", "/usr/local/opt/blis/lib/libblis.dylib"}},
	}
}

// prepare sets Accelerate to one thread before it is loaded. Not all its versions have a function for that.
func prepare(path string) error {
	if path != accelerate {
		return nil
	}
	return os.Setenv("VECLIB_MAXIMUM_THREADS", "1")
}

// configureAccelerate names Accelerate, whose version is the operating system's.
func configureAccelerate(path string) (name string, known bool) {
	if path != accelerate {
		return "", false
	}
	name = "Accelerate"
	for _, key := range []string{"kern.osproductversion", "machdep.cpu.brand_string"} {
		if value, err := syscall.Sysctl(key); err == nil {
			name += " " + value
		}
	}
	return name, true
}
