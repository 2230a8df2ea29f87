//go:build !noblas && (amd64 || arm64)

package kernel

// families lists what Open looks for, in order. libblas.so.3 is the administrator's choice, often the slow reference
// BLAS: Open("") uses it only if it is one of the other families.
func families() []family {
	return []family{
		{"openblas", []string{"libopenblas.so.0", "libopenblas.so"}},
		{"blis", []string{"libblis.so.4", "libblis.so"}},
		{"mkl", []string{"libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so"}},
		{"blas", []string{"libblas.so.3"}},
	}
}

// prepare does nothing on Linux: configure sets up the libraries after they are opened.
func prepare(string) error { return nil }

// configureAccelerate finds no Accelerate on Linux.
func configureAccelerate(string) (name string, known bool) { return "", false }
