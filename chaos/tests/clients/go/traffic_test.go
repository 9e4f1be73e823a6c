package toxiproxy_test

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	tclient "github.com/Shopify/toxiproxy/v2/client"
)

const latency = 80 * time.Millisecond

// Toxiproxy's tests of its API send nothing through the proxies.
func TestWhatIsAskedForHappensToTraffic(t *testing.T) {
	WithServer(t, func(string) {
		proxy, err := client.CreateProxy("p", "127.0.0.1:0", os.Getenv("ECHO"))
		must(t, err)
		stream := connect(t, proxy)
		roundTrip(t, stream)

		_, err = proxy.AddToxic("slow", "latency", "downstream", 1, tclient.Attributes{"latency": 1})
		must(t, err)
		_, err = proxy.UpdateToxic("slow", -1, tclient.Attributes{"latency": latency.Milliseconds()})
		must(t, err)
		if took := roundTrip(t, stream); took < latency {
			t.Errorf("latency of %s, echo after %s", latency, took)
		}
		must(t, proxy.RemoveToxic("slow"))
		roundTrip(t, stream)

		_, err = proxy.AddToxic("cut", "limit_data", "downstream", 1, tclient.Attributes{"bytes": 2})
		must(t, err)
		cut := connect(t, proxy)
		_, err = cut.Write([]byte("ping"))
		must(t, err)
		if seen, err := io.ReadAll(cut); string(seen) != "pi" || err != nil {
			t.Errorf("expected `pi`, got `%s` and %v", seen, err)
		}
		must(t, client.ResetState())
		roundTrip(t, connect(t, proxy))

		must(t, proxy.Disable())
		AssertProxyUp(t, proxy.Listen, false)
		must(t, proxy.Enable())
		roundTrip(t, connect(t, proxy))
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func connect(t *testing.T, proxy *tclient.Proxy) net.Conn {
	t.Helper()
	stream, err := net.Dial("tcp", proxy.Listen)
	must(t, err)
	must(t, stream.SetDeadline(time.Now().Add(20*time.Second)))
	t.Cleanup(func() { stream.Close() })
	return stream
}

func roundTrip(t *testing.T, stream net.Conn) time.Duration {
	t.Helper()
	begin := time.Now()
	_, err := stream.Write([]byte("ping"))
	must(t, err)
	back := make([]byte, 4)
	_, err = io.ReadFull(stream, back)
	must(t, err)
	if string(back) != "ping" {
		t.Fatalf("expected an echo, got `%s`", back)
	}
	return time.Since(begin)
}
