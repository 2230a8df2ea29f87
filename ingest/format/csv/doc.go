// Package csv reads CSV (RFC 4180) as examples, one in each row.
package csv
