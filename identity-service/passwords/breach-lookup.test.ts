import { createHash } from "node:crypto";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { createLogger } from "#kit/telemetry/logger.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { createBreachLookup } from "./breach-lookup.ts";

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function lookupAt(answer: RequestListener, timeoutMs = 1_000) {
  const server = createServer(answer);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const lines: string[] = [];
  const metrics = createMetrics("test");
  const logger = createLogger("test", "info", { write: (line) => void lines.push(line) });
  const lookup = createBreachLookup({ url: `http://127.0.0.1:${port}/range/`, logger, metrics, timeoutMs });
  const counted = async (outcome: string) =>
    Number(new RegExp(`outcome="${outcome}".*\\} (\\d+)`).exec(await metrics.render())?.[1] ?? 0);
  return { lookup, lines, counted };
}

const PASSWORD = "correct horse battery";
const digest = createHash("sha1").update(PASSWORD).digest("hex").toUpperCase();

test("a password in the range is breached, and only five characters of its digest leave", async () => {
  const paths: (string | undefined)[] = [];
  const { lookup, counted } = await lookupAt((request, response) => {
    paths.push(request.url);
    response.end(`0018A45C4D1DEF81644B54AB7F969B88D65:3\r\n${digest.slice(5)}:42\r\n`);
  });
  expect(await lookup.isBreached(PASSWORD)).toBe(true);
  expect(await lookup.isBreached(`${PASSWORD}!`)).toBe(false);
  expect(paths[0]).toBe(`/range/${digest.slice(0, 5)}`);
  expect(await counted("breached")).toBe(1);
  expect(await counted("clean")).toBe(1);
});

test("padding is no breach", async () => {
  const { lookup } = await lookupAt((_request, response) => response.end(`${digest.slice(5)}:0\r\n`));
  expect(await lookup.isBreached(PASSWORD)).toBe(false);
});

const FAILURES: [string, RequestListener][] = [
  ["answers nothing in time", () => undefined],
  ["stops in the middle", (_request, response) => void response.writeHead(200).write("0018A45C")],
  ["says 503", (_request, response) => void response.writeHead(503).end()],
  ["sends elsewhere", (_request, response) => void response.writeHead(302, { location: "/" }).end()],
  ["breaks off", (request) => void request.socket.destroy()],
  ["does not end", (_request, response) => void response.end("x".repeat(1_000_000))],
];

test.each(FAILURES)("a look-up that %s lets the password pass, counted and logged", async (_what, answer) => {
  const { lookup, lines, counted } = await lookupAt(answer, 100);
  expect(await lookup.isBreached(PASSWORD)).toBe(false);
  expect(await counted("failed")).toBe(1);
  expect(lines.join()).toContain("breach look-up failed");
  expect(lines.join()).not.toContain(PASSWORD);
});
