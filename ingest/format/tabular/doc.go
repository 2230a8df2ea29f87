// Package tabular has the rows of tables as their formats read them: cells, columns of values, and blocks of both. The roles
// of columns are not known here.
package tabular
