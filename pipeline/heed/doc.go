// Package heed reads the past that constrains runs: the rows on the forget topic, whether versions were trained on them,
// and the ancestor runs of a version.
//
//	forget topic ──Read, Compare──▶ Forgotten ──HaveLearnt──▶ versions that have learnt forgotten rows
//	plans topic ──ReadHistory──▶ History ──Runs──▶ the ancestor runs of a version
package heed
