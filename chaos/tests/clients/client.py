"""The Python client `toxiproxy-python`, unchanged: python3 client.py API_HOST API_PORT UPSTREAM LISTEN_HOST.

It has no call that updates a toxic, and its populate is made of single creates.
"""

import socket
import sys
import time

from toxiproxy import Toxiproxy
from toxiproxy.exceptions import NotFound, ProxyExists

LATENCY_S = 0.08


def connect(proxy):
    host, port = proxy.listen.rsplit(":", 1)
    stream = socket.create_connection((host, int(port)), timeout=20)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def round_trip(stream):
    begin = time.monotonic()
    stream.sendall(b"ping")
    back = b""
    while len(back) < 4:
        back += stream.recv(4) or sys.exit("the connection was closed")
    assert back == b"ping", back
    return time.monotonic() - begin


def refused(call, error):
    try:
        call()
    except error:
        return
    sys.exit(f"no {error.__name__}")


def main(host, port, upstream, listen):
    server = Toxiproxy()
    server.update_api_consumer(host, int(port))
    assert server.running() and b"version" in server.version()
    assert server.proxies() == {}

    proxy = server.create(upstream=upstream, name="p", listen=f"{listen}:0")
    assert list(server.proxies()) == ["p"] and proxy.enabled
    refused(lambda: server.create(upstream=upstream, name="p"), ProxyExists)
    stream = connect(proxy)
    round_trip(stream)

    proxy.add_toxic(type="latency", attributes={"latency": int(LATENCY_S * 1000)})
    toxic = proxy.get_toxic("latency_downstream")
    assert (toxic.attributes, toxic.toxicity) == ({"latency": 80, "jitter": 0}, 1), vars(toxic)
    assert round_trip(stream) >= LATENCY_S
    proxy.destroy_toxic("latency_downstream")
    assert proxy.toxics() == {}
    refused(lambda: proxy.destroy_toxic("latency_downstream"), NotFound)
    round_trip(stream)

    proxy.add_toxic(type="limit_data", name="cut", stream="downstream", attributes={"bytes": 2})
    cut = connect(proxy)
    cut.sendall(b"ping")
    assert cut.makefile("rb").read() == b"pi"
    server.reset()
    assert proxy.toxics() == {}

    with proxy.down():
        refused(lambda: connect(proxy), ConnectionRefusedError)
        assert stream.recv(1) == b"", "a disabled proxy keeps connections"
    round_trip(connect(proxy))

    made = server.populate([{"name": name, "upstream": upstream} for name in ("q", "r")])
    assert [proxy.name for proxy in made] == ["q", "r"]
    assert sorted(server.proxies()) == ["p", "q", "r"]
    round_trip(connect(made[1]))
    server.destroy_all()
    assert server.proxies() == {}


main(*sys.argv[1:])
