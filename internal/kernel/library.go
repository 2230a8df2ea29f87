//go:build !noblas && (linux || darwin) && (amd64 || arm64)

package kernel

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/cpu"
)

const canOpen = true

// family is a BLAS and the names of its shared library, in order of preference.
type family struct {
	name      string
	libraries []string
}

func openBest() *BLAS {
	for _, f := range families() {
		for _, path := range f.libraries {
			if b, err := openLibrary(path); err == nil && b.fast {
				return b
			}
		}
	}
	return nil
}

func openChoice(choice string) (*BLAS, error) {
	for _, f := range families() {
		if !strings.EqualFold(choice, f.name) {
			continue
		}
		var tried []error
		for _, path := range f.libraries {
			b, err := openLibrary(path)
			if err == nil {
				return b, nil
			}
			tried = append(tried, err)
		}
		return nil, errors.Join(tried...)
	}
	return openLibrary(choice)
}

// openLibrary opens a shared library that has the BLAS. The library stays open until the process ends: a library that
// may have started threads can't be unloaded.
func openLibrary(path string) (*BLAS, error) {
	if err := prepare(path); err != nil {
		return nil, err
	}
	handle, err := load(path)
	if err != nil {
		return nil, err
	}
	l, names := &library{}, namesOf(handle)
	for _, r := range []struct {
		symbol  string
		address *uintptr
	}{
		{"sgemm_", &l.sgemm}, {"ssyrk_", &l.ssyrk},
		{"dgemm_", &l.dgemm}, {"dsyrk_", &l.dsyrk}, {"dtrsm_", &l.dtrsm}, {"dtrmm_", &l.dtrmm},
	} {
		if *r.address, err = purego.Dlsym(handle, names.prefix+r.symbol); err != nil {
			return nil, fmt.Errorf("%w: %w", errNotBLAS, err)
		}
	}
	for symbol, address := range map[string]*uintptr{"dpotrf_": &l.dpotrf, "dsyevd_": &l.dsyevd} {
		if has(handle, names.prefix+symbol) {
			if *address, err = purego.Dlsym(handle, names.prefix+symbol); err != nil {
				return nil, err
			}
		}
	}
	name, known := configure(handle, names, path)
	return &BLAS{routines: l, name: name, fast: known, inPlace: inPlace(handle, name)}, nil
}

// inPlace returns the most multiplications of a float32 product for which a library does not copy the matrices first, 0
// if it always copies. OpenBLAS with AVX-512 copies nothing up to 100³ multiplications
// (kernel/x86_64/sgemm_small_kernel_permit_skylakex.c) if the library contains the kernel of that name.
func inPlace(handle uintptr, name string) int {
	core := strings.ToUpper(name[strings.LastIndexByte(name, ' ')+1:])
	switch core {
	case "SKYLAKEX", "COOPERLAKE", "SAPPHIRERAPIDS":
		if has(handle, "sgemm_small_kernel_b0_nn_"+core) {
			return 100 * 100 * 100
		}
	}
	return 0
}

// load opens a shared library. It makes OpenBLAS use one thread, and code that fits the processor: OpenBLAS reads both
// from the environment, and only when it is loaded.
func load(path string) (uintptr, error) {
	// OpenBLAS would otherwise start its threads on load, and each spins for a third of a second of processor time,
	// even though configure limits the library to one thread.
	threads := variable{"OPENBLAS_NUM_THREADS", "1"}
	handle, err := openWith(path, threads)
	if err != nil {
		return 0, err
	}
	corename := namesOf(handle).prefix + corename
	if !has(handle, corename) {
		return handle, nil
	}
	// An OpenBLAS older than the processor may not recognize it. It then falls back to the code for the Prescott of
	// 2004, at a quarter of the speed.
	core := variable{"OPENBLAS_CORETYPE", coreType()}
	if core.value == "" || os.Getenv(core.name) != "" || function[func() string](handle, corename)() != "Prescott" {
		return handle, nil
	}
	if err := purego.Dlclose(handle); err != nil {
		return 0, err
	}
	return openWith(path, threads, core)
}

// symbols is a library's spelling of its function names.
type symbols struct{ prefix string }

// namesOf returns the spelling of a library. The OpenBLAS of the Python package scipy-openblas32 prefixes all names, so
// that it does not replace another BLAS in the same process.
func namesOf(handle uintptr) symbols {
	if prefix := "scipy_"; has(handle, prefix+"sgemm_") {
		return symbols{prefix}
	}
	return symbols{}
}

// variable is an environment variable.
type variable struct{ name, value string }

// openWith opens a shared library with these variables set in the environment.
func openWith(path string, variables ...variable) (uintptr, error) {
	for _, v := range variables {
		before, set := os.LookupEnv(v.name)
		if err := os.Setenv(v.name, v.value); err != nil {
			return 0, err
		}
		defer func() {
			if os.Unsetenv(v.name); set {
				os.Setenv(v.name, before)
			}
		}()
	}
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

const corename = "openblas_get_corename"

// coreType returns OpenBLAS's name of the best core type that this processor and operating system support, "" for the
// oldest.
func coreType() string {
	switch x := cpu.X86; {
	case x.HasAVX512F && x.HasAVX512CD && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL:
		return "SkylakeX"
	case x.HasAVX2 && x.HasFMA:
		return "Haswell"
	}
	return ""
}

// configure identifies the BLAS of a library, sets it to one thread, and returns its name, version and core type. It
// names an unknown library by its path, and does not change it.
func configure(handle uintptr, names symbols, path string) (name string, known bool) {
	config, corename, setThreads := names.prefix+"openblas_get_config", names.prefix+corename, names.prefix+"openblas_set_num_threads"
	switch {
	case has(handle, config, corename, setThreads):
		function[func(threads int32)](handle, setThreads)(1)
		// The configuration reads "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH …".
		words := strings.Fields(function[func() string](handle, config)())
		core := function[func() string](handle, corename)()
		return strings.Join(append(words[:min(2, len(words))], core), " "), true
	case has(handle, "bli_thread_set_num_threads", "bli_info_get_version_str", "bli_arch_string", "bli_arch_query_id"):
		function[func(threads int)](handle, "bli_thread_set_num_threads")(1)
		version := function[func() string](handle, "bli_info_get_version_str")()
		core := function[func(id int32) string](handle, "bli_arch_string")(function[func() int32](handle, "bli_arch_query_id")())
		return "BLIS " + version + " " + core, true
	case has(handle, "MKL_Set_Threading_Layer", "MKL_CBWR_Set", "MKL_CBWR_Get_Auto_Branch", "MKL_Get_Version_String"):
		return configureMKL(handle), true
	}
	if name, known = configureAccelerate(path); known {
		return name, true
	}
	return path, false
}

// Constants of MKL's mkl_service.h and mkl_types.h.
const (
	mklSequential = 1 // MKL_THREADING_SEQUENTIAL: the OpenMP layers end the process if OpenMP is missing
	mklAuto       = 2 // MKL_CBWR_AUTO: the bits do not depend on the alignment of slices
)

func configureMKL(handle uintptr) string {
	function[func(layer int32) int32](handle, "MKL_Set_Threading_Layer")(mklSequential)
	function[func(mode int32) int32](handle, "MKL_CBWR_Set")(mklAuto)
	text := make([]byte, 200)
	function[func(text []byte, size int32)](handle, "MKL_Get_Version_String")(text, int32(len(text)))
	// The text reads "Intel(R) oneAPI Math Kernel Library Version 2025.0-Product Build 20241009 for …".
	_, version, _ := strings.Cut(string(text), "Version ")
	version, _, _ = strings.Cut(version, "-")
	branch := function[func() int32](handle, "MKL_CBWR_Get_Auto_Branch")()
	return fmt.Sprintf("MKL %s branch %d", version, branch)
}

// has reports whether a library has all the symbols.
func has(handle uintptr, symbols ...string) bool {
	for _, symbol := range symbols {
		if _, err := purego.Dlsym(handle, symbol); err != nil {
			return false
		}
	}
	return true
}

// function returns a C function of the library. Every call of that function allocates, so it is only for setup.
func function[F any](handle uintptr, symbol string) F {
	var f F
	purego.RegisterLibFunc(&f, handle, symbol)
	return f
}
