// Package message describes the formats of the messages of a topic: what turns the value of a message into rows of cells.
//
// The columns of a row are values of the message, each by its name, or by its path if it is within another value.
package message
