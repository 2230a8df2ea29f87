// Package deploy has no code: its tests check the files with which others run stagewise. It is a module of its own, so
// that the program does not depend on what the tests need.
package deploy
