// Package stages turns a batch of examples, and the predictions of the stage before, into a block of features:
//
//	raw rows ──Preparation──▶ inputs ──Map──▶ block
//
// A [Map] makes features of one kind; kind.go says what a kind is and has the table of all kinds. Everything random comes from
// the seed of the plan through the generator that draw.go spells out. So a block is a pure function of the plan, the survey,
// the stage and the rows: it can be thrown away and made again, in this process or in another.
package stages
