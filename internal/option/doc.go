// Package option lets a package describe the configuration keys of its options, and report invalid values. Package config reads the
// descriptions: see its Keys.
package option
