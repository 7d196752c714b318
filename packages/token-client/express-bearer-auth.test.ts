import { once } from "node:events";
import { createServer, type IncomingMessage, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { setImmediate } from "node:timers/promises";
import express, { type NextFunction, type Request, type Response } from "express";
import { afterEach, expect, test } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import { type BearerMiddleware, expressBearerAuth } from "./express-bearer-auth.ts";
import type { Principal, Verification } from "./principal.ts";
import { principalOfRequest } from "./request-principal.ts";

const at = new Date(0);
const ADA: Principal = {
  kind: "user",
  userId: "ada",
  sessionId: "s",
  role: "USER",
  clientId: "",
  scopes: [],
  tokenId: "t",
  keyId: "k",
  amr: ["pwd"],
  acr: 1,
  authTime: at,
  issuedAt: at,
  expiresAt: at,
};
const VERDICTS: Record<string, Verification> = {
  user: { kind: "active", principal: ADA },
  client: { kind: "active", principal: { ...ADA, kind: "client", role: "", scopes: ["payments:read"] } },
  expired: { kind: "inactive", reason: "expired" },
};
/** A clock that is not that of this machine. */
const NOW_MS = 1_000_000;
let addresses: (string | undefined)[] = [];
const verifier = {
  verify(token: string, clientIp?: string): Verification {
    if (token === "away") throw new DomainError("service_unavailable", "away", { retryAfterMs: 1_500 });
    if (token === "bug") throw new TypeError("a bug");
    addresses.push(clientIp);
    return VERDICTS[token] ?? { kind: "inactive", reason: "invalid" };
  },
  nowMs: () => NOW_MS,
  acceptsBound: false,
};

let server: Server;
afterEach(() => {
  server.close();
  addresses = [];
});

/** Without a framework. */
async function serve(middleware: BearerMiddleware): Promise<string> {
  server = createServer((request, response) =>
    middleware(request, response, (error) => {
      if (error === undefined) return response.end(principalOfRequest(request).userId);
      response.statusCode = 500;
      return response.end();
    }),
  );
  await once(server.listen(0, "127.0.0.1"), "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test.each([
  [undefined, 401, "token_missing", "Bearer", null],
  ["Bearer nonsense", 401, "token_invalid", 'Bearer error="invalid_token"', null],
  ["Bearer expired", 401, "token_expired", 'Bearer error="invalid_token"', null],
  ["Bearer away", 503, "service_unavailable", null, "2"],
  ["Bearer client", 403, "forbidden", 'Bearer error="insufficient_scope"', null],
  ["Bearer bug", 500, "", null, null],
  ["Bearer user", 200, "ada", null, null],
])("with %j: %i %s", async (authorization, status, body, challenge, retryAfter) => {
  const url = await serve(expressBearerAuth({ verifier, auth: "authenticated" }));
  const answer = await fetch(url, { headers: authorization === undefined ? {} : { authorization } });
  expect([answer.status, codeOr(await answer.text())]).toEqual([status, body]);
  expect(answer.headers.get("www-authenticate")).toBe(challenge);
  expect(answer.headers.get("retry-after")).toBe(retryAfter);
});

/** Of a refusal its code. */
const codeOr = (text: string) => (text.startsWith("{") ? JSON.parse(text).error.code : text);

test("a refusal is answered as the gateway does, and names neither what is away nor whose defect it was", async () => {
  const url = await serve(expressBearerAuth({ verifier, auth: "authenticated", assurance: { acr: 2 } }));
  const refused = async (token: string, method = "GET") => {
    const answer = await fetch(url, { method, headers: { authorization: `Bearer ${token}` } });
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect(answer.headers.get("content-type")).toBe("application/json; charset=utf-8");
    return answer.text();
  };
  expect(JSON.parse(await refused("away"))).toEqual({
    success: false,
    message: "A part of Gatehouse is temporarily unavailable; try again.",
    error: { code: "service_unavailable" },
  });
  expect(JSON.parse(await refused("user"))).toMatchObject({
    success: false,
    error: { code: "step_up_required", details: { acr: 2, methods: ["passkey", "totp", "recovery_code"] } },
  });
  expect(await refused("user", "HEAD")).toBe("");
});

test.each(["answer", "next"] as const)(
  "what the application has answered meanwhile stays, and a refusal after it ends no process (onRefusal %s)",
  async (onRefusal) => {
    const late = Promise.withResolvers<Verification>();
    const slow = { ...verifier, verify: () => late.promise };
    const guard = expressBearerAuth({ verifier: slow, auth: "authenticated", onRefusal });
    const passed: unknown[] = [];
    const url = await serve((request, response) => {
      guard(request, response, (error) => passed.push(error));
      response.writeHead(503).end("too slow");
    });
    const answer = await fetch(url, { headers: { authorization: "Bearer user" } });
    expect([answer.status, await answer.text()]).toEqual([503, "too slow"]);
    const unhandled: unknown[] = [];
    const note = (error: unknown) => unhandled.push(error);
    process.on("unhandledRejection", note);
    late.reject(new DomainError("service_unavailable"));
    await setImmediate();
    process.off("unhandledRejection", note);
    expect([unhandled, passed]).toEqual([[], []]);
  },
);

test.each(["answer", "next"] as const)("an Express application with onRefusal %s", async (onRefusal) => {
  const seen: unknown[] = [];
  const app = express();
  app.use(expressBearerAuth({ verifier, auth: "authenticated", onRefusal }));
  app.use(
    (
      error: { statusCode?: number; code?: string },
      _request: Request,
      answer: Response,
      _next: NextFunction,
    ) => {
      seen.push(error.code);
      answer.status(error.statusCode ?? 500).json({ mine: error.code });
    },
  );
  server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const answer = await fetch(url, { headers: { authorization: "Bearer away" } });
  expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "2"]);
  expect(answer.headers.get("cache-control")).toBe("no-store");
  expect("mine" in ((await answer.json()) as object)).toBe(onRefusal === "next");
  expect(seen).toEqual(onRefusal === "next" ? ["service_unavailable"] : []);
  const bug = await fetch(url, { headers: { authorization: "Bearer bug" } });
  expect([bug.status, await bug.json()]).toEqual([500, {}]);
});

test.each([
  [
    "bound",
    "step_up_required",
    'DPoP error="insufficient_user_authentication", acr_values="urn:gatehouse:acr:2"',
  ],
  ["expired", "token_expired", 'DPoP error="invalid_token"'],
])("the challenge of a token that came by DPoP (%s) names DPoP", async (token, code, challenge) => {
  const bound = { kind: "active", principal: { ...ADA, confirmation: { jkt: "k", x5tS256: "" } } } as const;
  const ofKeys = {
    ...verifier,
    verify: (text: string) => (text === "bound" ? bound : verifier.verify(text)),
    acceptsBound: true,
  };
  const url = await serve(
    expressBearerAuth({ verifier: ofKeys, auth: "authenticated", assurance: { acr: 2 } }),
  );
  const answer = await fetch(url, { headers: { authorization: `DPoP ${token}` } });
  expect([codeOr(await answer.text()), answer.headers.get("www-authenticate")]).toEqual([code, challenge]);
});

test("a route demands roles, scopes and a level, and names what is missing", async () => {
  const auth = { roles: ["ADMIN"], scopes: ["payments:read"] };
  const url = await serve(expressBearerAuth({ verifier, auth }));
  const call = (token: string) => fetch(url, { headers: { authorization: `Bearer ${token}` } });
  expect((await call("user")).status).toBe(403);
  expect((await call("client")).status).toBe(200);
  server.close();
  const high = await serve(expressBearerAuth({ verifier, auth: "authenticated", assurance: { acr: 2 } }));
  const answer = await fetch(high, { headers: { authorization: "Bearer user" } });
  expect([answer.status, answer.headers.get("www-authenticate")]).toEqual([
    401,
    'Bearer error="insufficient_user_authentication", acr_values="urn:gatehouse:acr:2"',
  ]);
});

test("of several credentials nobody knows which count", async () => {
  const url = await serve(expressBearerAuth({ verifier, auth: "authenticated" }));
  const call = async (...authorization: string[]) => {
    const outgoing = request(url, { agent: false });
    outgoing.setHeader("authorization", authorization);
    outgoing.end();
    const [answer] = (await once(outgoing, "response")) as [IncomingMessage];
    return codeOr(await text(answer));
  };
  expect(await call("Bearer user", "Bearer user")).toBe("token_invalid");
  expect(await call("Basic eDp4", "Bearer user")).toBe("token_invalid");
  expect(await call("Basic eDp4", "Basic eDp4")).toBe("token_missing");
  expect(await call("Bearer user")).toBe("ada");
});

test("the age of a proof counts by the clock of token-service", async () => {
  const assurance = { acr: 1, maxAgeSeconds: NOW_MS / 1_000 } as const;
  const url = await serve(expressBearerAuth({ verifier, auth: "authenticated", assurance }));
  expect((await fetch(url, { headers: { authorization: "Bearer user" } })).status).toBe(200);
});

test("a client has the share of its network, by its address; a neighbour speaks for many", async () => {
  const headers = { authorization: "Bearer user", "x-client": "192.0.2.1" };
  await fetch(await serve(expressBearerAuth({ verifier, auth: "authenticated" })), { headers });
  server.close();
  const clientIp = ({ headers }: IncomingMessage) => String(headers["x-client"]);
  await fetch(await serve(expressBearerAuth({ verifier, auth: "authenticated", clientIp })), { headers });
  server.close();
  const guard = expressBearerAuth({ verifier, auth: "authenticated" });
  const url = await serve((request, response, next) =>
    guard(Object.assign(request, { ip: "198.51.100.1" }), response, next),
  );
  await fetch(url, { headers });
  expect(addresses).toEqual([undefined, "192.0.2.1", "198.51.100.1"]);
});

test("a route without the middleware has no principal", async () => {
  const url = await serve((request, _response, next) => {
    try {
      principalOfRequest(request);
    } catch (error) {
      next(error);
    }
  });
  expect((await fetch(url)).status).toBe(500);
});
