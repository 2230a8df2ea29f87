// Package endpoint protects the HTTP servers of the program from their clients: it limits connections, and rejects requests
// for other machines.
package endpoint
