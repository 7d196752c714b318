import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { limitConnections } from "./connection-limit.ts";

let server: Server;
let sockets: Socket[] = [];

async function serve(limits: { total: number; perAddress: number }, isTrusted = false): Promise<number> {
  server = createServer((_request, response) => response.end("ok"));
  limitConnections(server, limits, () => isTrusted);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

function dial(port: number, count: number, from = "127.0.0.1"): void {
  for (let index = 0; index < count; index += 1) {
    const socket = connect({ port, host: "127.0.0.1", localAddress: from }).on("error", () => undefined);
    sockets.push(socket);
  }
}

const stillOpen = () => sockets.filter((socket) => !socket.destroyed && socket.readyState === "open").length;

afterEach(() => {
  for (const socket of sockets) socket.destroy();
  sockets = [];
  server.closeAllConnections();
  server.close();
});

test("an address has so many connections, another as many; a closed one makes room", async () => {
  const port = await serve({ total: 100, perAddress: 3 });
  dial(port, 5);
  dial(port, 5, "127.0.0.2");
  await sleep(200);
  for (const socket of sockets) socket.resume();
  await expect.poll(stillOpen).toBe(6);
  const closing = sockets.find((socket) => !socket.destroyed);
  closing?.destroy();
  await sleep(200);
  dial(port, 1);
  await sleep(200);
  expect(stillOpen()).toBe(6);
});

test("proxies of ours have no limit of their own, but all together have", async () => {
  const port = await serve({ total: 8, perAddress: 3 }, true);
  dial(port, 12);
  for (const socket of sockets) socket.resume();
  await expect.poll(stillOpen).toBe(8);
});

test("networks that take all they can leave room for one more", async () => {
  const port = await serve({ total: 40, perAddress: 1_000 });
  for (const from of ["127.0.0.2", "127.0.0.3", "127.0.0.4"]) {
    dial(port, 40, from);
    await sleep(200);
  }
  for (const socket of sockets) socket.resume();
  const before = stillOpen();
  expect(before).toBeLessThan(40);
  dial(port, 1, "127.0.0.9");
  await sleep(200);
  expect(stillOpen()).toBe(before + 1);
});
