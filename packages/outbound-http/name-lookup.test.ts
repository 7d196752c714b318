import { createSocket, type Socket } from "node:dgram";
import { promises } from "node:dns";
import { once } from "node:events";
import { afterEach, expect, test } from "vitest";
import { createNameLookup } from "./name-lookup.ts";

const TYPE_AAAA = 28;
const HEADER_BYTES = 12;
let server: Socket | undefined;

afterEach(() => {
  server?.close();
  server = undefined;
});

/** A name server that is silent about names that begin with `silent`, and knows the addresses of the others. */
async function lookupAtServer(addresses: { v4: number[]; v6: number[] }) {
  const socket = createSocket("udp4");
  server = socket;
  const asked: string[] = [];
  socket.on("message", (query, { port, address }) => {
    const end = query.indexOf(0, HEADER_BYTES) + 5;
    const question = query.subarray(HEADER_BYTES, end);
    asked.push(question.toString("latin1"));
    if (question.includes("silent")) return;
    const type = question.readUInt16BE(question.length - 4);
    const data = Buffer.from(type === TYPE_AAAA ? addresses.v6 : addresses.v4);
    const header = Buffer.from([
      ...query.subarray(0, 2),
      0x81,
      0x80,
      0,
      1,
      0,
      data.length > 0 ? 1 : 0,
      0,
      0,
      0,
      0,
    ]);
    // The name of the question, for 60 s (RFC 1035 section 4.1).
    const record = Buffer.from([0xc0, 0x0c, 0, type, 0, 1, 0, 0, 0, 60, 0, data.length, ...data]);
    socket.send(Buffer.concat([header, question, ...(data.length > 0 ? [record] : [])]), port, address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  const resolver = new promises.Resolver({ timeout: 60_000, tries: 1 });
  resolver.setServers([`127.0.0.1:${socket.address().port}`]);
  return { resolver, asked, find: createNameLookup(() => resolver) };
}

const V4 = [192, 0, 2, 7];
const V6 = [0x20, 0x01, 0x0d, 0xb8, ...Array.from({ length: 11 }, () => 0), 7];

test.each([
  ["both families", { v4: V4, v6: V6 }, ["192.0.2.7", "2001:db8::7"]],
  ["IPv4 alone", { v4: V4, v6: [] }, ["192.0.2.7"]],
  ["IPv6 alone", { v4: [], v6: V6 }, ["2001:db8::7"]],
])("the addresses of a name are those that its server gives: %s", async (_what, addresses, expected) => {
  const { find } = await lookupAtServer(addresses);
  expect((await find("hooks.example.com")).map(({ address }) => address)).toEqual(expected);
});

test("a name without addresses is an error", async () => {
  const { find } = await lookupAtServer({ v4: [], v6: [] });
  await expect(find("hooks.example.com")).rejects.toMatchObject({ code: "ENODATA" });
});

test("localhost is the loopback, without a question", async () => {
  const { find, asked } = await lookupAtServer({ v4: V4, v6: V6 });
  expect((await find("localhost")).map(({ address }) => address)).toEqual(["127.0.0.1", "::1"]);
  expect(asked).toEqual([]);
});

test("names whose servers are silent hold up no others", async () => {
  const { find, asked, resolver } = await lookupAtServer({ v4: V4, v6: V6 });
  const silent = Array.from({ length: 16 }, (_, n) => find(`silent-${n}.example.com`));
  const ended = Promise.allSettled(silent);
  await expect.poll(() => asked.length).toBeGreaterThanOrEqual(32);
  expect(await Promise.race([ended, find("hooks.example.com")])).toHaveLength(2);
  // So does nothing that needs a thread.
  expect(await Promise.race([ended, promises.lookup("localhost")])).toHaveProperty("address");
  resolver.cancel();
  await ended;
});

test("the name servers of the moment are asked", async () => {
  const answering = (address: string) => ({ resolve4: async () => [address], resolve6: async () => [] });
  let resolver = answering("192.0.2.1");
  const find = createNameLookup(() => resolver as never);
  expect(await find("hooks.example.com")).toEqual([{ address: "192.0.2.1", family: 4 }]);
  resolver = answering("192.0.2.2");
  expect(await find("hooks.example.com")).toEqual([{ address: "192.0.2.2", family: 4 }]);
});
