import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { pino } from "pino";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { addReflection } from "#kit/rpc/reflection.ts";
import { RpcServer } from "#kit/rpc/rpc-server.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import {
  AuditQueryServiceService,
  type ExportEntriesRequest,
} from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { run } from "../run.ts";
import { COMMANDS } from "./commands.ts";

const METHOD = "gatehouse.audit.v1.AuditQueryService/ExportEntries";

let certificates: TestCertificates;
let server: RpcServer;
let folder: string;
let environment: Record<string, string>;
let asked: number[];

beforeAll(async () => {
  certificates = await createTestCertificates();
  folder = await mkdtemp(join(tmpdir(), "gatehouse-rpc-"));
  server = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("audit-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("audit-service"),
  });
  const methods = {
    /** One line, and then silence if more was asked for. */
    async *exportEntries({ firstSequence, lastSequence }: ExportEntriesRequest) {
      asked.push(firstSequence);
      yield { line: { $case: "checkpoint" as const, value: { note: "n" } } };
      if (lastSequence > 0) await new Promise(() => undefined);
    },
  };
  const service = { exportEntries: AuditQueryServiceService.exportEntries };
  server.add(
    service as never,
    { exportEntries: ["operator"] } as never,
    methods as never,
    ["exportEntries"] as never,
  );
  addReflection(server);
  const port = await server.listen();
  environment = { AUDIT_SERVICE_ADDRESS: `127.0.0.1:${port}`, ...certificates.environmentOf("operator") };
});
beforeEach(() => {
  asked = [];
});
afterAll(async () => {
  await server.close(0);
  await rm(folder, { recursive: true });
  await certificates.remove();
});

async function rpc(...argv: string[]) {
  let [out, error] = ["", ""];
  const code = await run(["rpc", METHOD, ...argv], COMMANDS, {
    environment,
    defaultHome: "/no such home",
    writeOut: (written) => {
      out += written;
    },
    writeError: (written) => {
      error += written;
    },
  });
  return { code, out, error };
}

test("a stream that is silent for longer than --timeout ends, with what it has sent", async () => {
  const { code, out, error } = await rpc('{"lastSequence":"1"}', "--timeout", "1");
  expect([code, JSON.parse(out)]).toEqual([69, { checkpoint: { note: "n" } }]);
  expect(error).toContain("audit-service has sent nothing for 1 s");
  expect(await rpc("{}", "--timeout", "1")).toMatchObject({ code: 0, error: "" });
});

test("a request comes from a file or from standard input, and then is in no list of processes", async () => {
  const file = join(folder, "request.json");
  await writeFile(file, '{"firstSequence":"7"}');
  expect(await rpc("--file", file)).toMatchObject({ code: 0, error: "" });
  const main = join(import.meta.dirname, "..", "main.ts");
  const child = spawn(process.execPath, [main, "rpc", METHOD, "-"], {
    env: environment,
    stdio: ["pipe", "pipe", "inherit"],
  });
  child.stdin.end('{"firstSequence":"8"}');
  expect(JSON.parse(await text(child.stdout))).toEqual({ checkpoint: { note: "n" } });
  expect(asked).toEqual([7, 8]);
  expect(await rpc("--file", join(folder, "none"))).toMatchObject({ code: 66 });
  expect(await rpc("{}", "--file", file)).toMatchObject({ code: 64 });
});

test.each([
  ['{"firstSequence":"hunter2"}', /cannot decode field \S+\.first_sequence from JSON\n/],
  ['{"firstSequence":hunter2}', /ExportEntriesRequest/],
  ["hunter2", /ExportEntriesRequest/],
  ['"hunter2"', /ExportEntriesRequest/],
  ['{"first":"hunter2"}', /key "first" is unknown/],
  ['{"hunter2 ":1}', /ExportEntriesRequest/],
])("%s is refused without its values", async (json, problem) => {
  const { code, error } = await rpc(json);
  expect(code).toBe(64);
  expect(error).toMatch(problem);
  expect(error).not.toContain("hunter2");
  expect(asked).toEqual([]);
});
