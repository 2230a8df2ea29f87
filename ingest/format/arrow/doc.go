// Package arrow reads files and streams of Arrow as tables.
package arrow
