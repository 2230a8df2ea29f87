// Package gate decides whether a version of a chain is significantly worse than the version for subscribers, from the
// losses of both on the same rows.
package gate
