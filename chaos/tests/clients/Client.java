import static java.nio.charset.StandardCharsets.US_ASCII;

import eu.rekawek.toxiproxy.Proxy;
import eu.rekawek.toxiproxy.ToxiproxyClient;
import eu.rekawek.toxiproxy.model.ToxicDirection;
import eu.rekawek.toxiproxy.model.toxic.Latency;
import eu.rekawek.toxiproxy.model.toxic.ResetPeer;
import java.io.IOException;
import java.net.ConnectException;
import java.net.Socket;
import java.util.concurrent.Callable;

/**
 * The Java client `toxiproxy-java`, unchanged: java Client.java API_HOST API_PORT UPSTREAM LISTEN_HOST. It has no call for populate.
 */
class Client {
    private static final long LATENCY_MS = 80;

    public static void main(String[] arguments) throws Exception {
        ToxiproxyClient server = new ToxiproxyClient(arguments[0], Integer.parseInt(arguments[1]));
        String upstream = arguments[2];
        String listen = arguments[3] + ":0";
        check(server.version().contains("version"), "a version");
        check(server.getProxies().isEmpty(), "no proxies");

        Proxy proxy = server.createProxy("p", listen, upstream);
        check(server.getProxies().size() == 1 && server.getProxy("p").isEnabled(), "it is listed");
        check(server.getProxyOrNull("q") == null, "no other");
        fails(IOException.class, () -> server.createProxy("p", listen, upstream));
        Socket stream = connect(proxy);
        roundTrip(stream);

        Latency slow = proxy.toxics().latency("slow", ToxicDirection.DOWNSTREAM, 1).setJitter(0);
        slow.setLatency(LATENCY_MS).setToxicity(1);
        check(proxy.toxics().get("slow", Latency.class).getLatency() == LATENCY_MS, "updated");
        check(roundTrip(stream) >= LATENCY_MS, "latency");
        slow.remove();
        check(proxy.toxics().getAll().isEmpty(), "removed");
        roundTrip(stream);

        proxy.toxics().bandwidth("bandwidth", ToxicDirection.UPSTREAM, 1000);
        proxy.toxics().slicer("slicer", ToxicDirection.UPSTREAM, 64, 8).setSizeVariation(16).setDelay(1);
        proxy.toxics().slowClose("slow_close", ToxicDirection.UPSTREAM, 0);
        proxy.toxics().timeout("timeout", ToxicDirection.UPSTREAM, 10_000).setToxicity(0);
        proxy.toxics().limitData("cut", ToxicDirection.DOWNSTREAM, 2);
        ResetPeer reset = proxy.toxics().resetPeer("reset_peer", ToxicDirection.UPSTREAM, 10_000);
        check(proxy.toxics().getAll().size() == 6, "every type");
        reset.remove();
        Socket cut = connect(proxy);
        cut.getOutputStream().write("ping".getBytes(US_ASCII));
        check("pi".equals(new String(cut.getInputStream().readAllBytes(), US_ASCII)), "cut");
        server.reset();
        check(proxy.toxics().getAll().isEmpty(), "reset");

        proxy.disable();
        fails(ConnectException.class, () -> connect(proxy));
        proxy.enable();
        proxy.setUpstream(upstream.replace("127.0.0.1", "localhost"));
        roundTrip(connect(proxy));
        proxy.delete();
        check(server.getProxies().isEmpty(), "deleted");
    }

    private static Socket connect(Proxy proxy) throws IOException {
        int colon = proxy.getListen().lastIndexOf(':');
        String host = proxy.getListen().substring(0, colon);
        Socket stream = new Socket(host, Integer.parseInt(proxy.getListen().substring(colon + 1)));
        stream.setTcpNoDelay(true);
        stream.setSoTimeout(20_000);
        return stream;
    }

    /** How many milliseconds an echo takes. */
    private static long roundTrip(Socket stream) throws IOException {
        long begin = System.nanoTime();
        stream.getOutputStream().write("ping".getBytes(US_ASCII));
        String back = new String(stream.getInputStream().readNBytes(4), US_ASCII);
        check("ping".equals(back), "an echo, not `" + back + "`");
        return (System.nanoTime() - begin) / 1_000_000;
    }

    private static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    private static void fails(Class<? extends Exception> expected, Callable<?> call) {
        try {
            call.call();
        } catch (Exception error) {
            if (expected.isInstance(error)) return;
            throw new AssertionError(error);
        }
        throw new AssertionError("no " + expected.getSimpleName());
    }
}
