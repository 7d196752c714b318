import { deepStrictEqual as deepEqual } from "node:assert";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { BinaryReader } from "@bufbuild/protobuf/wire";
import { Client, credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { fromRpcError } from "#kit/rpc/rpc-errors.ts";
import { ERROR_CATALOGUE, type ErrorCode } from "#kit/values/errors.ts";

/** What one call to a driver came to, whatever its protocol. */
export interface Answer {
  /** `admitted`, or the code of the refusal. */
  verdict: string;
  /** Of an admitted call to `whoami` or `watch`. */
  caller: Caller | undefined;
  /** By the monotonic clock: before the call was sent. */
  sentMs: number;
}

interface Caller {
  kind: "user" | "client";
  userId: string;
  sessionId: string;
  role: string;
  clientId: string;
  scopes: readonly string[];
}

export type Route = "whoami" | "admin" | "watch" | "unlisted" | "ready" | "fresh";

/** One way into a driver. */
export interface Door {
  /** @param authorization the whole header; by HTTP also several. */
  call(route: Route, authorization: string | readonly string[] | undefined): Promise<Answer>;
  /** By HTTP alone: what is sent back to HEAD. */
  head?(route: Route, authorization?: string): Promise<string>;
  close(): void;
}

const HTTP_STATUS: Readonly<Record<string, number>> = {
  token_missing: 401,
  token_invalid: 401,
  token_expired: 401,
  step_up_required: 401,
  forbidden: 403,
  service_unavailable: 503,
};
/** RFC 6750 §3, RFC 9470 §3. */
const CHALLENGE: Readonly<Record<string, string>> = {
  token_missing: "Bearer",
  token_invalid: 'Bearer error="invalid_token"',
  token_expired: 'Bearer error="invalid_token"',
  forbidden: 'Bearer error="insufficient_scope"',
  step_up_required:
    'Bearer error="insufficient_user_authentication", acr_values="urn:gatehouse:acr:1", max_age=300',
};
const RPC_STATUS: Readonly<Record<string, status>> = {
  token_missing: status.UNAUTHENTICATED,
  token_invalid: status.UNAUTHENTICATED,
  token_expired: status.UNAUTHENTICATED,
  forbidden: status.PERMISSION_DENIED,
  service_unavailable: status.UNAVAILABLE,
};
const PATIENCE_MS = 60_000;

/** Of `/fresh`. */
const STEP_UP = { acr: 1, maxAgeSeconds: 300, methods: ["passkey", "totp", "recovery_code", "password"] };

/** As docs/verify-tokens.md has it, but for the id of the call, which a service may add. */
function expectedRefusal(code: string) {
  return {
    status: HTTP_STATUS[code],
    challenge: CHALLENGE[code] ?? null,
    retryAfter: HTTP_STATUS[code] === 503 ? "1" : null,
    cacheControl: "no-store",
    mediaType: "application/json",
    body: {
      success: false,
      message: ERROR_CATALOGUE[code as ErrorCode],
      error: { code, ...(code === "step_up_required" && { details: STEP_UP }) },
    },
  };
}

function refusalIn({ statusCode, headers }: IncomingMessage, text: string) {
  const { error, ...envelope } = JSON.parse(text) as { error: { code: string; requestId?: string } };
  const { requestId: _requestId, ...named } = error;
  return {
    status: statusCode,
    challenge: headers["www-authenticate"] ?? null,
    retryAfter: headers["retry-after"] ?? null,
    cacheControl: headers["cache-control"] ?? null,
    mediaType: headers["content-type"]?.split(";")[0] ?? null,
    body: { ...envelope, error: named },
  };
}

/** @throws if an answer is not the one of its code. */
export function httpDoor(url: string): Door {
  return {
    async call(route, authorization) {
      const sentMs = performance.now();
      // Unlike fetch it sends several headers of one name as several.
      const signal = AbortSignal.timeout(PATIENCE_MS);
      const outgoing = request(`${url}/${route}`, { agent: false, signal });
      if (authorization !== undefined) outgoing.setHeader("authorization", authorization);
      outgoing.end();
      const [response] = (await once(outgoing, "response")) as [IncomingMessage];
      const body = await text(response);
      if (response.statusCode === 200) return { verdict: "admitted", caller: JSON.parse(body), sentMs };
      const refusal = refusalIn(response, body);
      const verdict = refusal.body.error.code;
      // Whether a service is ready is said by the driver, not by the package.
      if (route === "ready") deepEqual(refusal.status, HTTP_STATUS[verdict]);
      else deepEqual(refusal, expectedRefusal(verdict));
      return { verdict, caller: undefined, sentMs };
    },
    async head(route, authorization) {
      const { hostname, port } = new URL(url);
      const socket = connect({ host: hostname, port: Number(port), timeout: PATIENCE_MS });
      socket.on("timeout", () => socket.destroy(new Error("no answer to HEAD")));
      const token = authorization === undefined ? "" : `authorization: ${authorization}\r\n`;
      socket.write(`HEAD /${route} HTTP/1.1\r\nhost: ${hostname}\r\n${token}connection: close\r\n\r\n`);
      return text(socket);
    },
    close: () => undefined,
  };
}

const METHOD: Readonly<Record<Route, string>> = {
  whoami: "WhoAmI",
  admin: "Admin",
  watch: "Watch",
  unlisted: "Unlisted",
  ready: "",
  fresh: "",
};
const EMPTY = Buffer.alloc(0);

/** @throws if status and `ErrorInfo.reason` do not belong together. */
export function grpcDoor(address: string): Door {
  const client = new Client(address, credentials.createInsecure(), { "grpc.enable_http_proxy": 0 });
  const pathOf = (route: Route) => `/gatehouse.conformance.v1.ConformanceService/${METHOD[route]}`;
  const callOnce = (route: Route, metadata: Metadata): Promise<string> => {
    const options = { deadline: Date.now() + PATIENCE_MS };
    const encode = () => EMPTY;
    return new Promise((resolve, reject) => {
      if (route === "watch") {
        const stream = client.makeServerStreamRequest(
          pathOf(route),
          encode,
          stringValue,
          null,
          metadata,
          options,
        );
        stream.on("data", resolve);
        stream.on("error", reject);
        stream.on("end", () => reject(new Error("the stream ended without a message")));
        return;
      }
      client.makeUnaryRequest(pathOf(route), encode, stringValue, null, metadata, options, (error, text) =>
        error === null ? resolve(text ?? "") : reject(error),
      );
    });
  };
  return {
    async call(route, authorization) {
      const sentMs = performance.now();
      const metadata = new Metadata();
      if (typeof authorization === "string") metadata.set("authorization", authorization);
      try {
        const said = await callOnce(route, metadata);
        return { verdict: "admitted", caller: JSON.parse(said), sentMs };
      } catch (error) {
        const verdict = fromRpcError(error).code;
        const { code } = error as ServiceError;
        if (RPC_STATUS[verdict] !== code)
          throw new Error(`${verdict} came as ${status[code]}`, { cause: error });
        return { verdict, caller: undefined, sentMs };
      }
    },
    close: () => client.close(),
  };
}

/** `google.protobuf.StringValue` */
function stringValue(bytes: Buffer): string {
  const reader = new BinaryReader(bytes);
  let text = "";
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag();
    if (number === 1) text = reader.string();
    else reader.skip(type, number);
  }
  return text;
}
