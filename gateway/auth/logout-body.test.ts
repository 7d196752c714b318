import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { exchange, statuses } from "../testing/raw-socket.ts";
import { HOST, testGateway } from "../testing/test-gateway.ts";

const LIMIT_BYTES = 16 * 1024;

let gateway: ReturnType<typeof testGateway>;
let port: number;
const ended: string[] = [];

beforeEach(async () => {
  ended.length = 0;
  gateway = testGateway({
    sessions: {
      revokeSession: async ({ sessionId }) => ({ sequence: ended.push(sessionId) }),
    },
  });
  await gateway.app.listen({ port: 0, host: "127.0.0.1" });
  port = (gateway.app.server.address() as AddressInfo).port;
});
afterEach(() => gateway.app.close());

const bodyOf = (bytes: number) => {
  const empty = JSON.stringify({ refreshToken: "" });
  return JSON.stringify({ refreshToken: "a".repeat(bytes - empty.length) });
};
const announced = (bytes: number) => `Content-Length: ${bytes}\r\n\r\n`;
const chunked = (body: string) =>
  `Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
const beyond = bodyOf(LIMIT_BYTES + 1);

test.each([
  { what: "beyond the limit", rest: announced(beyond.length) + beyond, expected: [413, 404] },
  { what: "beyond the limit, in chunks", rest: chunked(beyond), expected: [413] },
  { what: "beyond the limit that never comes", rest: announced(1e9), expected: [413] },
  {
    what: "of the limit, with a token longer than any",
    rest: announced(LIMIT_BYTES) + bodyOf(LIMIT_BYTES),
    expected: [400, 404],
  },
])(
  "a logout with a body $what is answered, with and without an access token, and ends nothing",
  async (given) => {
    const { rest, expected } = given;
    for (const authorization of ["Authorization: Bearer user-token\r\n", ""]) {
      const head = `POST /auth/logout HTTP/1.1\r\nHost: ${HOST}\r\n${authorization}Content-Type: application/json\r\n`;
      // If the body was read, the connection serves another request; else it is closed.
      const next = `GET /nothing HTTP/1.1\r\nHost: ${HOST}\r\nConnection: close\r\n\r\n`;
      const { text, closed } = await exchange(port, head + rest + (expected.length > 1 ? next : ""), 10_000);
      expect([statuses(text), closed]).toEqual([expected, true]);
      expect(text).toContain(expected[0] === 413 ? '"payload_too_large"' : '"validation_failed"');
    }
    expect(ended).toEqual([]);
    expect(gateway.entries.filter(({ kind }) => kind === "intent")).toEqual([]);
  },
);
