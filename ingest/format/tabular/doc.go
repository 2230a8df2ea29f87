// Package tabular reads tables whose columns have names and types as examples. Arrow, Parquet and JSON Lines are such
// tables.
package tabular
