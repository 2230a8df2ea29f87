// Package message defines the interface of message formats, which decode a message value to rows of cells.
//
// The columns of a row are values of the message, identified by name, or by path if they are nested.
package message
