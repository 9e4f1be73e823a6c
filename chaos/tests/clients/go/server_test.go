package toxiproxy_test

import (
	"fmt"
	"net"
	"os"
	"testing"
)

// The API of the server under test.
var api = os.Getenv("TOXIPROXY_API")

// The port that stands for a port of Toxiproxy's tests.
var ports = map[int]int{}

// Takes the place of the server that Toxiproxy's tests start in their own process.
func WithServer(t *testing.T, f func(string)) {
	defer func() {
		proxies, err := client.Proxies()
		if err != nil {
			t.Fatal("Failed to list what to clear:", err)
		}
		for _, proxy := range proxies {
			if err := proxy.Delete(); err != nil {
				t.Error("Failed to clear", proxy.Name, err)
			}
		}
	}()
	f(api)
}

// Takes the place of a fixed address in Toxiproxy's tests: the same host, another port, always the same for one port.
func at(host string, port int) string {
	free, known := ports[port]
	if !known {
		free = freePort(port)
		ports[port] = free
	}
	return fmt.Sprintf("%s:%d", host, free)
}

// The ports that are ours: who listens on this host has the same port of 127.0.0.1, also while no proxy has it. So
// two processes that run these tests at the same time do not even look at each other's.
const claimHost = "127.77.0.1"

var claims []net.Listener

// Below the ports that the system gives to whoever asks for any, so that nobody gets it by chance.
func freePort(port int) int {
	for try := 0; try < 1000; try++ {
		candidate := 10000 + (port+97*os.Getpid()+try)%20000
		claim, err := net.Listen("tcp", fmt.Sprintf("%s:%d", claimHost, candidate))
		if err != nil {
			continue
		}
		// Held to the end, also if somebody else listens there.
		claims = append(claims, claim)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", candidate))
		if err == nil {
			listener.Close()
			return candidate
		}
	}
	panic("no port is free")
}

func AssertProxyUp(t *testing.T, addr string, up bool) {
	conn, err := net.Dial("tcp", addr)
	if err == nil {
		conn.Close()
	}
	if up != (err == nil) {
		t.Errorf("Expected up: %t at %s, got: %v", up, addr, err)
	}
}
