// Package libsvm reads the sparse rows of LIBSVM and SVMlight files as examples.
package libsvm
