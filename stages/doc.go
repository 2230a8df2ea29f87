// Package stages turns a batch of examples, and the predictions before it, into
// a block of features:
//
//	raw rows ──Preparation──▶ inputs ──Map──▶ block
//
// Everything drawn is drawn from the seed of the plan by a generator that
// draw.go spells out, so a block is a pure function of (plan, survey, stage,
// rows): it can be thrown away and made again, here or elsewhere.
package stages
