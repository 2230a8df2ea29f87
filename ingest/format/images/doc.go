// Package images reads directories and archives of photographs as examples. The name of an image's directory is its label.
package images
