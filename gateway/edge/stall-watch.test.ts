import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import type { FastifyRequest } from "fastify";
import { expect, onTestFinished, test, vi } from "vitest";
import { StallWatch } from "./stall-watch.ts";

test("a client that takes nothing of its answer is cut off, one that goes on is not", async () => {
  const stalls = new StallWatch(1_000);
  const { responses, close } = await openTwo();
  for (const response of responses) {
    response.write(Buffer.alloc(20_000_000));
    stalls.watchReader(response, 1_000);
  }
  const [stalled, reading] = responses;
  if (reading !== undefined) stalls.readerGoesOn(reading);
  await expect.poll(() => stalled?.destroyed).toBe(true);
  expect(reading?.destroyed).toBe(false);
  stalls.close();
  close();
});

test("a client that takes its answer a little at a time is cut off once its average is below the rate", async () => {
  const stalls = new StallWatch(2_000);
  const { responses, close } = await openTwo();
  const rates = [1_000_000_000, 0];
  for (const [index, response] of responses.entries()) {
    response.write(Buffer.alloc(20_000_000));
    stalls.watchReader(response, rates[index] ?? 0);
  }
  // Something is taken again and again, so that no single pause is too long.
  const goOn = setInterval(() => {
    for (const [index, response] of responses.entries()) {
      stalls.readerGoesOn(response);
      stalls.watchReader(response, rates[index] ?? 0);
    }
  }, 500);
  await expect.poll(() => responses[0]?.destroyed).toBe(true);
  expect(responses[1]?.destroyed).toBe(false);
  clearInterval(goOn);
  stalls.close();
  close();
});

test.each([
  ["that came while this process stood still is taken", "body", 200],
  ["that has not come in ten seconds is 408", "", 408],
])("a body %s", async (_what, late, expected) => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
  const stalls = new StallWatch();
  const server = createServer((raw, response) => {
    stalls.watchBody({ raw, state: { exchange: null, phase: "open" } } as unknown as FastifyRequest);
    raw.resume().once("end", () => response.end());
  }).listen(0, "127.0.0.1");
  onTestFinished(() => {
    vi.useRealTimers();
    stalls.close();
    server.close();
  });
  await once(server, "listening");
  // Between the clients nothing is swept.
  for (let client = 0; client < 2; client += 1) {
    expect(await answerTo(late, server)).toMatch(new RegExp(`^HTTP/1.1 ${expected} `));
    vi.advanceTimersByTime(1_000);
    await expect.poll(() => vi.getTimerCount()).toBe(0);
  }
});

/** Sends the body after the server has stood still for eleven seconds. */
async function answerTo(late: string, server: Server): Promise<string> {
  const client = connect({ port: (server.address() as AddressInfo).port, host: "127.0.0.1" });
  let text = "";
  client.on("data", (chunk) => {
    text += chunk.toString();
  });
  const asked = once(server, "request");
  client.write("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\n\r\n");
  await asked;
  const closed = once(client, "close");
  // In the phase of timers, before what the kernel has is read.
  setTimeout(() => {
    if (late !== "") client.write(late);
    vi.advanceTimersByTime(11_000);
  }, 0);
  await closed;
  return text;
}

/** Two answers whose clients read nothing. */
async function openTwo() {
  const responses: ServerResponse[] = [];
  const server = createServer((_request, response) => void responses.push(response)).listen(0, "127.0.0.1");
  await once(server, "listening");
  const sockets = [1, 2].map(() =>
    connect({ port: (server.address() as AddressInfo).port, host: "127.0.0.1" }),
  );
  for (const socket of sockets)
    socket
      .pause()
      .on("error", () => undefined)
      .write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  await expect.poll(() => responses.length).toBe(2);
  return {
    responses,
    close() {
      for (const socket of sockets) socket.destroy();
      server.closeAllConnections();
      server.close();
    },
  };
}
