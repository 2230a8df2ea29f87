package endpoint

import (
	"fmt"
	"net"
	"net/http"
	"strings"
)

// CheckHost returns an error unless a request is addressed to this machine, as all requests of honest clients to a loopback
// address are. A browser on this machine may send others: a page can give its own name the address of this machine (DNS
// rebinding), and could then read the answers.
func CheckHost(r *http.Request) error {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host).IsLoopback() {
		return nil
	}
	return fmt.Errorf("%.80q is not a name of this machine: ask for localhost", r.Host)
}

// IsLocal reports whether only this machine can reach a listener.
func IsLocal(listener net.Listener) bool {
	address, ok := listener.Addr().(*net.TCPAddr)
	return ok && address.IP.IsLoopback()
}
