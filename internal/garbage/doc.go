// Package garbage limits the unused memory of a process: garbage, and pages that the collector keeps.
package garbage
