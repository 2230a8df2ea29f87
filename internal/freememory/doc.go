// Package freememory returns how much more memory a process may use: the free memory of the machine, within the
// limits of its control groups, as in a container.
package freememory
