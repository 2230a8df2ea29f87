// Package parquet reads Apache Parquet as tables, in bounded memory.
package parquet
