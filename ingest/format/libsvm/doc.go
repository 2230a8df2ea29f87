// Package libsvm reads the sparse rows of LIBSVM and SVMlight as examples.
package libsvm
