// Package option is how a package describes the keys of the configuration that set its options, and values that they
// can't have. Package config reads the descriptions: see its Keys.
package option
