import type { IncomingMessage } from "node:http";
import { v7 as uuidv7 } from "uuid";
import type { IsTrustedProxy } from "./trusted-proxies.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** A request's id: a UUIDv7 of ours, or the UUID that a trusted proxy gave it. */
export function requestIdOf(request: IncomingMessage, isTrustedProxy: IsTrustedProxy): string {
  const given = request.headers["x-request-id"];
  if (typeof given === "string" && UUID.test(given) && isTrustedProxy(request.socket.remoteAddress)) {
    return given;
  }
  return uuidv7();
}
