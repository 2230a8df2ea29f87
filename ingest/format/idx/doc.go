// Package idx reads the files of MNIST, arrays of images and of their labels, as
// examples.
package idx
