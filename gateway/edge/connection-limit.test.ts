import { EventEmitter, once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { limitConnections } from "./connection-limit.ts";

let server: Server;
let sockets: Socket[] = [];

async function serve(limits: { total: number; perAddress: number }, isTrusted = false): Promise<number> {
  server = createServer({ keepAliveTimeout: 600_000 }, (_request, response) => response.end("ok"));
  limitConnections(server, limits, () => isTrusted);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/** Opens connections; accepted ones stay open. @returns whether each was accepted. */
async function dial(port: number, count: number, from = "127.0.0.1"): Promise<boolean[]> {
  const served = Array.from({ length: count }, () => {
    const socket = connect({ port, host: "127.0.0.1", localAddress: from }).on("error", () => undefined);
    sockets.push(socket);
    socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    return new Promise<boolean>((resolve) => {
      socket.once("data", () => resolve(true));
      socket.once("close", () => resolve(false));
    });
  });
  return Promise.all(served);
}

const openAtServer = () =>
  new Promise<number>((resolve) => server.getConnections((_error, count) => resolve(count)));
const countOf = (served: readonly boolean[]) => served.filter(Boolean).length;

afterEach(() => {
  for (const socket of sockets) socket.destroy();
  sockets = [];
  server.closeAllConnections();
  server.close();
});

test("an address has so many connections, another as many; a closed one makes room", async () => {
  const port = await serve({ total: 100, perAddress: 3 });
  const [mine, others] = [dial(port, 5), dial(port, 5, "127.0.0.2")];
  expect([countOf(await mine), countOf(await others)]).toEqual([3, 3]);
  sockets
    .slice(0, 5)
    .find((socket) => !socket.destroyed)
    ?.destroy();
  await expect.poll(openAtServer).toBe(5);
  expect(await dial(port, 2)).toEqual(expect.arrayContaining([true, false]));
});

test("proxies of ours have no limit of their own, but all together have", async () => {
  const port = await serve({ total: 8, perAddress: 3 }, true);
  expect(countOf(await dial(port, 12))).toBe(8);
});

test("networks that take all they can leave room for one more", async () => {
  const port = await serve({ total: 40, perAddress: 1_000 });
  let taken = 0;
  for (const from of ["127.0.0.2", "127.0.0.3", "127.0.0.4"]) taken += countOf(await dial(port, 40, from));
  expect(taken).toBeLessThan(40);
  expect(await dial(port, 1, "127.0.0.9")).toEqual([true]);
});

/** A server without a network: connections have any address, and close on demand. */
function fakeServer(limits: { total: number; perAddress: number }) {
  const fake = new EventEmitter();
  limitConnections(fake as Server, limits, () => false);
  /** @returns whether the connection was accepted, and a function that ends it. */
  return (remoteAddress: string | undefined) => {
    const socket = Object.assign(new EventEmitter(), { remoteAddress, isDestroyed: false });
    const destroy = () => {
      socket.isDestroyed = true;
    };
    fake.emit("connection", Object.assign(socket, { destroy }));
    return { isIn: !socket.isDestroyed, close: () => socket.emit("close") };
  };
}

test("a /56 has four times what a /64 has, and a /48 sixteen times", () => {
  const arrive = fakeServer({ total: 1_000, perAddress: 2 });
  const letIn = (address: (index: number) => string, count: number) =>
    Array.from({ length: count }, (_, index) => arrive(address(index))).filter(({ isIn }) => isIn).length;
  expect(letIn((index) => `2001:db8:7:1::${index}`, 10)).toBe(2);
  expect(letIn((index) => `2001:db8:7:${index + 2}::1`, 20)).toBe(6);
  expect(letIn((index) => `2001:db8:7:${((index + 1) * 256).toString(16)}::1`, 50)).toBe(24);
  expect(letIn(() => "2001:db8:8::1", 3)).toBe(2);
});

test("a connection that closes makes room for one and no more, until all are gone", () => {
  const arrive = fakeServer({ total: 1_000, perAddress: 3 });
  const first = Array.from({ length: 3 }, () => arrive("192.0.2.1"));
  first[0]?.close();
  expect([1, 2].map(() => arrive("192.0.2.1").isIn)).toEqual([true, false]);
  for (const { close } of first.slice(1)) close();
  expect([1, 2, 3].map(() => arrive("192.0.2.1").isIn)).toEqual([true, true, false]);
});

test("a connection that has ended before it is looked at counts for nobody", () => {
  const arrive = fakeServer({ total: 2, perAddress: 2 });
  expect(arrive(undefined).isIn).toBe(true);
  expect([1, 2].map(() => arrive("192.0.2.1").isIn)).toEqual([true, false]);
});

test("one network has no more than are left free, and somebody new gets the last place", () => {
  const arrive = fakeServer({ total: 5, perAddress: 10 });
  expect([1, 2, 3, 4].map(() => arrive("192.0.2.1").isIn)).toEqual([true, true, true, false]);
  expect([1, 2].map(() => arrive("192.0.2.2").isIn)).toEqual([true, false]);
  expect(arrive("192.0.2.3").isIn).toBe(true);
});

test("what closes is free again for any network", () => {
  const arrive = fakeServer({ total: 5, perAddress: 10 });
  const open = [1, 2, 3].map(() => arrive("192.0.2.1"));
  for (const { close } of open) close();
  expect([1, 2, 3, 4].map(() => arrive("192.0.2.2").isIn)).toEqual([true, true, true, false]);
});
