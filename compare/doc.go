// Package compare compares runs: the fields of their plans, and their results. [Differences] and
// [Measures] are the rows of tables, and [WritePage] writes a self-contained HTML page.
package compare
