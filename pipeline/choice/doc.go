// Package choice chooses stages by how well models with them predict rows that they have not seen:
//
//	job without stages, or whose stop rule ends its stages ──Resolve──▶ job with the stages of its run
//
// The models are those of a search, on topics of its own. Nothing of them stays.
package choice
