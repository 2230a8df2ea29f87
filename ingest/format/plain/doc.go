// Package plain has the input formats that need no library of their own: CSV, LIBSVM, the idx files of MNIST, and photographs in folders
// and archives.
package plain
