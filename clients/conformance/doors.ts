import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { BinaryReader } from "@bufbuild/protobuf/wire";
import { Client, credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { fromRpcError } from "#kit/rpc/rpc-errors.ts";

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
/** RFC 6750 §3, RFC 9470 §3: of an answer 401. */
const CHALLENGE: Readonly<Record<string, string>> = {
  token_missing: "Bearer",
  token_invalid: 'Bearer error="invalid_token"',
  token_expired: 'Bearer error="invalid_token"',
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

/** @throws if status, code and challenge do not belong together. */
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
      const verdict = (JSON.parse(body) as { error: { code: string } }).error.code;
      const said = [response.statusCode, response.headers["www-authenticate"] ?? null];
      const expected = [HTTP_STATUS[verdict], CHALLENGE[verdict] ?? null];
      if (String(said) !== String(expected))
        throw new Error(`${verdict} came as ${said}, not as ${expected}`);
      return { verdict, caller: undefined, sentMs };
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
