// Package heed reads the history that constrains runs: the rows on the forget topic, the versions trained on them, and the
// ancestor runs of a version.
//
//	forget topic ──Read, Compare──▶ Forgotten ──HaveLearnt──▶ versions that have learnt forgotten rows
//	plans topic ──ReadHistory──▶ History ──Runs──▶ the ancestor runs of a version
package heed
