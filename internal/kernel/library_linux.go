//go:build !noblas && (amd64 || arm64)

package kernel

// families are what Open looks for, in this order. libblas.so.3 is whatever the administrator chose, often the slow
// reference: of itself, Open takes it only if it is one of the others in disguise.
func families() []family {
	return []family{
		{"openblas", []string{"libopenblas.so.0", "libopenblas.so"}},
		{"blis", []string{"libblis.so.4", "libblis.so"}},
		{"mkl", []string{"libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so"}},
		{"blas", []string{"libblas.so.3"}},
	}
}

// prepare has nothing to do here: the libraries are set up once they are open.
func prepare(string) error { return nil }

func settleAccelerate(string) (name string, known bool) { return "", false }
