// Package compare shows what runs have in common and in which they differ: the fields of their plans, and how they went. [Differences] and
// [Measures] are the rows of tables, and [WritePage] writes a page of HTML that needs nothing else.
package compare
