// Package idx reads MNIST files, arrays of images and of labels, as examples.
package idx
