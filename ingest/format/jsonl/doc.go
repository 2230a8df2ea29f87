// Package jsonl reads JSON Lines as tables whose types are inferred from the first rows.
package jsonl
