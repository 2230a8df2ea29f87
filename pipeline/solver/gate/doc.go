// Package gate decides whether a version of a chain is worse than the one that subscribers have, beyond chance, from
// how both have predicted the same rows.
package gate
