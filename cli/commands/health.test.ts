import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, expect, test } from "vitest";
import { startOperationsServer } from "#kit/process/operations-server.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { run } from "../run.ts";
import { COMMANDS } from "./commands.ts";

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

/** An operations port as every process has it. */
async function processWith(reasons: string[]): Promise<string> {
  const server = await startOperationsServer("127.0.0.1:0", {
    lifecycle: { unreadyReasons: async () => reasons },
    metrics: createMetrics("test"),
    logger: pino({ level: "silent" }),
  });
  servers.push(server);
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function health(environment: Record<string, string>, ...argv: string[]) {
  let [out, error] = ["", ""];
  const code = await run(["health", ...argv], COMMANDS, {
    environment,
    defaultHome: "/no such home",
    writeOut: (text) => {
      out += text;
    },
    writeError: (text) => {
      error += text;
    },
  });
  return { code, out, error };
}

test("all ready: 0, one line each", async () => {
  const environment = {
    GATEWAY_OPERATIONS_ADDRESS: await processWith([]),
    TOKEN_OPERATIONS_ADDRESS: await processWith([]),
  };
  const { code, out } = await health(environment);
  expect(code).toBe(0);
  expect(out.split("\n").map((line) => line.split(/ {2,}/).toSpliced(1, 1))).toEqual([
    ["PROCESS", "STATE", "REASON"],
    ["gateway", "ready", "-"],
    ["token-service", "ready", "-"],
    [""],
  ]);
});

test("one unready, one unreachable and one other server: 69, and why", async () => {
  const stranger = createServer((_request, response) => response.writeHead(404).end()).listen(0, "127.0.0.1");
  servers.push(stranger);
  await new Promise((resolve) => stranger.once("listening", resolve));
  const environment = {
    GATEWAY_OPERATIONS_ADDRESS: await processWith(["audit-service", "token-service"]),
    IDENTITY_OPERATIONS_ADDRESS: "127.0.0.1:1",
    AUDIT_OPERATIONS_ADDRESS: `127.0.0.1:${(stranger.address() as AddressInfo).port}`,
  };
  const ready = await processWith([]);
  const { code, out } = await health(environment, "--json", "--token-operations-address", ready);
  expect(code).toBe(69);
  expect(JSON.parse(out)).toMatchObject({
    isReady: false,
    processes: [
      { process: "gateway", state: "unready", reasons: ["audit-service", "token-service"] },
      { process: "identity-service", state: "unreachable", reasons: ["ECONNREFUSED"] },
      { process: "token-service", address: ready, state: "ready", reasons: [] },
      { process: "audit-service", state: "unreachable", reasons: ["HTTP 404: not an operations port"] },
    ],
  });
});

test("no address, or an invalid one: 78", async () => {
  expect(await health({})).toMatchObject({
    code: 78,
    error: expect.stringMatching(/GATEWAY_OPERATIONS_ADDRESS/),
  });
  expect(await health({ GATEWAY_OPERATIONS_ADDRESS: "here" })).toMatchObject({
    code: 78,
    error: expect.stringMatching(/must be host:port/),
  });
});

test("the processes of a home are called on the ports in its file; without the file none is called: 78", async () => {
  const home = mkdtempSync(join(tmpdir(), "gatehouse-cli-"));
  try {
    const elsewhere = { GATEWAY_OPERATIONS_PORT: "1", GATEWAY_OPERATIONS_ADDRESS: "127.0.0.1:1" };
    expect(await health(elsewhere, "--home", home)).toMatchObject({
      code: 78,
      error: expect.stringContaining(`${home} has no ports.json`),
    });
    const address = await processWith([]);
    const port = Number(address.split(":")[1]);
    writeFileSync(join(home, "ports.json"), JSON.stringify({ GATEWAY_OPERATIONS_PORT: port }));
    const { code, out } = await health(elsewhere, "--json", "--home", home);
    expect({ code, processes: JSON.parse(out).processes }).toMatchObject({
      code: 0,
      processes: [{ process: "gateway", address }],
    });
  } finally {
    rmSync(home, { recursive: true });
  }
});
