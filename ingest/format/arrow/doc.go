// Package arrow reads Arrow files and streams as tables.
package arrow
