import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, expect, test } from "vitest";
import { createOutboundHttp, isAllowedAddress, isAllowedUrl, type OutboundError } from "./outbound-http.ts";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

async function serverThat(answer: RequestListener): Promise<{ url: string; requests(): number }> {
  let requests = 0;
  const server = createServer((request, response) => {
    requests += 1;
    answer(request, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, requests: () => requests };
}

function outbound(options: Parameters<typeof createOutboundHttp>[0]) {
  const http = createOutboundHttp(options);
  closers.push(() => http.close());
  return {
    get: (url: string) => http.fetch(url, { method: "GET", headers: {} }),
    problemOf: (url: string) =>
      http.fetch(url, { method: "GET", headers: {} }).then(
        () => "none",
        (error: OutboundError) => error.problem,
      ),
  };
}

const found = (...addresses: string[]) => ({
  lookup: async () => addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 })),
});

test.each([
  ["93.184.216.34", ["public", "private"]],
  ["2606:2800:220:1::1", ["public", "private"]],
  ["10.0.0.1", ["private"]],
  ["172.16.0.1", ["private"]],
  ["192.168.1.1", ["private"]],
  ["100.64.0.1", ["private"]],
  ["fd00::1", ["private"]],
  ["127.0.0.1", ["loopback"]],
  ["127.9.9.9", ["loopback"]],
  ["::1", ["loopback"]],
  ["169.254.169.254", []],
  ["0.0.0.0", []],
  ["192.0.2.1", []],
  ["192.0.0.1", []],
  ["192.88.99.1", []],
  ["198.18.0.1", []],
  ["198.19.255.255", []],
  ["198.51.100.1", []],
  ["203.0.113.1", []],
  ["172.32.0.1", ["public", "private"]],
  ["2001::1", []],
  ["3fff::1", []],
  ["224.0.0.1", []],
  ["255.255.255.255", []],
  ["::", []],
  ["fe80::1", []],
  ["ff02::1", []],
  ["::ffff:169.254.169.254", []],
  ["64:ff9b::a9fe:a9fe", []],
  ["2002:a9fe:a9fe::1", []],
  ["2001:db8::1", []],
])("%s is an address of %j", (address, expected) => {
  const networks = ["public", "private", "loopback"] as const;
  expect(networks.filter((network) => isAllowedAddress(address, network))).toEqual(expected);
});

test.each([
  "http://example.com/",
  "ftp://example.com/",
  "javascript:alert(1)",
  "https://127.0.0.1/",
  "https://2130706433/",
  "https://0x7f.1/",
  "https://[::1]/",
  "https://[::ffff:127.0.0.1]/",
  "https://[::ffff:a00:1]/",
  "https://10.0.0.1/",
  "https://169.254.169.254/latest/meta-data",
])("%s is not asked", async (url) => {
  expect(isAllowedUrl(url, "public")).toBe(false);
  expect(["not_https", "address_refused"]).toContain(await outbound({ network: "public" }).problemOf(url));
});

test.each([
  ["a private address", ["10.0.0.1"]],
  ["a public one and a link-local one", ["93.184.216.34", "169.254.169.254"]],
  ["loopback", ["127.0.0.1"]],
  ["nothing", []],
])("a name that leads to %s is not connected to", async (_name, addresses) => {
  const { problemOf } = outbound({ network: "public", ...found(...addresses) });
  expect(await problemOf("https://provider.example/")).toBe("address_refused");
});

test("the address is checked where the connection is made: a name that has changed since gains nothing", async () => {
  const { url, requests } = await serverThat((_request, response) =>
    response.writeHead(200, { connection: "close" }).end("ok"),
  );
  const target = url.replace("127.0.0.1", "provider.example");
  const answers = ["127.0.0.1", "10.0.0.1"];
  const { get, problemOf } = outbound({
    network: "loopback",
    lookup: async () => answers.splice(0, 1).map((address) => ({ address, family: 4 })),
  });
  expect(await (await get(target)).text()).toBe("ok");
  expect(await problemOf(target)).toBe("address_refused");
  expect([answers, requests()]).toEqual([[], 1]);
});

test("a redirect is not followed", async () => {
  const target = await serverThat((_request, response) => response.end("secret"));
  const { url } = await serverThat((_request, response) =>
    response.writeHead(302, { location: target.url }).end(),
  );
  expect(await outbound({ network: "loopback" }).problemOf(url)).toBe("redirect");
  expect(target.requests()).toBe(0);
});

test("a mebibyte is taken, one byte more is not", async () => {
  const { url } = await serverThat((request, response) =>
    response.end(Buffer.alloc(1024 * 1024 + (request.url === "/more" ? 1 : 0))),
  );
  const { get, problemOf } = outbound({ network: "loopback" });
  expect((await (await get(url)).arrayBuffer()).byteLength).toBe(1024 * 1024);
  expect(await problemOf(`${url}more`)).toBe("too_long");
});

test.each<[string, RequestListener]>([
  ["says nothing", () => undefined],
  [
    "says something all the time and never ends",
    (_request, response) => void setInterval(() => response.write("."), 10).unref(),
  ],
])("who %s is left in time", async (_name, answer) => {
  const { url } = await serverThat(answer);
  expect(await outbound({ network: "loopback", timeoutMs: 300 }).problemOf(url)).toBe("too_slow");
});

test("more requests than may be open fail at once, and make room when they end", async () => {
  const { url } = await serverThat((_request, response) => setTimeout(() => response.end(), 100));
  const { problemOf } = outbound({ network: "loopback", maxRequests: 3, maxWaitMs: 0 });
  const problems = await Promise.all(Array.from({ length: 5 }, () => problemOf(url)));
  expect(problems.sort()).toEqual(["none", "none", "none", "too_many", "too_many"]);
  expect(await problemOf(url)).toBe("none");
});

test.each([
  ["no address at all", "public", false],
  ["https://example.com/", "public", true],
  ["https://127.0.0.1/", "loopback", true],
  ["http://127.0.0.1/", "loopback", true],
  ["ftp://127.0.0.1/", "loopback", false],
  ["http://10.0.0.1/", "private", false],
] as const)("whether %s may be asked in a %s network: %s", (url, network, expected) => {
  expect(isAllowedUrl(url, network)).toBe(expected);
});

test("a name whose server is silent takes one look-up, however many wait for it", async () => {
  const { url } = await serverThat((_, response) => response.end());
  const found = Promise.withResolvers<{ address: string; family: number }[]>();
  const lookups: string[] = [];
  const lookup = (name: string) => {
    lookups.push(name);
    return found.promise;
  };
  const http = createOutboundHttp({ network: "loopback", lookup });
  closers.push(() => http.close());
  const named = url.replace("127.0.0.1", "slow.example");
  const answers = [1, 2, 3].map(() => http.fetch(named, { method: "GET", headers: {} }));
  await expect.poll(() => lookups).toEqual(["slow.example"]);
  found.resolve([{ address: "127.0.0.1", family: 4 }]);
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200]);
});

test.each(["public", "loopback"])(
  "plain HTTP goes to loopback alone, though others may be reached, too: a name of a %s address",
  async (where) => {
    const { url } = await serverThat((_, response) => response.end());
    const http = createOutboundHttp({
      network: ["public", "loopback"],
      lookup: async () => [{ address: where === "loopback" ? "127.0.0.1" : "93.184.215.14", family: 4 }],
    });
    closers.push(() => http.close());
    const asked = http.fetch(url.replace("127.0.0.1", "shop.example"), { method: "GET", headers: {} });
    if (where === "loopback") expect((await asked).status).toBe(200);
    else await expect(asked).rejects.toMatchObject({ problem: "address_refused" });
  },
);

test("a request comes with its query and its form, the answer with its status and type", async () => {
  const asked: unknown[] = [];
  const { url } = await serverThat(async (request, response) => {
    asked.push([request.method, request.url, request.headers.accept, await text(request)]);
    response.writeHead(400, { "content-type": "application/json" }).end("{}");
  });
  const http = createOutboundHttp({ network: "loopback" });
  closers.push(() => http.close());
  const response = await http.fetch(`${url}token?a=b`, {
    method: "POST",
    headers: { accept: "x/y", "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams({ code: "c d" }),
  });
  expect(asked).toEqual([["POST", "/token?a=b", "x/y", "code=c+d"]]);
  expect([response.status, response.headers.get("content-type")]).toEqual([400, "application/json"]);
  expect(await response.text()).toBe("{}");
});

test.each([204, 205])("an answer %d, which has no body, is taken, without a type", async (status) => {
  const { url } = await serverThat((_request, response) => response.writeHead(status).end());
  const response = await outbound({ network: "loopback" }).get(url);
  expect([response.status, response.body, response.headers.get("content-type")]).toEqual([
    status,
    null,
    null,
  ]);
});

test("an answer without a type has none", async () => {
  const { url } = await serverThat((_request, response) => response.end("x"));
  const response = await outbound({ network: "loopback" }).get(url);
  expect([response.status, [...response.headers.keys()].filter((name) => name !== "content-type")]).toEqual([
    200,
    [],
  ]);
  expect(response.headers.get("content-type")).not.toBe("undefined");
});

test("not even the first redirect is followed", async () => {
  const { url } = await serverThat((_request, response) => response.writeHead(300).end());
  expect(await outbound({ network: "loopback" }).problemOf(url)).toBe("redirect");
});

test("a name is looked up", async () => {
  const { url } = await serverThat((_request, response) => response.end("ok"));
  const response = await outbound({ network: "loopback" }).get(url.replace("127.0.0.1", "localhost"));
  expect(await response.text()).toBe("ok");
});

test("a caller that has no more time ends its request", async () => {
  const caller = new AbortController();
  const { url } = await serverThat(() => caller.abort());
  const http = createOutboundHttp({ network: "loopback" });
  closers.push(() => http.close());
  const request = { method: "GET", headers: {}, signal: caller.signal };
  await expect(http.fetch(url, request)).rejects.toMatchObject({ problem: "too_slow" });
});

test("a closed connection is reported as unreachable, in our own words, with the cause", async () => {
  const { url } = await serverThat((_request, response) => response.destroy());
  const error = await outbound({ network: "loopback" })
    .get(url)
    .catch((failure: unknown) => failure);
  expect(error).toMatchObject({
    name: "OutboundError",
    message: "outbound request: unreachable",
    problem: "unreachable",
    cause: expect.any(Error),
  });
  const refused = await outbound({ network: "public" })
    .get("http://example.com/")
    .catch((failure: unknown) => failure);
  expect(refused).not.toHaveProperty("cause");
});

test("after it is closed, it sends no request", async () => {
  const { url, requests } = await serverThat((_request, response) => response.end());
  const http = createOutboundHttp({ network: "loopback" });
  await http.close();
  await expect(http.fetch(url, { method: "GET", headers: {} })).rejects.toMatchObject({
    problem: "unreachable",
  });
  expect(requests()).toBe(0);
});
