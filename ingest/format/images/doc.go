// Package images reads folders and archives of photographs as examples. The name
// of an image's folder is its label.
package images
