import { execFile } from "node:child_process";
import { once } from "node:events";
import { request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findRedisProgram, startRedis, type TestRedis } from "../support/database/redis.ts";
import { type ApiClient, apiClient } from "../support/people/api-client.ts";
import { dpopClient } from "../support/people/dpop-client.ts";
import { newMachineClient, requestToken } from "../support/people/machine-client.ts";
import { measureRevocations, type Revocable, session } from "../support/people/revocations.ts";
import { PUBLIC_HOST, startThreeOfEach } from "../support/system/replicas.ts";
import { ADMIN, type System, startSystem } from "../support/system/system.ts";

/** Leaves the machine some time for the work that the load is for. */
const PAUSE_MS = 10;

let system: System;
let redis: TestRedis | undefined;
let three: Awaited<ReturnType<typeof startThreeOfEach>>;
let apis: ApiClient[];

beforeAll(async () => {
  const program = findRedisProgram();
  if (program !== undefined) redis = await startRedis(program);
  system = await startSystem();
  three = await startThreeOfEach(system, redis?.url);
  apis = three.gateways.map(({ address }) => apiClient(`http://${address}`));
});

afterAll(async () => {
  await three?.stop();
  await system?.remove();
  await redis?.remove();
});

const count = (statuses: Map<number, number>, status: number) =>
  statuses.set(status, (statuses.get(status) ?? 0) + 1);

/** Runs `work` while `load` runs against each gateway. The load stops with the work, also on failure. */
async function underLoad<T>(
  load: (api: ApiClient, isDone: () => boolean) => Promise<void>,
  work: () => Promise<T>,
): Promise<T> {
  let isDone = false;
  const loads = Promise.all(apis.map((api) => load(api, () => isDone)));
  const worked = work().finally(() => {
    isDone = true;
  });
  // A failing load fails the test at once.
  const [result] = await Promise.all([worked, loads]);
  return result;
}

/** How many times each thing that can be revoked is. */
const ROUNDS = 9;

async function programs(kind: "secret" | "api_key"): Promise<() => Promise<Revocable>> {
  const api = apis[0] as ApiClient;
  const client = await newMachineClient(api);
  return async () => {
    const { credential, secret } = await client.add({ kind });
    if (kind === "api_key") return client.revocable(secret, credential.id);
    const { body } = await requestToken(api, client.id, secret);
    return client.revocable(body.access_token, credential.id);
  };
}

// trials/bench/revocation.ts measures the time: hundreds of each, with percentiles.
test.each([
  [
    "a logout",
    "/auth/me",
    async () => {
      const user = await (apis[0] as ApiClient).newUser();
      return () => session(() => (apis[0] as ApiClient).logIn(user));
    },
  ],
  ["the end of a client's secret", "/payments", () => programs("secret")],
  ["the end of an API key", "/payments", () => programs("api_key")],
] as const)(
  "under load, %s at one of three gateways is felt there by the next request, and everywhere",
  async (_, path, prepare) => {
    const begin = await prepare();
    const statuses = new Map<number, number>();
    const delays = await underLoad(
      async (api, isDone) => {
        const { accessToken } = await api.newUser();
        for (; !isDone(); await sleep(PAUSE_MS)) {
          count(statuses, (await api.get("/payments", { token: accessToken })).status);
        }
      },
      () =>
        measureRevocations(
          ROUNDS,
          begin,
          path,
          three.gateways.map(({ address }) => address),
        ),
    );
    expect([...statuses.keys()]).toEqual([200]);
    expect(Math.max(...delays.own)).toBe(0);
    expect(delays.others.every(Number.isFinite)).toBe(true);
  },
);

test("a client that changes its secret and its API key under load loses no call at any of three gateways", async () => {
  const api = apis[0] as ApiClient;
  const client = await newMachineClient(api);
  const newPair = async (generation: number) => ({
    generation,
    secret: await client.add({ kind: "secret" }),
    apiKey: await client.add({ kind: "api_key" }),
  });
  let current = await newPair(0);
  /** By gateway: the generation that its load used last, in all its calls. */
  const used = new Map<ApiClient, number>();
  const statuses = new Map<number, number>();
  await underLoad(
    async (own, isDone) => {
      let token = { generation: -1, text: "" };
      for (; !isDone(); await sleep(PAUSE_MS)) {
        const { generation, secret, apiKey } = current;
        if (token.generation !== generation) {
          const asked = await requestToken(own, client.id, secret.secret);
          count(statuses, asked.status);
          token = { generation, text: asked.body.access_token };
        }
        for (const text of [token.text, apiKey.secret])
          count(statuses, (await own.get("/payments", { token: text })).status);
        used.set(own, generation);
      }
    },
    async () => {
      for (let round = 1; round <= 5; round += 1) {
        const old = current;
        current = await newPair(round);
        await expect
          .poll(() => apis.every((each) => used.get(each) === round), { timeout: 60_000 })
          .toBe(true);
        for (const { credential } of [old.secret, old.apiKey])
          expect(await client.remove(credential.id)).toBe(200);
      }
    },
  );
  expect([...statuses.keys()]).toEqual([200]);
});

/** A call through a balancer: the host is the public one, whichever gateway it reaches. */
async function callThrough(
  gateway: string,
  method: string,
  path: string,
  headers: OutgoingHttpHeaders,
  body = "",
) {
  const [hostname, port] = gateway.split(":");
  const all = { ...headers, host: PUBLIC_HOST, "content-length": Buffer.byteLength(body) };
  const request = httpRequest({ hostname, port, method, path, headers: all, timeout: 60_000 });
  request.end(body);
  const [response] = (await once(request, "response")) as [IncomingMessage];
  const answer = JSON.parse(await text(response));
  return { status: response.statusCode, nonce: response.headers["dpop-nonce"] as string | undefined, answer };
}

test("a proof counts once, at one of three gateways, and its token at none without one", async () => {
  const gateways = three.gateways.map(({ address }) => address);
  const [first = "", ...others] = gateways;
  const { email, password } = await (apis[0] as ApiClient).newUser();
  const { proof } = await dpopClient();
  const origin = `http://${PUBLIC_HOST}`;

  const login = async (nonce?: string) =>
    callThrough(
      first,
      "POST",
      "/auth/login",
      {
        "content-type": "application/json",
        dpop: await proof({ url: `${origin}/auth/login`, ...(nonce !== undefined && { nonce }) }),
      },
      JSON.stringify({ email, password }),
    );
  let begun = await login();
  if (begun.nonce !== undefined && begun.status !== 200) begun = await login(begun.nonce);
  expect(begun).toMatchObject({ status: 200, answer: { data: { tokenType: "DPoP" } } });
  const token = begun.answer.data.accessToken as string;

  let nonce: string | undefined;
  const fresh = () =>
    proof({ method: "GET", url: `${origin}/auth/me`, token, ...(nonce !== undefined && { nonce }) });
  const show = async (gateway: string, dpop: string) => {
    const shown = await callThrough(gateway, "GET", "/auth/me", { authorization: `DPoP ${token}`, dpop });
    nonce = shown.nonce ?? nonce;
    return shown;
  };
  for (const gateway of [first, ...others, first]) {
    let used = await fresh();
    let accepted = await show(gateway, used);
    if (accepted.status === 401) {
      expect(accepted.answer.error.code).toBe("token_proof_needs_nonce");
      used = await fresh();
      accepted = await show(gateway, used);
    }
    expect(accepted.status).toBe(200);
    for (const again of gateways) {
      const replayed = await show(again, used);
      expect(replayed.status).toBe(401);
      expect(replayed.answer.error.code).toMatch(/^token_proof_(?:invalid|needs_nonce)$/);
    }
    const bearer = { authorization: `Bearer ${token}` };
    expect((await callThrough(gateway, "GET", "/auth/me", bearer)).status).toBe(401);
  }
});

test("a hundred refreshes over three replicas give one chain and a hundred equal answers", async () => {
  const user = await (apis[0] as ApiClient).newUser();
  const refresh = (index: number) =>
    (apis[index % 3] as ApiClient).post("/auth/refresh", { refreshToken: user.refreshToken });
  const answers = await Promise.all(Array.from({ length: 100 }, (_, index) => refresh(index)));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  expect(new Set(answers.map(({ body }) => body.data.refreshToken)).size).toBe(1);
  expect(new Set(answers.map(({ body }) => body.data.accessToken)).size).toBe(1);
});

test("a reused refresh token ends the session everywhere, is in the audit log, and its owner is notified by mail", async () => {
  const api = apis[1] as ApiClient;
  const user = await api.newUser();
  const second = await api.post("/auth/refresh", { refreshToken: user.refreshToken });
  const third = await api.post("/auth/refresh", { refreshToken: second.body.data.refreshToken });
  const reused = await api.post("/auth/refresh", { refreshToken: user.refreshToken });
  expect(reused).toMatchObject({ status: 401, body: { error: { code: "refresh_token_reused" } } });

  for (const other of apis) {
    await expect
      .poll(async () => (await other.get("/auth/me", { token: third.body.data.accessToken })).status)
      .toBe(401);
  }
  const { accessToken } = await api.logIn(ADMIN);
  await expect
    .poll(async () => {
      const { body } = await api.get(`/admin/audit?action=session.refresh_reused&actor=${user.user.id}`, {
        token: accessToken,
      });
      return body.data.entries;
    })
    .toMatchObject([{ kind: "event", outcome: "failure", errorCode: "refresh_token_reused" }]);
  await expect
    .poll(async () => {
      const mails = await (await fetch(`http://127.0.0.1:${system.ports.MAILBOX_PORT}/email`)).json();
      return (mails as { subject: string; to: { address: string }[] }[]).filter(
        ({ subject, to }) => to[0]?.address === user.email && subject === "We ended one of your sessions",
      ).length;
    })
    .toBe(1);
});

/** The operator's command, on the first token-service replica, with the certificate of the running system. */
async function gatehouse(...args: string[]): Promise<unknown> {
  const [host, port] = (three.tokens[0]?.address ?? "").split(":");
  const environment = {
    PATH: process.env.PATH ?? "",
    TOKEN_SERVICE_ADDRESS: `${host}:${port}`,
    TLS_CERT_FILE: join(system.home, "tls", "operator.crt"),
    TLS_KEY_FILE: join(system.home, "tls", "operator.key"),
    TLS_CA_FILE: join(system.home, "tls", "ca.crt"),
  };
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [join(import.meta.dirname, "..", "..", "cli", "main.ts"), "--json", ...args],
    { env: environment },
  );
  return JSON.parse(stdout);
}

test("rotations under load fail no request, and tokens of before stay good", async () => {
  const before = await (apis[0] as ApiClient).newUser();
  const statuses = new Map<number, number>();
  await underLoad(
    async (api, isDone) => {
      let { refreshToken } = await api.newUser();
      for (; !isDone(); await sleep(PAUSE_MS)) {
        const refreshed = await api.post("/auth/refresh", { refreshToken });
        refreshToken = refreshed.body.data.refreshToken;
        const answers = await Promise.all(
          apis.map((other) => other.get("/auth/me", { token: refreshed.body.data.accessToken })),
        );
        for (const { status } of [refreshed, ...answers]) count(statuses, status);
      }
    },
    async () => {
      for (let rotation = 0; rotation < 3; rotation += 1) await gatehouse("keys", "rotate", "--force");
    },
  );
  expect([...statuses.keys()]).toEqual([200]);
  expect((await (apis[1] as ApiClient).get("/auth/me", { token: before.accessToken })).status).toBe(200);
});

test("a banned key is refused at every edge within a second, and refresh still gives new tokens", async () => {
  const api = apis[0] as ApiClient;
  const user = await api.newUser();
  for (const other of apis)
    expect((await other.get("/auth/me", { token: user.accessToken })).status).toBe(200);
  const keyId = JSON.parse(Buffer.from(user.accessToken.split(".")[0] ?? "", "base64url").toString()).kid;
  await gatehouse("keys", "revoke", "--reason", "drill", "--", keyId);
  for (const other of apis) {
    await expect
      .poll(async () => (await other.get("/auth/me", { token: user.accessToken })).status, { interval: 10 })
      .toBe(401);
  }
  // By a replica that has only heard of the ban.
  const refreshed = await (apis[2] as ApiClient).post("/auth/refresh", { refreshToken: user.refreshToken });
  expect(refreshed.status).toBe(200);
  for (const other of apis) {
    expect((await other.get("/auth/me", { token: refreshed.body.data.accessToken })).status).toBe(200);
  }
  await expect
    .poll(
      async () => {
        // A replica that has not heard of the ban yet may still sign with the key: its tokens are refused like the others.
        const { accessToken } = await api.logIn(ADMIN);
        return (await api.get("/admin/audit?action=key.revoked", { token: accessToken })).body.data?.entries;
      },
      { interval: 200 },
    )
    .toMatchObject([{ kind: "event", resource: keyId, reason: "drill" }]);
});

/** What a token says, whichever key signed it. */
const claimsOf = (token: string) => token.split(".")[1];

test("a token-service killed in the middle of refreshes loses no session and forks none", async () => {
  const user = await (apis[0] as ApiClient).newUser();
  const victim = three.tokens[2];
  const impatient = three.gateways.map(({ address }) => apiClient(`http://${address}`, { isPatient: false }));
  const racing = Array.from({ length: 60 }, (_, index) =>
    (impatient[index % 3] as ApiClient).post("/auth/refresh", { refreshToken: user.refreshToken }),
  );
  victim?.child.kill("SIGKILL");
  const answers = await Promise.all(racing);
  expect(answers.every(({ status }) => status === 200 || status === 503)).toBe(true);
  const good = answers.filter(({ status }) => status === 200);
  expect(new Set(good.map(({ body }) => claimsOf(body.data.refreshToken))).size).toBeLessThanOrEqual(1);
  expect(
    (await (apis[0] as ApiClient).post("/auth/refresh", { refreshToken: user.refreshToken })).status,
  ).toBe(200);
});
