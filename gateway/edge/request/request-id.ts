import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { IsTrustedProxy } from "./trusted-proxies.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** A trusted proxy may provide the id. */
export function requestIdOf(request: IncomingMessage, isTrustedProxy: IsTrustedProxy): string {
  const given = request.headers["x-request-id"];
  if (typeof given === "string" && UUID.test(given) && isTrustedProxy(request.socket.remoteAddress)) {
    return given;
  }
  return newRequestId();
}

/** UUIDv7 (RFC 9562 §5.7). Node caches UUIDv4, while random bytes cost a system call. */
function newRequestId(): string {
  const ms = Date.now().toString(16).padStart(12, "0");
  return `${ms.slice(0, 8)}-${ms.slice(8)}-7${randomUUID().slice(15)}`;
}
