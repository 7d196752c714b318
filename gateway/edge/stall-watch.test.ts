import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { expect, test } from "vitest";
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
