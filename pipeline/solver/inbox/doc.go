// Package inbox buffers the statistics of a run until they are reduced: the first complete record of each identity.
package inbox
