import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { type Implementation, RpcServer } from "#kit/rpc/rpc-server.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import {
  type AuditQueryServiceServer,
  AuditQueryServiceService,
} from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { Entry } from "#proto/gatehouse/audit/v1/entry.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { OutputClosedError } from "../../lost-output.ts";
import { run } from "../../run.ts";
import { COMMANDS } from "../commands.ts";

/** What controls a terminal, or turns the reading direction, and stands as it is in JSON. */
const CONTROLS = "\u007f\u009b2J\u202e\u{e0001}";

let certificates: TestCertificates;
let server: RpcServer;
let port: number;
let connections: number;
/** In front of the service, to count its connections. */
let border: ReturnType<typeof createServer>;
/** Ids of requests, of which this one is answered that the service is away. */
let asked: string[];
let failing: number;

beforeAll(async () => {
  certificates = await createTestCertificates();
  server = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("audit-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("audit-service"),
  });
  const follow: Pick<Implementation<AuditQueryServiceServer>, "followEntries"> = {
    async followEntries({ after: [place] }, { requestId }) {
      asked.push(requestId);
      if (asked.length === failing) throw new DomainError("service_unavailable", "\u001b[2Jaway");
      const next = (place?.sequence ?? Number.NaN) + 1;
      const entry = {
        ...Entry.decode(new Uint8Array()),
        ...{ sequence: next, action: "auth.login", userAgent: CONTROLS },
      };
      const places = [{ log: 0, sequence: next }];
      return {
        entries: [entry],
        nextAfterSequence: next,
        size: 1_000,
        next: places,
        hasMore: true,
        away: [],
      };
    },
  };
  const service = { followEntries: AuditQueryServiceService.followEntries };
  server.add(service as never, { followEntries: ["operator"] } as never, follow as never);
  const behind = await server.listen();
  border = createServer((socket) => {
    connections += 1;
    const inner = connect(behind, "127.0.0.1");
    socket.on("error", () => inner.destroy());
    inner.on("error", () => socket.destroy());
    socket.pipe(inner).pipe(socket);
  }).listen(0, "127.0.0.1");
  await once(border, "listening");
  port = (border.address() as AddressInfo).port;
});
beforeEach(() => {
  [connections, asked, failing] = [0, [], 0];
});
afterEach(() => expect(new Set(asked).size).toBe(connections));
afterAll(async () => {
  border.close();
  await server.close(0);
  await certificates.remove();
});

/** Until so many entries were shown. @returns their sequences. */
async function follow(entries: number) {
  const sequences: number[] = [];
  let error = "";
  const code = await run(["tail", "--after", "0", "--json"], COMMANDS, {
    environment: { AUDIT_SERVICE_ADDRESS: `127.0.0.1:${port}`, ...certificates.environmentOf("operator") },
    defaultHome: "/no such home",
    writeOut: (text) => {
      for (const line of text.trim().split("\n")) {
        expect(line).toMatch(/^\P{C}+$/u);
        const { sequence, userAgent } = JSON.parse(line);
        expect(userAgent).toBe(CONTROLS);
        sequences.push(sequence);
      }
      if (sequences.length >= entries) throw new OutputClosedError("");
    },
    writeError: (text) => {
      error += text;
    },
  });
  return { code, error, sequences };
}

test("the whole following is one connection", async () => {
  expect(await follow(20)).toEqual({
    code: 0,
    error: "",
    sequences: Array.from({ length: 20 }, (_, index) => index + 1),
  });
  expect(connections).toBe(1);
});

test("after a break it goes on where it was, and loses nothing", async () => {
  failing = 3;
  const { error, sequences } = await follow(5);
  expect(sequences).toEqual([1, 2, 3, 4, 5]);
  expect(error).toMatch(/: \ufffd\[2Jaway\ngatehouse: trying again\ngatehouse: following again\n$/);
  expect(connections).toBe(2);
});

test("a service that is away at the beginning is an error, with the id of the call", async () => {
  failing = 1;
  const { code, error, sequences } = await follow(1);
  expect([code, sequences]).toEqual([69, []]);
  expect(JSON.parse(error).error).toMatchObject({ code: "service_unavailable", requestId: asked[0] });
});
