import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { textWithReferences } from "#tests/support/house/openapi-answers.ts";
import { type DpopClient, dpopClient, type ProofParts } from "#tests/support/people/dpop-client.ts";
import type { Verification } from "#token-client/principal.ts";
import { defaultLimitClasses } from "../limits/limit-class.ts";
import {
  completedLogin,
  HOST,
  principalWith,
  routesOf,
  send,
  testGateway,
  tokens,
  verifierOfUsers,
} from "../testing/test-gateway.ts";
import { UsedProofs } from "./proofs/used-proofs.ts";

let client: DpopClient;
let other: DpopClient;
let usedProofs: UsedProofs;
beforeEach(async () => {
  [client, other] = await Promise.all([dpopClient(), dpopClient("EdDSA")]);
  usedProofs = new UsedProofs({
    redis: undefined,
    nowMs: () => performance.now(),
    wallMs: () => Date.now(),
  });
});

const BOUND = "bound.jwt.text";

function gateway(parts: Parameters<typeof testGateway>[0] = {}) {
  const principal = { ...principalWith("USER"), confirmation: { jkt: client.jkt, x5tS256: "" } };
  const verdicts = new Map<string, Verification>([[BOUND, { kind: "active", principal }]]);
  return testGateway({
    verifier: verifierOfUsers(verdicts),
    usedProofs,
    sessions: { listSessions: async () => ({ sessions: [] }), revokeSession: async () => ({ sequence: 1 }) },
    ...parts,
  });
}

/** GET /auth/sessions with the bound token. */
async function call(
  app: ReturnType<typeof gateway>["app"],
  proof: string | string[] | undefined,
  { scheme = "DPoP", token = BOUND, url = "/auth/sessions" } = {},
) {
  return app.inject({
    url,
    headers: { host: HOST, authorization: `${scheme} ${token}`, ...(proof !== undefined && { dpop: proof }) },
  });
}

const proofOf = (parts: ProofParts = {}, of = client) =>
  of.proof({ method: "GET", url: "/auth/sessions", token: BOUND, nonce: usedProofs.nonce, ...parts });

describe("a call with a token of a key", () => {
  test("passes with a proof, by any writing of the scheme", async () => {
    const { app } = gateway();
    for (const scheme of ["DPoP", "dpop"])
      expect((await call(app, await proofOf(), { scheme })).statusCode).toBe(200);
  });

  test("is refused as a bearer token's, also with a proof, and costs no proof", async () => {
    const { app } = gateway();
    const proof = await proofOf();
    for (const given of [undefined, proof]) {
      const answer = await call(app, given, { scheme: "Bearer" });
      expect([answer.statusCode, answer.json().error.code]).toEqual([401, "token_proof_missing"]);
      expect(answer.headers["www-authenticate"]).toMatch(
        /^DPoP error="invalid_token", algs="ES256 EdDSA Ed25519"/,
      );
    }
    expect((await call(app, proof)).statusCode).toBe(200);
  });

  test("is refused without a proof", async () => {
    const answer = await call(gateway().app, undefined);
    expect([answer.statusCode, answer.json().error.code]).toEqual([401, "token_proof_missing"]);
  });

  test.each<[string, ProofParts]>([
    ["another method", { method: "POST" }],
    ["another path", { url: "/auth/me" }],
    ["another host", { url: "http://other.test/auth/sessions" }],
    ["another version of the path", { url: "/v1/auth/sessions" }],
    ["another token", { token: "another" }],
    ["no token", { claims: { ath: undefined } }],
    ["an old time", { claims: { iat: Math.floor(Date.now() / 1_000) - 300 } }],
  ])("is refused with a proof for %s", async (_what, parts) => {
    const answer = await call(gateway().app, await proofOf(parts));
    expect([answer.statusCode, answer.json().error.code]).toEqual([401, "token_proof_invalid"]);
    expect(answer.headers["www-authenticate"]).toMatch(/^DPoP error="invalid_dpop_proof", algs=/);
  });

  test("is refused with another key's proof, and with two proofs", async () => {
    const { app } = gateway();
    const refused = [
      await call(app, await proofOf({}, other)),
      await call(app, [await proofOf(), await proofOf()]),
      await call(app, `${await proofOf()}, ${await proofOf()}`),
    ];
    for (const answer of refused) expect(answer.json().error.code).toBe("token_proof_invalid");
  });

  test("is refused when its proof was used before, here or on another gateway", async () => {
    const { app } = gateway();
    const proof = await proofOf();
    expect((await call(app, proof)).statusCode).toBe(200);
    const again = await call(app, proof);
    expect([again.statusCode, again.json().error.code]).toEqual([401, "token_proof_invalid"]);
    const elsewhere = new UsedProofs({ redis: undefined, nowMs: () => 0, wallMs: () => 0 });
    const there = await call(gateway({ usedProofs: elsewhere }).app, proof);
    expect([there.statusCode, there.json().error.code]).toEqual([401, "token_proof_needs_nonce"]);
  });

  test("without a nonce gets one, and passes with it", async () => {
    const { app } = gateway();
    const asked = await call(app, await proofOf({ claims: { nonce: undefined } }));
    expect([asked.statusCode, asked.json().error.code]).toEqual([401, "token_proof_needs_nonce"]);
    expect(asked.headers["www-authenticate"]).toMatch(/^DPoP error="use_dpop_nonce"/);
    const nonce = asked.headers["dpop-nonce"];
    expect((await call(app, await proofOf({ nonce: String(nonce) }))).statusCode).toBe(200);
  });

  test("gets the next nonce before the present one is too old", async () => {
    let ms = 0;
    usedProofs = new UsedProofs({ redis: undefined, nowMs: () => ms, wallMs: () => Date.now() });
    const { app } = gateway();
    const { nonce } = usedProofs;
    expect((await call(app, await proofOf({ nonce }))).headers["dpop-nonce"]).toBeUndefined();
    ms += 60_000;
    const answer = await call(app, await proofOf({ nonce }));
    expect([answer.statusCode, answer.headers["dpop-nonce"]]).toEqual([200, usedProofs.nonce]);
    expect(usedProofs.nonce).not.toBe(nonce);
  });

  test("behind a trusted proxy is proven for the address that the client called", async () => {
    const headers = {
      host: HOST,
      authorization: `DPoP ${BOUND}`,
      "x-forwarded-proto": "https",
      dpop: await proofOf({ url: `https://${HOST}/auth/sessions` }),
    };
    const statusOf = async (trusted: boolean) =>
      (await gateway({ isTrustedProxy: () => trusted }).app.inject({ url: "/auth/sessions", headers }))
        .statusCode;
    expect(await statusOf(false)).toBe(401);
    expect(await statusOf(true)).toBe(200);
  });

  test("is proven once, also where the token is looked at again after the body", async () => {
    const { app } = gateway();
    const url = "/auth/logout";
    const answer = await app.inject({
      method: "POST",
      url,
      headers: {
        host: HOST,
        authorization: `DPoP ${BOUND}`,
        "content-type": "application/json",
        dpop: await proofOf({ method: "POST", url }),
      },
      payload: "{}",
    });
    expect(answer.statusCode).toBe(200);
  });

  test("that was refused is in the audit log as one by the token's user", async () => {
    const { app, entries } = gateway();
    await send(app, { url: "/auth/sessions", token: BOUND });
    await expect.poll(() => entries.length).toBeGreaterThan(0);
    expect(entries[0]).toMatchObject({ actor: { userId: tokens.userId }, errorCode: "token_proof_missing" });
  });
});

/** Redis, as far as proofs need it. */
function redisThatKnows(names: Set<string>) {
  const set = async (name: string) => {
    if (names.has(name)) return null;
    names.add(name);
    return "OK";
  };
  const redis = { connectedAtMs: 0, ask: <T>(work: (client: never) => Promise<T>) => work({ set } as never) };
  return new UsedProofs({ redis, nowMs: () => 1e9, wallMs: () => Date.now() });
}

describe.each(["in memory", "in Redis"])("%s", (where) => {
  test("calls that the user's limit refuses leave no proof, whatever the keys", async () => {
    const names = new Set<string>();
    if (where === "in Redis") usedProofs = redisThatKnows(names);
    const keys = await Promise.all(Array.from({ length: 20 }, () => dpopClient()));
    const verdicts = new Map<string, Verification>();
    for (const { jkt } of keys) {
      const principal = { ...principalWith("USER"), confirmation: { jkt, x5tS256: "" } };
      verdicts.set(`bound.${jkt}`, { kind: "active", principal });
    }
    const limitClasses = defaultLimitClasses();
    limitClasses.account.user = { calls: 5, perSeconds: 60 };
    const { app } = gateway({ verifier: verifierOfUsers(verdicts), limitClasses });
    const statuses: number[] = [];
    for (const key of keys) {
      const token = `bound.${key.jkt}`;
      statuses.push((await call(app, await proofOf({ token }, key), { token })).statusCode);
    }
    expect(statuses).toEqual([...Array(5).fill(200), ...Array(15).fill(429)]);
    expect(where === "in Redis" ? names.size : usedProofs.size).toBe(5);
  });

  test("of equal calls that race one is served, and the others are recorded as the user's", async () => {
    if (where === "in Redis") usedProofs = redisThatKnows(new Set());
    let served = 0;
    const listSessions = async () => {
      served += 1;
      return { sessions: [] };
    };
    const { app, entries } = gateway({ sessions: { listSessions } });
    const proof = await proofOf();
    const answers = await Promise.all(Array.from({ length: 5 }, () => call(app, proof)));
    expect(answers.map(({ statusCode }) => statusCode).sort()).toEqual([200, 401, 401, 401, 401]);
    expect(served).toBe(1);
    await expect.poll(() => entries.length).toBe(4);
    expect(entries[0]).toMatchObject({ actor: { userId: tokens.userId }, errorCode: "token_proof_invalid" });
  });
});

test("a bearer token is refused with the scheme DPoP, with and without a proof", async () => {
  const { app } = gateway();
  for (const proof of [undefined, await proofOf({ token: "user" })]) {
    const answer = await call(app, proof, { token: "user" });
    expect([answer.statusCode, answer.json().error.code]).toEqual([401, "token_proof_invalid"]);
  }
  expect((await call(app, await proofOf(), { token: "user", scheme: "Bearer" })).statusCode).toBe(200);
});

test("a token that is not valid is challenged by the scheme that it came with", async () => {
  const verdicts = new Map<string, Verification>([["gone", { kind: "inactive", reason: "expired" }]]);
  const { app } = gateway({ verifier: verifierOfUsers(verdicts) });
  const challenge = async (scheme: string) =>
    (await call(app, undefined, { token: "gone", scheme })).headers["www-authenticate"];
  expect(await challenge("DPoP")).toMatch(/^DPoP error="invalid_token",.* algs=/);
  expect(await challenge("Bearer")).toMatch(/^Bearer error="invalid_token"/);
});

test("a step-up is asked for by the scheme that the call came by", async () => {
  const upstream = "http://127.0.0.1:9";
  const demand = { auth: "authenticated", assurance: { acr: 2 } } as const;
  const { app } = gateway({ routes: routesOf([{ prefix: "/cards", upstream, methods: { GET: demand } }]) });
  for (const scheme of ["DPoP", "Bearer"] as const) {
    const isDpop = scheme === "DPoP";
    const proof = isDpop ? await proofOf({ url: "/cards" }) : undefined;
    const answer = await call(app, proof, { scheme, url: "/cards", token: isDpop ? BOUND : "user" });
    expect(answer.json().error.code).toBe("step_up_required");
    expect(answer.headers["www-authenticate"]).toBe(
      `${scheme} error="insufficient_user_authentication", acr_values="urn:gatehouse:acr:2"`,
    );
  }
});

test("wrong signatures of a network are refused after a hundred, without another check; others' calls pass", async () => {
  // A budget that no slow machine refills.
  vi.spyOn(performance, "now").mockReturnValue(performance.now());
  onTestFinished(() => void vi.restoreAllMocks());
  const { app } = gateway({ isTrustedProxy: () => true });
  const forger = await dpopClient();
  const forged = async (ip: string) =>
    app.inject({
      url: "/auth/sessions",
      headers: {
        host: HOST,
        authorization: `DPoP ${BOUND}`,
        "x-forwarded-for": ip,
        dpop: await proofOf({ header: { jwk: client.jwk } }, forger),
      },
    });
  const codes = new Set<string>();
  for (let times = 0; times < 150; times += 1) codes.add((await forged("192.0.2.1")).json().error.code);
  expect([...codes]).toEqual(["token_proof_invalid", "too_many_requests"]);
  expect((await forged("198.51.100.1")).json().error.code).toBe("token_proof_invalid");
});

describe("a request for tokens", () => {
  const BODY = { email: "ada@example.com", password: "correct horse battery" };

  function loginGateway() {
    const asked: CallContext[] = [];
    const bound = () => {
      const { value } = completedLogin().result;
      const confirmation = asked.at(-1)?.proven;
      return {
        result: {
          $case: "completed" as const,
          value: { ...value, tokens: { ...tokens, ...(confirmation && { confirmation }) } },
        },
      };
    };
    const login = async (_request: unknown, context: CallContext) => {
      asked.push(context);
      return bound();
    };
    return { asked, app: gateway({ identity: { login } }).app };
  }
  const logIn = (app: ReturnType<typeof gateway>["app"], dpop: string | undefined) =>
    send(app, {
      method: "POST",
      url: "/auth/login",
      body: BODY,
      headers: dpop === undefined ? {} : { dpop },
    });
  const loginProof = (parts: ProofParts = {}) =>
    client.proof({ url: "/auth/login", nonce: usedProofs.nonce, ...parts });

  test("with a proof names its key to the services, and the answer says how to send the token", async () => {
    const { app, asked } = loginGateway();
    const answer = await logIn(app, await loginProof());
    expect(asked[0]?.proven).toEqual({ jkt: client.jkt, x5tS256: "" });
    expect(answer.json().data.tokenType).toBe("DPoP");
    expect((await logIn(app, undefined)).json().data.tokenType).toBe("Bearer");
    expect(asked[1]?.proven).toBeUndefined();
  });

  test.each<[string, ProofParts, string]>([
    ["for another path", { url: "/auth/refresh" }, "invalid_dpop_proof"],
    ["for another method", { method: "GET" }, "invalid_dpop_proof"],
    ["of long ago", { claims: { iat: 1 } }, "invalid_dpop_proof"],
    ["without a nonce", { claims: { nonce: undefined } }, "use_dpop_nonce"],
  ])("with a proof %s is 400, before any service is asked", async (_what, parts, code) => {
    const { app, asked } = loginGateway();
    const answer = await logIn(app, await loginProof(parts));
    expect([answer.statusCode, answer.json().error.code, asked.length]).toEqual([400, code, 0]);
    expect(answer.headers["www-authenticate"]).toBeUndefined();
    expect(answer.headers["dpop-nonce"]).toBe(code === "use_dpop_nonce" ? usedProofs.nonce : undefined);
  });

  test("with garbage, or with a proof that was used before, is 400", async () => {
    const { app, asked } = loginGateway();
    const proof = await loginProof();
    expect((await logIn(app, proof)).statusCode).toBe(200);
    for (const dpop of [proof, "garbage", "", `${proof},${proof}`]) {
      const answer = await logIn(app, dpop);
      expect([answer.statusCode, answer.json().error.code]).toEqual([400, "invalid_dpop_proof"]);
    }
    expect(asked).toHaveLength(1);
  });

  test("a refresh and a logout by the refresh token hand the key on", async () => {
    const asked: unknown[] = [];
    const { app } = gateway({
      sessions: {
        refreshSession: async ({ confirmation }) => {
          asked.push(confirmation);
          return { tokens };
        },
        proveRefreshToken: async ({ confirmation }) => {
          asked.push(confirmation);
          return { userId: tokens.userId, sessionId: tokens.sessionId };
        },
        revokeSession: async () => ({ sequence: 1 }),
      },
    });
    for (const url of ["/auth/refresh", "/auth/logout"]) {
      const dpop = await client.proof({ url, nonce: usedProofs.nonce });
      const body = { refreshToken: "refresh.jwt.text" };
      expect((await send(app, { method: "POST", url, body, headers: { dpop } })).statusCode).toBe(200);
    }
    expect(asked).toEqual([
      { jkt: client.jkt, x5tS256: "" },
      { jkt: client.jkt, x5tS256: "" },
    ]);
  });

  test("at the token endpoint fails in the form of RFC 6749", async () => {
    const { app } = gateway();
    const dpop = await client.proof({ url: "/oauth/token" });
    const answer = await app.inject({
      method: "POST",
      url: "/oauth/token",
      headers: {
        host: HOST,
        authorization: "Basic YTpi",
        "content-type": "application/x-www-form-urlencoded",
        dpop,
      },
      payload: "grant_type=client_credentials",
    });
    expect([answer.statusCode, answer.json().error]).toEqual([400, "use_dpop_nonce"]);
    expect(answer.headers["dpop-nonce"]).toBe(usedProofs.nonce);
  });
});

test("an upstream gets the token with its scheme, and neither the proof nor a say in the client's nonce", async () => {
  const seen: Record<string, unknown>[] = [];
  const upstream = createServer((request, response) => {
    seen.push(request.headers);
    response.setHeader("dpop-nonce", "of-the-upstream").end("{}");
  });
  await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void upstream.close());
  const { port } = upstream.address() as AddressInfo;
  const routes = routesOf([
    { prefix: "/api", upstream: `http://127.0.0.1:${port}`, methods: { GET: { auth: "authenticated" } } },
  ]);
  const { app } = gateway({ routes });
  const dpop = await proofOf({ url: "/api/things" });
  const answer = await call(app, dpop, { url: "/api/things?page=1" });
  expect(answer.statusCode).toBe(200);
  expect(seen[0]).toMatchObject({ authorization: `DPoP ${BOUND}` });
  expect(seen[0]).not.toHaveProperty("dpop");
  expect(answer.headers).not.toHaveProperty("dpop-nonce");
  const asked = await call(app, await proofOf({ url: "/api/things", claims: { nonce: undefined } }), {
    url: "/api/things",
  });
  expect([asked.statusCode, asked.headers["dpop-nonce"], seen.length]).toEqual([401, usedProofs.nonce, 1]);
  expect((await call(app, undefined, { url: "/api/things", scheme: "Bearer" })).statusCode).toBe(401);
});

test("every public route whose answer may have tokens binds them to the key of its proof", async () => {
  const { app } = gateway();
  const document = (await send(app, { url: "/openapi.json" })).json();
  const issuing = Object.entries<Record<string, { responses: Record<string, unknown> }>>(
    document.paths,
  ).flatMap(([path, methods]) =>
    Object.values(methods)
      .filter(({ responses }) =>
        /"(?:accessToken|access_token)":/.test(textWithReferences(document, responses["200"])),
      )
      .map(({ responses }) => [path, textWithReferences(document, responses).includes("invalid_dpop_proof")]),
  );
  expect(issuing.length).toBeGreaterThan(7);
  expect(issuing.filter(([path, binds]) => !binds && path !== "/auth/step-up/verify")).toEqual([]);
});
