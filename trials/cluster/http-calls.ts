import http from "node:http";
import type { Answer } from "./answers.ts";

export interface Call {
  method: string;
  path: string;
  token?: string | undefined;
  body?: object;
  /** The client that the load calls for, as a proxy in front would say. */
  address: string;
}

const CALL_TIMEOUT_MS = 15_000;
const CONNECT_TIMEOUT_MS = 1_000;
const CONNECT_ATTEMPTS = 3;
const NOT_CONNECTED = new Set(["ECONNREFUSED", "EHOSTUNREACH", "CONNECT_TIMEOUT"]);

/**
 * Calls the gateway as a proxy in front does: over connections that are kept, and again if no connection was made, because
 * nothing was sent then. A call that was sent is never repeated.
 */
export function createCaller(url: URL, host: string) {
  const agent = new http.Agent({ keepAlive: true, maxFreeSockets: 64 });
  let reconnected = 0;

  function once({ method, path, token, body, address }: Call): Promise<Answer> {
    const payload = body === undefined ? undefined : JSON.stringify(body);
    const headers = {
      host,
      "x-forwarded-for": address,
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(payload !== undefined && {
        "content-type": "application/json",
        "content-length": Buffer.byteLength(payload),
      }),
    };
    return new Promise((resolve) => {
      const fail = (error: NodeJS.ErrnoException) => {
        const kept = request.reusedSocket ? " on a kept connection" : "";
        resolve({ status: 0, code: `${error.code ?? error.message}${kept}` });
      };
      const request = http.request(
        { agent, host: url.hostname, port: url.port || 80, method, path, headers },
        (response) => {
          const chunks: Buffer[] = [];
          response.on("data", (chunk: Buffer) => chunks.push(chunk));
          response.on("error", fail);
          response.on("end", () => resolve(parsed(response.statusCode ?? 0, Buffer.concat(chunks))));
        },
      );
      const timer = setTimeout(() => request.destroy(coded("CALL_TIMEOUT")), CALL_TIMEOUT_MS);
      request.on("socket", (socket) => {
        if (!socket.connecting) return;
        const connect = setTimeout(() => request.destroy(coded("CONNECT_TIMEOUT")), CONNECT_TIMEOUT_MS);
        socket.once("connect", () => clearTimeout(connect));
        request.once("close", () => clearTimeout(connect));
      });
      request.on("error", fail);
      request.on("close", () => clearTimeout(timer));
      request.end(payload);
    });
  }

  return {
    /** How many connections had to be tried again. */
    reconnected: () => reconnected,
    async call(call: Call): Promise<Answer> {
      for (let attempt = 1; ; attempt++) {
        const answer = await once(call);
        if (answer.status !== 0 || !NOT_CONNECTED.has(answer.code ?? "")) return answer;
        if (attempt === CONNECT_ATTEMPTS) return answer;
        reconnected++;
      }
    },
  };
}

function coded(code: string): Error {
  return Object.assign(new Error(code), { code });
}

function parsed(status: number, bytes: Buffer): Answer {
  try {
    const { data, error } = JSON.parse(bytes.toString("utf8"));
    return { status, code: error?.code, data };
  } catch {
    return { status, code: "an answer that is not JSON" };
  }
}
