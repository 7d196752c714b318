import { randomBytes } from "node:crypto";
import { METHODS } from "node:http";
import { newAccount } from "./account.ts";
import { type AttackCase, call, freshAddress, must, sendRaw, type Target } from "./target.ts";

/** Of one network, and fewer than its calls of a minute. */
const FORGED_TOKENS = 600;

const HOST = (target: Target) => `Host: ${target.url.host}\r\n`;

/** Every answer of the guard's has a request id; what has none came past it. */
const passedTheGuard = (answer: string) => /\r\nx-request-id: /i.test(answer);
const statusOf = (answer: string) => Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1] ?? 0);

const RTSP_METHODS = [
  "ANNOUNCE",
  "DESCRIBE",
  "FLUSH",
  "GET_PARAMETER",
  "PAUSE",
  "PLAY",
  "RECORD",
  "REDIRECT",
  "SETUP",
  "SET_PARAMETER",
  "TEARDOWN",
];

async function mustRefuse(target: Target, bytes: string, allowed: readonly number[], what: string) {
  const answer = await sendRaw(target, bytes);
  must(allowed.includes(statusOf(answer)), `${what}: ${answer.split("\r\n")[0] || "no answer"}`);
}

export const EDGE_CASES: readonly AttackCase[] = [
  {
    name: "edge: no method of RTSP reaches an answer past the guard",
    run: async (target) => {
      for (const method of RTSP_METHODS) {
        const answer = await sendRaw(target, `${method} /auth/login RTSP/1.0\r\n${HOST(target)}\r\n`);
        must(statusOf(answer) !== 500, `${method}: ${answer.split("\r\n")[0]}`);
        must(
          answer === "" || /^HTTP\/1\.1 4|^HTTP\/1\.1 50[15]/.test(answer),
          `${method}: ${answer.slice(0, 60)}`,
        );
      }
    },
  },
  {
    name: "edge: no method that the parser takes is an internal error",
    run: async (target) => {
      for (const method of METHODS.filter((name) => name !== "CONNECT")) {
        const answer = await sendRaw(
          target,
          `${method} /auth/login HTTP/1.1\r\n${HOST(target)}Connection: close\r\nContent-Length: 0\r\n\r\n`,
        );
        must(statusOf(answer) >= 200 && statusOf(answer) !== 500, `${method}: ${answer.split("\r\n")[0]}`);
        must(passedTheGuard(answer), `${method}: an answer without a request id`);
      }
    },
  },
  {
    name: "edge: an unknown transfer coding is refused, not lost on the way",
    run: (target) =>
      mustRefuse(
        target,
        `POST /payments HTTP/1.1\r\n${HOST(target)}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
        [400, 501],
        "gzip, chunked",
      ),
  },
  {
    name: "edge: bytes behind an upgrade that is not taken are not read as another request",
    run: async (target) => {
      const answer = await sendRaw(
        target,
        `GET /auth/providers HTTP/1.1\r\n${HOST(target)}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n` +
          `GET /auth/providers HTTP/1.1\r\n${HOST(target)}X-Marker: 1\r\n\r\n`,
      );
      must(answer.split("HTTP/1.1 ").length === 2, "more than one answer");
      must(/\r\nconnection: close/i.test(answer), "the connection stays open");
    },
  },
  {
    name: "edge: other versions of HTTP, long header names and coded bodies are refused",
    run: async (target) => {
      const host = HOST(target);
      await mustRefuse(target, `GET /auth/providers HTTP/2.0\r\n${host}\r\n`, [400, 505], "HTTP/2.0");
      const name = "x".repeat(5_000);
      const long = `GET /auth/providers HTTP/1.1\r\n${host}${name}: 1\r\n\r\n`;
      await mustRefuse(target, long, [431], "a header name of 5,000 bytes");
      const coded = `POST /auth/login HTTP/1.1\r\n${host}Content-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}`;
      await mustRefuse(target, coded, [415], "a coded body");
      await mustRefuse(
        target,
        `CONNECT example.com:443 HTTP/1.1\r\n${host}\r\n`,
        [400, 404, 405, 501],
        "CONNECT",
      );
    },
  },
  {
    name: "edge: a body that is too large is refused before it is asked for",
    run: async (target) => {
      const answer = await sendRaw(
        target,
        `POST /auth/login HTTP/1.1\r\n${HOST(target)}Content-Type: application/json\r\nContent-Length: 99999999\r\nExpect: 100-continue\r\n\r\n`,
      );
      must(!answer.startsWith("HTTP/1.1 100"), "100 Continue came first");
      must(statusOf(answer) === 413, answer.split("\r\n")[0] ?? "");
    },
  },
  {
    name: "edge: paths that an upstream may decode twice are refused",
    run: async (target) => {
      const { accessToken } = await newAccount(target);
      for (const path of [
        "/payments/%252e%252e/x",
        "/payments/%252f",
        "/payments/%c0%ae",
        "/payments/%3b",
        "/payments/a;b",
      ]) {
        const { status } = await call(target, "GET", path, { token: accessToken });
        must(status === 400, `${path}: ${status}`);
      }
    },
  },
  {
    name: "edge: refusals of the gateway have its mark, and answers of an upstream have none of its headers",
    run: async (target) => {
      const { accessToken } = await newAccount(target);
      for (const path of ["/payments", "/auth/me", "/nothing"]) {
        const { status, headers } = await call(target, "GET", path);
        must(
          status >= 400 && headers["gatehouse-answer"] === "gateway",
          `${path} without a token: ${status}`,
        );
      }
      const forged = { "gatehouse-answer": "gateway" };
      const { status, headers } = await call(target, "GET", "/payments", {
        token: accessToken,
        headers: forged,
      });
      must(status === 200, `GET /payments: ${status}`);
      const found = Object.keys(headers).filter((name) =>
        /^(?:gatehouse-|ratelimit|nel$|report-to$|clear-site-data$|service-worker-allowed$|alt-svc$)/.test(
          name,
        ),
      );
      must(found.length === 0, `the upstream's answer has ${found.join(", ")}`);
    },
  },
  {
    name: "edge: a method that a forwarded route does not know is 405 with Allow",
    run: async (target) => {
      const { accessToken } = await newAccount(target);
      const answer = await call(target, "PROPFIND", "/payments", { token: accessToken });
      must(answer.status === 405 && answer.headers.allow !== undefined, `${answer.status}`);
    },
  },
  {
    name: "edge: two spaces behind Bearer are no token",
    run: async (target) => {
      const { accessToken } = await newAccount(target);
      const { status } = await call(target, "GET", "/auth/me", {
        headers: { authorization: `Bearer  ${accessToken}` },
      });
      must(status === 401 || status === 400, `${status}`);
    },
  },
  {
    name: "edge: a path made for the masking expression costs no more than another",
    run: async (target) => {
      const { accessToken: token } = await newAccount(target);
      const timeMs = async (path: string) => {
        const startedMs = performance.now();
        await call(target, "POST", path, { token, body: {}, from: freshAddress() });
        return performance.now() - startedMs;
      };
      // The fastest of each, in turn: what else the machine does slows both.
      let [plainMs, hostileMs] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
      for (let round = 0; round < 15; round += 1) {
        plainMs = Math.min(plainMs, await timeMs(`/payments/${"abc".repeat(2_500)}`));
        hostileMs = Math.min(hostileMs, await timeMs(`/payments/${"eyJ".repeat(2_500)}`));
      }
      const figures = `${hostileMs.toFixed(1)} ms against ${plainMs.toFixed(1)} ms`;
      must(hostileMs < 2 * plainMs + 15, figures);
    },
  },
  {
    name: "edge: a network that brings many forged tokens is refused, and others' new tokens are looked at meanwhile",
    run: async (target) => {
      const { accessToken, from } = await newAccount(target);
      const signed = accessToken.split(".").slice(0, 2).join(".");
      const forged = () => `${signed}.${randomBytes(64).toString("base64url")}`;
      const attacker = freshAddress();
      const flood = Array.from({ length: FORGED_TOKENS }, () =>
        call(target, "GET", "/auth/me", { token: forged(), from: attacker }).catch(() => undefined),
      );
      const good = await call(target, "GET", "/auth/me", { token: accessToken, from });
      const statuses = (await Promise.all(flood)).map((answer) => answer?.status);
      must(good.status === 200, `the good token: ${good.status}`);
      must(!statuses.includes(200), "a forged token was taken");
      must(statuses.includes(429), `${FORGED_TOKENS} forged tokens were all looked at`);
    },
  },
];
