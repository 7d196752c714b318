import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from "vitest";
import { PrincipalKind } from "#proto/gatehouse/token/v1/principal.ts";
import { InactiveReason } from "#proto/gatehouse/token/v1/token_service.ts";
import { openEdge } from "#tests/support/system/faulty-edge.ts";
import { type ConformanceCertificates, createConformanceCertificates } from "./certificates.ts";
import type { Answer, Route } from "./doors.ts";
import { type DriverProcess, startDriver } from "./driver-process.ts";
import { change, clientPrincipal, forge, type IssuedToken, KEY_ID, OTHER_KEY_ID } from "./issued-tokens.ts";
import { ScriptedTokenService } from "./scripted-token-service.ts";

/** Memory is trusted for so long after the last message. */
const SILENCE_MS = 3_000;
const HOUR_MS = 3_600_000;
/** Of a stream that is kept, because it is less than 2 s. */
const LAG_MS = 1_600;
/** Two seconds of silence, and a bit for the last message; then memory is trusted no longer, too. */
const NOTICED_MS = 3_500;
/** Longer than the deadline of a call, and than connections are tried. */
const FROZEN_MS = 15_000;
/** A request that waits for its deadline of 10 s lets many more pass; machines differ less. */
const MAX_REFUSALS = 100;
const NEW_KEY_ID = "N".repeat(43);
/** Not the default of the packages: a busy machine is slow, not broken. */
const PATIENT = { CALL_TIMEOUT_MS: "10000" };

/** A frame of a stack, as the languages write it. */
const STACK = /^\s+at .+[(:]|Traceback \(most recent|^goroutine \d+/m;

const { door, command, name } = inject("driverCase");

describe("the verifier", () => {
  let certificates: ConformanceCertificates;
  let service: ScriptedTokenService;
  let drivers: DriverProcess[];
  let verifier: DriverProcess;

  beforeAll(async () => {
    certificates = await createConformanceCertificates();
  });

  afterAll(() => certificates.remove());

  beforeEach(async () => {
    drivers = [];
    service = new ScriptedTokenService(certificates.of("token-service"));
    await service.start();
  });

  afterEach(async () => {
    const complaints = await Promise.all(drivers.map((process) => process.stop()));
    await service.stop();
    for (const text of complaints) expect(text).not.toMatch(STACK);
  });

  async function start(environment: Readonly<Record<string, string>> = PATIENT): Promise<void> {
    verifier = await startDriver(command, door, {
      TOKEN_SERVICE_ADDRESS: service.address,
      ...certificates.environment,
      ...environment,
    });
    drivers.push(verifier);
  }

  /** Seconds without a connection make a verifier refuse at once: a busy machine may need them. */
  async function startConnected(): Promise<void> {
    await start();
    await remembered();
  }

  const ask = (text: string, route: Route = "whoami") => verifier.door.call(route, `Bearer ${text}`);
  const verdict = async (text: string, route?: Route) => (await ask(text, route)).verdict;
  /** Until the verdict is this one. */
  const becomes = (text: string, expected: string) => expect.poll(() => verdict(text)).toBe(expected);

  /** Whether a call is answered without token-service. */
  async function isFromMemory(text: string): Promise<boolean> {
    const before = service.callsOf(text);
    expect(await verdict(text)).toBe("admitted");
    return service.callsOf(text) === before;
  }
  const becomesReady = (expected: string) =>
    expect.poll(async () => (await verifier.door.call("ready", undefined)).verdict).toBe(expected);
  const remembers = (text: string) => expect.poll(() => isFromMemory(text)).toBe(true);

  async function remembered(...wishes: Parameters<ScriptedTokenService["issue"]>): Promise<IssuedToken> {
    const token = service.issue(...wishes);
    await remembers(token.text);
    return token;
  }

  /** Asks until the verdict is this one. @returns all answers. */
  async function askUntil(text: string, expected: string): Promise<Answer[]> {
    const answers: Answer[] = [];
    const next = async () => {
      answers.push(await ask(text));
      return answers.at(-1)?.verdict;
    };
    await expect.poll(next, { interval: 20 }).toBe(expected);
    return answers;
  }

  const httpTest = test.runIf(door === "http");

  describe("a token", () => {
    test("that is valid is admitted with its principal, then from memory", async () => {
      await start();
      const { text, principal } = await remembered();
      const { caller } = await ask(text);
      const { userId, sessionId } = principal;
      expect(caller).toEqual({ kind: "user", userId, sessionId, role: "USER", clientId: "", scopes: [] });
    });

    test("of a user that names the gateway as its client is a user's, and no client's", async () => {
      await startConnected();
      const principal = { clientId: "gatehouse", scopes: ["payments:read"] };
      const { text, principal: issued } = service.issue({ principal });
      const { userId, sessionId } = issued;
      const { caller } = await ask(text);
      expect(caller).toEqual({ kind: "user", userId, sessionId, role: "USER", clientId: "", scopes: [] });
    });

    test("of a client is invalid if its client is the gateway, or another than its subject", async () => {
      await startConnected();
      for (const clientId of ["gatehouse", "", "0199a000-0000-7000-8000-000000000001"]) {
        const principal = { ...clientPrincipal(["payments:read"]), clientId };
        expect(await verdict(service.issue({ principal }).text), clientId).toBe("token_invalid");
      }
    });

    test("is missing if there is none, or another scheme", async () => {
      await start();
      const { text } = service.issue();
      for (const header of [undefined, "", "Basic YWRhOmFkYQ==", "Bearers x", `DPoP ${text}`]) {
        expect((await verifier.door.call("whoami", header)).verdict, header).toBe("token_missing");
      }
      expect(service.calls).toEqual([]);
    });

    httpTest("that is missing is refused to HEAD as to GET, without the body", async () => {
      await start();
      const [head = "", body] = ((await verifier.door.head?.("whoami")) ?? "").split("\r\n\r\n");
      expect(head).toMatch(/^HTTP\/1\.1 401 /);
      for (const line of [/^www-authenticate: Bearer$/im, /^cache-control: no-store$/im])
        expect(head.replaceAll("\r", "")).toMatch(line);
      expect(body).toBe("");
    });

    // A route of Fastify without a rule stops the start, and one of Express is public.
    test.runIf(name.startsWith("nestjs-"))(
      "is of no use on a route that does not say who may call it",
      async () => {
        await start();
        const { text } = await remembered({ principal: { role: "ADMIN" } });
        const answer = await verifier.door.head?.("unlisted", `Bearer ${text}`);
        expect(answer).toMatch(/^HTTP\/1\.1 500 /);
      },
    );

    test("that cannot be one is refused without a call", async () => {
      await start();
      const { text } = service.issue();
      const bad = ["x", "a.b", `${text} ${text}`, `${text}.x`, `${text}${"A".repeat(4_096)}`];
      for (const credentials of bad) expect(await verdict(credentials), credentials).toBe("token_invalid");
      expect(service.calls).toEqual([]);
    });

    test("is invalid behind more than one space, and alone", async () => {
      await startConnected();
      const { text } = service.issue();
      for (const header of [`Bearer  ${text}`, "Bearer"])
        expect((await verifier.door.call("whoami", header)).verdict, header).toBe("token_invalid");
      expect((await verifier.door.call("whoami", `bEARER ${text}`)).verdict).toBe("admitted");
    });

    // gRPC for Node.js neither sends nor shows several.
    httpTest(
      "is invalid beside another one, or beside other credentials: nobody knows which counts",
      async () => {
        await startConnected();
        const bearer = `Bearer ${service.issue().text}`;
        const basic = "Basic YWRhOmFkYQ==";
        const verdictOf = async (...headers: string[]) =>
          (await verifier.door.call("whoami", headers)).verdict;
        for (const headers of [
          [bearer, bearer],
          [bearer, basic],
          [basic, bearer],
        ])
          expect(await verdictOf(...headers), String(headers)).toBe("token_invalid");
        expect(await verdictOf(basic, basic)).toBe("token_missing");
        expect(await verdictOf(bearer)).toBe("admitted");
      },
    );

    test("that no token-service would accept is refused without a call", async () => {
      await start();
      await remembered();
      const { text } = service.issue();
      const minuteAgo = Math.floor(Date.now() / 1_000) - 60;
      const bad = {
        "another type": change(text, { header: { typ: "rt+jwt" } }),
        "a further member of the header": change(text, { header: { jku: "https://other.example" } }),
        "no key": change(text, { header: { kid: undefined } }),
        "another algorithm": change(text, { header: { alg: "ES256" } }),
        "no algorithm": change(text, { header: { alg: "none" } }),
        "another issuer": change(text, { claims: { iss: "https://other.example" } }),
        "another audience": change(text, { claims: { aud: "ledger" } }),
        "no end": change(text, { claims: { exp: undefined } }),
        "a short signature": text.slice(0, -1),
      };
      for (const [what, token] of Object.entries(bad))
        expect(await verdict(token), what).toBe("token_invalid");
      const over = change(text, { claims: { exp: minuteAgo } });
      expect(await verdict(over)).toBe("token_expired");
      // Its key has left with its last token.
      const ofOldKey = change(over, { header: { kid: "X".repeat(43) } });
      expect(await verdict(ofOldKey)).toBe("token_expired");
      for (const token of [...Object.values(bad), over, ofOldKey])
        expect(service.callsOf(token), token).toBe(0);
    });

    test("of an unknown key waits for the next message, because the key may be new", async () => {
      await start();
      await remembered();
      const strange = change(service.issue().text, { header: { kid: "X".repeat(43) } });
      // On a machine that stands still no message may come in time.
      await becomes(strange, "token_invalid");
      expect(service.callsOf(strange)).toBe(0);
      const { text } = service.issue({ keyId: NEW_KEY_ID });
      const answers = askUntil(text, "admitted");
      service.addKey(NEW_KEY_ID);
      const verdicts = (await answers).map(({ verdict }) => verdict);
      expect(verdicts.filter((one) => one !== "service_unavailable")).toEqual(["admitted"]);
    });

    test("of an unknown key waits long enough on a stream that lags and counts as live", async () => {
      service.openingMs = LAG_MS;
      await start();
      await remembered();
      const strange = change(service.issue().text, { header: { kid: "X".repeat(43) } });
      await becomes(strange, "token_invalid");
      expect(service.callsOf(strange)).toBe(0);
      const { text } = service.issue({ keyId: NEW_KEY_ID });
      const answer = askUntil(text, "admitted");
      service.addKey(NEW_KEY_ID);
      expect((await answer).filter(({ verdict }) => verdict === "token_invalid")).toEqual([]);
    });

    test("that token-service refuses is refused from memory, and asked for again after a while", async () => {
      await start();
      await remembered();
      const token = service.issue({
        answer: { active: false, reason: InactiveReason.INVALID, principal: undefined },
      });
      for (let count = 0; count < 3; count += 1) expect(await verdict(token.text)).toBe("token_invalid");
      expect(service.callsOf(token.text)).toBe(1);
      token.answer = {};
      await becomes(token.text, "admitted");
    });

    test("that is forged is refused, and the genuine one is still known", async () => {
      await start();
      const { text } = await remembered();
      for (let count = 0; count < 3; count += 1) expect(await verdict(forge(text))).toBe("token_invalid");
      await remembers(text);
    });

    test("that has expired is refused as expired", async () => {
      await startConnected();
      expect(await verdict(service.issue({ livesMs: -1_000 }).text)).toBe("token_expired");
    });

    test("is forgotten when token-service would refuse it", async () => {
      await start();
      const { text, endsAtMs } = service.issue({ livesMs: 6_000 });
      const answers = await askUntil(text, "token_expired");
      const late = answers.filter((answer) => answer.verdict === "admitted" && answer.sentMs > endsAtMs);
      expect(late).toEqual([]);
    });

    test("of a user without the role is forbidden, and of a client too", async () => {
      await startConnected();
      const user = service.issue().text;
      const admin = service.issue({ principal: { role: "ADMIN" } }).text;
      const client = service.issue({ principal: clientPrincipal(["payments:read"]) }).text;
      const verdicts = [
        await verdict(user, "admin"),
        await verdict(admin, "admin"),
        await verdict(client, "admin"),
      ];
      expect(verdicts).toEqual(["forbidden", "admitted", "forbidden"]);
    });

    test("of a client is admitted with its scopes, and names no user", async () => {
      await startConnected();
      const { text, principal } = service.issue({ principal: clientPrincipal(["payments:read"]) });
      const { clientId, sessionId, scopes } = principal;
      const expected = { kind: "client", userId: "", sessionId, role: "", clientId, scopes };
      expect((await ask(text)).caller).toEqual(expected);
    });

    test("that is bound to a key is refused, also if token-service accepts it", async () => {
      await startConnected();
      const confirmation = { jkt: "J".repeat(43), x5tS256: "" };
      const bound = service.issue({ principal: { confirmation } });
      const accepted = service.issue({ principal: { confirmation }, answer: { active: true } });
      for (const { text } of [bound, accepted]) expect(await verdict(text)).toBe("token_invalid");
    });

    test("is refused if anything in the answer is missing or unknown", async () => {
      await startConnected();
      const gaps = [
        { principal: { sessionId: "" } },
        { principal: { userId: "" } },
        { principal: { tokenId: "" } },
        { principal: { keyId: "" } },
        { principal: { role: "" } },
        { principal: { role: "not a role" } },
        { principal: { kind: PrincipalKind.UNSPECIFIED } },
        { principal: { acr: "" } },
        { principal: { kind: 99 as PrincipalKind } },
        { principal: { acr: "urn:gatehouse:acr:9" } },
        { principal: { expiresAt: undefined } },
        { principal: { authTime: undefined } },
        { principal: { ...clientPrincipal(["payments:read"]), clientId: "another" } },
        { principal: clientPrincipal([]) },
        { answer: { active: true, principal: undefined } },
        { answer: { active: false, reason: 99 as InactiveReason } },
        { answer: { active: false, reason: InactiveReason.REVOKED } },
      ];
      for (const gap of gaps) {
        // The texts of tokens are made from whole principals.
        const whole = service.issue();
        Object.assign(whole.principal, gap.principal);
        whole.answer = gap.answer ?? {};
        expect(await verdict(whole.text), JSON.stringify(gap)).toBe("token_invalid");
      }
    });
  });

  describe("an audience", () => {
    test("keeps all others out, and a token-service that has not checked it", async () => {
      await start({ ...PATIENT, TOKEN_AUDIENCE: "payments" });
      await remembered({ audience: "payments" });
      const own = service.issue({ audience: "payments" });
      const issuers = service.issue();
      const ledgers = service.issue({ audience: "ledger" });
      const unchecked = service.issue({ principal: { audience: "" }, answer: { active: true } });
      const key = service.issue({ isApiKey: true, answer: { active: true } });
      expect(await verdict(own.text)).toBe("admitted");
      for (const { text } of [issuers, ledgers, unchecked, key])
        expect(await verdict(text)).toBe("token_invalid");
    });

    test("admits the issuer's tokens beside its own if the service says so", async () => {
      await start({ ...PATIENT, TOKEN_AUDIENCE: "payments", ACCEPTS_ISSUER: "true" });
      await remembered({ audience: "payments" });
      const verdicts = [];
      for (const audience of ["payments", undefined, "ledger"]) {
        verdicts.push(await verdict(service.issue({ ...(audience && { audience }) }).text));
      }
      expect(verdicts).toEqual(["admitted", "admitted", "token_invalid"]);
    });

    test("of another service is refused where none is set", async () => {
      await startConnected();
      expect(await verdict(service.issue({ audience: "payments" }).text)).toBe("token_invalid");
    });
  });

  describe("a revocation", () => {
    test("of a session ends its tokens at once and for good, and no others", async () => {
      await start();
      const [gone, other] = [await remembered(), await remembered()];
      service.revokeSession(gone.principal.sessionId);
      await becomes(gone.text, "token_invalid");
      // Also for tokens of this session that were not seen before, which VerifyToken still calls active.
      const { sessionId } = gone.principal;
      expect(await verdict(service.issue({ principal: { sessionId } }).text)).toBe("token_invalid");
      await remembers(other.text);
    });

    test("of a key ends all tokens that it signed, and no others", async () => {
      await start();
      const [gone, other] = [await remembered({ keyId: KEY_ID }), await remembered({ keyId: OTHER_KEY_ID })];
      service.banKey(KEY_ID);
      await becomes(gone.text, "token_invalid");
      expect(await verdict(service.issue({ keyId: KEY_ID }).text)).toBe("token_invalid");
      await remembers(other.text);
    });

    test("of a key ends the tokens that were exchanged for those that it signed", async () => {
      await start();
      const principal = clientPrincipal(["payments:read"]);
      const exchanged = [
        await remembered({ keyId: OTHER_KEY_ID, principal: { originKeyId: KEY_ID } }),
        await remembered({ keyId: OTHER_KEY_ID, principal: { ...principal, originKeyId: KEY_ID } }),
      ];
      const other = await remembered({ keyId: OTHER_KEY_ID, principal: { originKeyId: OTHER_KEY_ID } });
      service.banKey(KEY_ID);
      for (const { text } of exchanged) await becomes(text, "token_invalid");
      await remembers(other.text);
    });

    test("of one token of a client ends it, and the token that it was exchanged for", async () => {
      await start();
      const principal = clientPrincipal(["payments:read"]);
      const origin = await remembered({ principal });
      const exchanged = await remembered({
        principal: { ...principal, originTokenId: origin.principal.tokenId },
      });
      const other = await remembered({ principal });
      service.revokeSession(origin.principal.tokenId);
      for (const { text } of [origin, exchanged]) await becomes(text, "token_invalid");
      await remembers(other.text);
    });

    test("of an API key's credential makes the verifier ask again", async () => {
      await start();
      const principal = clientPrincipal(["payments:read"]);
      const key = await remembered({ isApiKey: true, principal });
      service.revokeSession(key.principal.sessionId);
      await becomes(key.text, "token_invalid");
      key.principal.sessionId = service.issue().principal.sessionId;
      expect(await verdict(key.text)).toBe("admitted");
    });

    test("is newer than an answer that was under way", async () => {
      await start();
      const bystander = await remembered();
      const { text, principal } = service.issue();
      service.manner = "hangs";
      const answer = verdict(text);
      await expect.poll(() => service.callsOf(text)).toBe(1);
      service.revokeSession(principal.sessionId);
      service.revokeSession(bystander.principal.sessionId);
      await becomes(bystander.text, "token_invalid");
      service.release();
      expect(await answer).toBe("token_invalid");
    });

    test("of an unknown kind ends the trust in memory, but not the service", async () => {
      await start();
      const { text } = await remembered();
      service.revokeSomethingNew();
      await expect.poll(() => isFromMemory(text)).toBe(false);
      expect(await isFromMemory(text)).toBe(false);
      if (door === "http") {
        const { lastMessageMs } = service;
        await expect.poll(() => service.lastMessageMs).toBeGreaterThan(lastMessageMs + SILENCE_MS);
        await becomesReady("admitted");
      }
      service.manner = "service_unavailable";
      expect(await verdict(text)).toBe("service_unavailable");
    });

    test("is known from a snapshot, and nothing is trusted before all of it has come", async () => {
      service.isCaughtUp = false;
      const gone = service.issue();
      service.revokeSession(gone.principal.sessionId);
      await start();
      await becomes(gone.text, "token_invalid");
      const { text } = service.issue();
      for (let count = 0; count < 3; count += 1) expect(await isFromMemory(text)).toBe(false);
      service.isCaughtUp = true;
      await remembers(text);
    });
  });

  describe("token-service", () => {
    test("is silent: memory is not trusted 3 s after its last message, and the answer is 503", async () => {
      await start();
      const { text } = await remembered();
      service.manner = "service_unavailable";
      await remembers(text);
      service.isSilent = true;
      const answers = await askUntil(text, "service_unavailable");
      expect(new Set(answers.map(({ verdict }) => verdict))).toEqual(
        new Set(["admitted", "service_unavailable"]),
      );
      const latestMs = service.lastMessageMs + SILENCE_MS;
      expect(answers.filter(({ verdict, sentMs }) => verdict === "admitted" && sentMs > latestMs)).toEqual(
        [],
      );
      service.isSilent = false;
      await becomes(text, "admitted");
    });

    test("is silent, but answers calls: every token needs one", async () => {
      await start();
      const { text } = await remembered();
      service.isSilent = true;
      await expect.poll(() => isFromMemory(text)).toBe(false);
      expect(await isFromMemory(text)).toBe(false);
      service.isSilent = false;
      await remembers(text);
    });

    test("refuses a token that was remembered: it is not admitted again when the stream is back", async () => {
      await start();
      const [token, other] = [await remembered(), await remembered()];
      service.isSilent = true;
      await expect.poll(() => isFromMemory(other.text)).toBe(false);
      token.answer = { active: false, reason: InactiveReason.INVALID, principal: undefined };
      expect(await verdict(token.text)).toBe("token_invalid");
      service.isSilent = false;
      await remembers(other.text);
      expect(await verdict(token.text)).toBe("token_invalid");
    });

    httpTest("is silent: the verifier is not ready until it is heard again", async () => {
      service.isCaughtUp = false;
      await start();
      await becomesReady("service_unavailable");
      service.isCaughtUp = true;
      await becomesReady("admitted");
      service.isSilent = true;
      await becomesReady("service_unavailable");
      service.isSilent = false;
      await becomesReady("admitted");
    });

    test("restarts: the stream resumes where it was, and what was revoked meanwhile is known", async () => {
      await start();
      const [gone, other] = [await remembered(), await remembered()];
      service.revokeSession(service.issue().principal.sessionId);
      service.revokeSession(gone.principal.sessionId);
      await becomes(gone.text, "token_invalid");
      const { sequence, tip } = service;
      await service.stop();
      await becomes(other.text, "service_unavailable");
      service.revokeSession(other.principal.sessionId);
      const before = service.streams.length;
      await service.start();
      await becomes(other.text, "token_invalid");
      expect(service.streams[before]).toEqual({ afterSequence: sequence, tip });
    });

    test("was restored from a back-up: the log with other marks is read from its beginning", async () => {
      await start();
      const [gone, other] = [await remembered(), await remembered()];
      for (let count = 0; count < 3; count += 1) service.revokeSession(service.issue().principal.sessionId);
      const watched = service.issue().principal.sessionId;
      service.revokeSession(watched);
      await becomes(service.issue({ principal: { sessionId: watched } }).text, "token_invalid");
      service.restoreLog(gone.principal.sessionId);
      await becomes(gone.text, "token_invalid");
      const { tip } = service;
      service.breakStreams();
      await expect.poll(() => service.streams.at(-1)).toEqual({ afterSequence: 1, tip });
      await remembers(other.text);
    });

    test.each([
      "service_unavailable",
      "defect",
      "too_many_requests",
      "caller_not_allowed",
      "forbidden",
    ] as const)("fails with %s: the answer is 503, never 401", async (manner) => {
      await start();
      service.manner = manner;
      const { text } = service.issue();
      expect(await verdict(text)).toBe("service_unavailable");
      service.manner = "answers";
      await becomes(text, "admitted");
    });

    test("is away from the start: 503, until it is there", async () => {
      await service.stop();
      await start();
      const { text } = service.issue();
      expect(await verdict(text)).toBe("service_unavailable");
      await service.start();
      await becomes(text, "admitted");
    });

    test("fails once: the call is repeated", async () => {
      await start();
      await remembered();
      service.failuresAhead = 1;
      const { text } = service.issue();
      expect(await verdict(text)).toBe("admitted");
      expect(service.callsOf(text)).toBe(2);
    });

    test("is killed with 50 calls under way, and another replica takes them: all are answered", async () => {
      const edge = await openEdge(service.port);
      try {
        await start({ ...PATIENT, TOKEN_SERVICE_ADDRESS: `127.0.0.1:${edge.port}` });
        await remembered();
        const tokens = Array.from({ length: 50 }, () => service.issue().text);
        service.manner = "hangs";
        const answers = tokens.map((text) => verdict(text));
        await expect.poll(() => tokens.filter((text) => service.callsOf(text) === 1)).toHaveLength(50);
        // Calls under way are not notified.
        service.manner = "answers";
        await edge.set({ port: service.port });
        expect(await Promise.all(answers)).toEqual(tokens.map(() => "admitted"));
        expect(tokens.filter((text) => service.callsOf(text) === 2)).toHaveLength(50);
      } finally {
        await edge.close();
      }
    });

    test("does not answer: the call ends by its deadline of at most a second", async () => {
      await start({});
      service.manner = "hangs";
      const { text } = service.issue();
      expect(await verdict(text)).toBe("service_unavailable");
      const left = service.calls.map(({ leftMs }) => leftMs);
      expect(Math.max(...left)).toBeLessThanOrEqual(1_000);
      service.release();
      await becomes(text, "admitted");
    });

    test("is frozen: once it was silent for 2 s, a request costs what a local refusal costs, until it is back", async () => {
      const edge = await openEdge(service.port);
      try {
        await start({ ...PATIENT, TOKEN_SERVICE_ADDRESS: `127.0.0.1:${edge.port}` });
        const known = await remembered();
        const tokens = Array.from({ length: 5 }, () => service.issue().text);
        await edge.set("silent");
        const frozenMs = performance.now();
        const early = verdict(service.issue().text);
        await sleep(NOTICED_MS);
        for (let count = 0; performance.now() < frozenMs + FROZEN_MS; count += 1) {
          const text = tokens[count % tokens.length] ?? "";
          expect(await refusalsDuring(ask(text))).toBeLessThan(MAX_REFUSALS);
          expect(await refusalsDuring(ask(known.text))).toBeLessThan(MAX_REFUSALS);
          for (const one of [text, known.text]) expect(await verdict(one)).toBe("service_unavailable");
        }
        expect(await early).toBe("service_unavailable");
        await edge.set("open");
        for (const text of [...tokens, known.text]) await becomes(text, "admitted");
        await remembers(known.text);
      } finally {
        await edge.close();
      }
    });

    /** How many requests without a token are refused, one after the other, until the answer comes. */
    async function refusalsDuring(answer: Promise<Answer>): Promise<number> {
      let isAnswered = false;
      const end = answer.finally(() => {
        isAnswered = true;
      });
      let count = 0;
      for (; !isAnswered; count += 1) await verifier.door.call("whoami", undefined);
      await end;
      return count;
    }

    test("is asked once for a token that many requests have", async () => {
      await start();
      await remembered();
      const { text } = service.issue();
      service.manner = "hangs";
      const answers = Array.from({ length: 20 }, () => verdict(text));
      await expect.poll(() => service.callsOf(text)).toBe(1);
      // A request with another token, sent last, has come through to token-service.
      const last = service.issue().text;
      answers.push(verdict(last));
      await expect.poll(() => service.callsOf(last)).toBe(1);
      service.release();
      expect(new Set(await Promise.all(answers))).toEqual(new Set(["admitted"]));
      expect(service.callsOf(text)).toBe(1);
    });

    test("is known by its certificate: another service at its address is not believed", async () => {
      await service.stop();
      service = new ScriptedTokenService(certificates.of("identity-service"));
      await service.start();
      await start();
      expect(await verdict(service.issue().text)).toBe("service_unavailable");
      expect(service.calls).toEqual([]);
    });
  });

  describe("parts of the users", () => {
    const SLOT = 0xa5f;
    const OTHER_SLOT = 0xa58;
    const inSlot = (slot: number) => ({
      sessionId: `${service.issue().principal.sessionId.slice(0, -3)}${slot.toString(16).padStart(3, "0")}`,
    });
    /** Until a call is needed, and then for each. */
    async function isAskedFor(text: string): Promise<void> {
      await expect.poll(() => isFromMemory(text)).toBe(false);
      expect(await isFromMemory(text)).toBe(false);
    }

    test("that are silent cost their users a call, and nobody else; without part 0 all need one", async () => {
      const [first, second] = service.divide([OTHER_SLOT], [SLOT]);
      await start();
      const own = await remembered({ principal: inSlot(SLOT) });
      const other = await remembered({ principal: inSlot(OTHER_SLOT) });
      const client = { ...clientPrincipal(["payments:read"]), ...inSlot(SLOT) };
      const clients = [
        await remembered({ principal: client }),
        await remembered({ principal: client, isApiKey: true }),
      ];
      second.isSilent = true;
      await isAskedFor(own.text);
      for (const { text } of [other, ...clients]) await remembers(text);
      if (door === "http") await becomesReady("admitted");
      service.revokeSession(own.principal.sessionId);
      await becomes(own.text, "token_invalid");
      second.isSilent = false;
      first.isSilent = true;
      for (const { text } of [other, ...clients]) await isAskedFor(text);
      await isAskedFor(service.issue({ principal: inSlot(SLOT) }).text);
    });

    test("may give a slot to another, and be silent then: it is in the other one", async () => {
      const [first, second] = service.divide([], [SLOT, OTHER_SLOT]);
      await start();
      const moved = await remembered({ principal: inSlot(SLOT) });
      const other = await remembered({ principal: inSlot(OTHER_SLOT) });
      second.slots.delete(SLOT);
      await isAskedFor(moved.text);
      await remembers(other.text);
      first.slots.add(SLOT);
      await remembers(moved.text);
      second.isSilent = true;
      await isAskedFor(other.text);
      await remembers(moved.text);
    });

    test("have a slot only once all that they have revoked has come", async () => {
      const [first, second] = service.divide([OTHER_SLOT], [SLOT]);
      await start();
      const moved = await remembered({ principal: inSlot(SLOT) });
      second.isSilent = true;
      await isAskedFor(moved.text);
      const gone = await remembered({ principal: inSlot(OTHER_SLOT) });
      first.slots.add(SLOT);
      first.isCaughtUp = false;
      service.breakStreams();
      service.revokeSession(gone.principal.sessionId);
      await becomes(gone.text, "token_invalid");
      expect(await isFromMemory(moved.text)).toBe(false);
      first.isCaughtUp = true;
      await remembers(moved.text);
    });

    test("end with the message that speaks of none: all users are those of one database", async () => {
      service.divide([], [OTHER_SLOT]);
      await start();
      const { text } = service.issue({ principal: inSlot(SLOT) });
      await remembers(service.issue({ principal: inSlot(OTHER_SLOT) }).text);
      for (let count = 0; count < 3; count += 1) expect(await isFromMemory(text)).toBe(false);
      service.unite();
      await remembers(text);
    });
  });

  describe("wall clocks", () => {
    test.each([HOUR_MS, -HOUR_MS])(
      "differ by %d ms: a token ends when token-service says",
      async (aheadMs) => {
        service.wallAheadMs = aheadMs;
        await start();
        const { text, endsAtMs } = service.issue({ livesMs: 6_000 });
        const answers = await askUntil(text, "token_expired");
        const wrong = answers.filter((answer) => answer.verdict === "admitted" && answer.sentMs > endsAtMs);
        expect(wrong).toEqual([]);
        expect(answers[0]?.verdict).toBe("admitted");
      },
    );

    httpTest.each([HOUR_MS, -HOUR_MS])(
      "differ by %d ms, and jump: the age of a proof counts by the clock of token-service",
      async (aheadMs) => {
        service.wallAheadMs = aheadMs;
        await start();
        const expected = {
          0: "admitted",
          200: "admitted",
          400: "step_up_required",
          "-60": "step_up_required",
        };
        const agesAreTrue = async () => {
          // The last message came by the present clock; no clock calls this token over.
          await remembered({ livesMs: 4 * HOUR_MS });
          for (const [ageS, wanted] of Object.entries(expected)) {
            const authTime = new Date(Date.now() + aheadMs - Number(ageS) * 1_000);
            expect(await verdict(service.issue({ principal: { authTime } }).text, "fresh"), ageS).toBe(
              wanted,
            );
          }
        };
        await agesAreTrue();
        await verifier.jump(aheadMs);
        await agesAreTrue();
        await verifier.jump(-2 * aheadMs);
        await agesAreTrue();
      },
    );

    test.each([HOUR_MS, -HOUR_MS])("differ by %d ms: a revocation is kept", async (aheadMs) => {
      service.wallAheadMs = aheadMs;
      await start();
      const [gone, other] = [service.issue(), service.issue()];
      service.revokeSession(gone.principal.sessionId);
      await becomes(gone.text, "token_invalid");
      await keepsRevoked(gone);
      expect(await verdict(other.text)).toBe("admitted");
    });

    test.each([HOUR_MS, -HOUR_MS])(
      "jump by %d ms: silence, expiry and revocations do not move",
      async (jumpMs) => {
        await start();
        const [gone, other] = [await remembered(), await remembered()];
        service.revokeSession(gone.principal.sessionId);
        await becomes(gone.text, "token_invalid");
        const short = service.issue({ livesMs: 8_000 });
        expect(await verdict(short.text)).toBe("admitted");
        await verifier.jump(jumpMs);
        await keepsRevoked(gone);
        expect(await verdict(other.text)).toBe("admitted");
        const lateOnes = (await askUntil(short.text, "token_expired")).filter(
          (answer) => answer.verdict === "admitted" && answer.sentMs > short.endsAtMs,
        );
        expect(lateOnes).toEqual([]);
        service.manner = "service_unavailable";
        service.isSilent = true;
        const answers = await askUntil(other.text, "service_unavailable");
        const latestMs = service.lastMessageMs + SILENCE_MS;
        expect(answers.filter(({ verdict, sentMs }) => verdict === "admitted" && sentMs > latestMs)).toEqual(
          [],
        );
        expect(answers.some(({ verdict }) => verdict === "token_invalid")).toBe(false);
        await verifier.jump(-jumpMs);
        service.manner = "answers";
        service.isSilent = false;
        await remembers(other.text);
      },
    );

    /** After the verifier has had time to forget: ten messages, each of which may make it do so. */
    async function keepsRevoked({ text, principal: { sessionId } }: IssuedToken): Promise<void> {
      const { lastMessageMs } = service;
      await expect.poll(() => service.lastMessageMs).toBeGreaterThan(lastMessageMs + 2_000);
      expect(await verdict(text)).toBe("token_invalid");
      expect(await verdict(service.issue({ principal: { sessionId } }).text)).toBe("token_invalid");
    }
  });

  describe.runIf(door === "grpc")("gRPC methods", () => {
    test("that stream ask for a token too", async () => {
      await start();
      const { text, principal } = service.issue();
      expect((await verifier.door.call("watch", undefined)).verdict).toBe("token_missing");
      expect(await verdict(forge(text), "watch")).toBe("token_invalid");
      expect((await ask(text, "watch")).caller?.userId).toBe(principal.userId);
    });

    test("that are not listed are refused, whoever calls", async () => {
      await start();
      expect(await verdict(service.issue().text, "unlisted")).toBe("forbidden");
    });
  });
});
