// The Node client `toxiproxy-node-client`, unchanged: node client.js API_HOST API_PORT UPSTREAM LISTEN_HOST.

const assert = require("node:assert/strict");
const net = require("node:net");
const { Toxiproxy } = require("toxiproxy-node-client");

const LATENCY_MS = 80;

/** An open connection through the proxy. */
const connect = (proxy) =>
  new Promise((resolve, reject) => {
    const colon = proxy.listen.lastIndexOf(":");
    const stream = net.connect({ host: proxy.listen.slice(0, colon), port: +proxy.listen.slice(colon + 1), noDelay: true });
    stream.once("error", reject);
    stream.once("connect", () => resolve(stream));
  });

/** All bytes until there are `length` or the end. */
const receive = (stream, length) =>
  new Promise((resolve, reject) => {
    let bytes = "";
    stream.on("data", (chunk) => (bytes += chunk).length >= length && resolve(bytes));
    stream.once("end", () => resolve(bytes));
    stream.once("error", reject);
  });

/** How long an echo takes. */
const roundTrip = async (stream) => {
  const begin = performance.now();
  stream.write("ping");
  assert.equal(await receive(stream, 4), "ping");
  stream.removeAllListeners("data").removeAllListeners("end");
  return performance.now() - begin;
};

const main = async (host, port, upstream, listen) => {
  const server = new Toxiproxy(`http://${host}:${port}`);
  assert.match(await server.getVersion(), /version/);
  assert.deepEqual(await server.getAll(), {});

  const body = { name: "p", listen: `${listen}:0`, upstream };
  let proxy = await server.createProxy(body);
  assert.deepEqual(Object.keys(await server.getAll()), ["p"]);
  await assert.rejects(server.createProxy(body), /409/);
  const stream = await connect(proxy);
  await roundTrip(stream);

  const attributes = { latency: 1, jitter: 0 };
  let toxic = await proxy.addToxic({ name: "slow", type: "latency", stream: "downstream", toxicity: 1, attributes });
  toxic = await toxic.update({ attributes: { latency: LATENCY_MS } });
  assert.deepEqual(toxic.attributes, { latency: LATENCY_MS, jitter: 0 });
  assert.deepEqual((await proxy.getToxic("slow")).toJson(), toxic.toJson());
  assert.ok((await roundTrip(stream)) >= LATENCY_MS - 1, "no latency");
  await toxic.remove();
  await assert.rejects(proxy.getToxic("slow"), /404/);
  await roundTrip(stream);

  await proxy.addToxic({ name: "cut", type: "limit_data", stream: "downstream", toxicity: 1, attributes: { bytes: 2 } });
  const cut = await connect(proxy);
  cut.write("ping");
  assert.equal(await receive(cut, 4), "pi");
  cut.destroy();
  await server.reset();
  await assert.rejects(proxy.getToxic("cut"), /404/);

  stream.destroy();
  proxy = await proxy.update({ enabled: false, listen: proxy.listen, upstream });
  assert.equal(proxy.enabled, false);
  await assert.rejects(connect(proxy), { code: "ECONNREFUSED" });
  proxy = await proxy.update({ enabled: true, listen: proxy.listen, upstream });
  const again = await connect(proxy);
  await roundTrip(again);
  again.destroy();

  const made = await server.populate([{ ...body, name: "q", enabled: true }, { ...body, name: "r", enabled: false }]);
  assert.deepEqual([made.q.enabled, made.r.enabled], [true, false]);
  for (const one of Object.values(await server.getAll())) await one.remove();
  assert.deepEqual(await server.getAll(), {});
};

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
