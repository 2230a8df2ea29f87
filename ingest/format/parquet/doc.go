// Package parquet reads Parquet files as Arrow records, so that their columns have the values of Arrow's.
package parquet
