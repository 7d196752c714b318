import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { apiClient } from "../../support/people/api-client.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { startReplica } from "../../support/system/replicas.ts";

const ROUTE_THAT_NEEDS_A_RECENT_LOGIN = "/payees";

/** Moves what the programs of a process take for the time. */
function wrongClock(aheadMs: number): string {
  const program = `const RealDate = Date; globalThis.Date = class extends RealDate {
    constructor(...time) { if (time.length === 0) super(RealDate.now() + ${aheadMs}); else super(...time); }
    static now() { return RealDate.now() + ${aheadMs}; }
  }`;
  return `--import=data:text/javascript,${encodeURIComponent(program)}`;
}

test.each([-10_000, 10_000])(
  "a gateway whose clock is wrong by %d ms serves a route that needs a recent login",
  async (aheadMs) => {
    const system = oneSystem();
    const routes = await readFile(join(system.home, "routes.yaml"), "utf8");
    const ROUTES_FILE = join(system.home, "routes-by-password.yaml");
    await writeFile(ROUTES_FILE, routes.replace("acr: 2, maxAgeSeconds", "acr: 1, maxAgeSeconds"));
    const environment = { ROUTES_FILE, NODE_OPTIONS: wrongClock(aheadMs) };
    const gateway = await startReplica(system, "gateway", environment);
    try {
      const api = apiClient(`http://${gateway.address}`);
      const { accessToken: token } = await api.newUser();
      const beforeMs = Date.now();
      const called = await api.post(ROUTE_THAT_NEEDS_A_RECENT_LOGIN, { name: "ACME Ltd" }, { token });
      expect(called.status).toBe(201);
      // The id of a request begins with the time of the gateway (RFC 9562 §5.7): its clock was wrong.
      const requestId = called.headers.get("x-request-id") ?? "";
      const gatewayMs = Number.parseInt(requestId.replaceAll("-", "").slice(0, 12), 16);
      expect(gatewayMs).toBeGreaterThanOrEqual(beforeMs + aheadMs);
      expect(gatewayMs).toBeLessThanOrEqual(Date.now() + aheadMs);
    } finally {
      await gateway.stop();
    }
  },
);
