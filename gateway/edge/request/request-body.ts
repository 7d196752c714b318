import type { FastifyReply, FastifyRequest } from "fastify";
import { DomainError } from "#kit/values/errors.ts";
import { parseStrictJson } from "#kit/values/strict-json.ts";
import type { GatewayApp } from "./request-state.ts";

const CHARSET = /;\s*charset\s*=\s*"?([^";\s]+)/i;

export function registerJsonParser(app: GatewayApp): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    "application/json",
    { parseAs: "buffer" },
    async (request: FastifyRequest, body: Buffer) => {
      const charset = CHARSET.exec(request.headers["content-type"] ?? "")?.[1];
      if (charset !== undefined && charset.toLowerCase() !== "utf-8") {
        throw new DomainError("unsupported_media_type", "JSON is read in UTF-8 only.");
      }
      return parseStrictJson(body);
    },
  );
}

const FORM = /^application\/x-www-form-urlencoded\s*(?:;|$)/i;

/** Repeated parameters are refused (RFC 6749 §3.2). */
export function registerFormParser(app: GatewayApp): void {
  app.removeAllContentTypeParsers();
  addFormParser(app);
}

export function isForm(request: FastifyRequest): boolean {
  return FORM.test(request.headers["content-type"] ?? "");
}

export function addFormParser(app: GatewayApp): void {
  app.addContentTypeParser(
    "application/x-www-form-urlencoded",
    { parseAs: "string" },
    async (_request: FastifyRequest, body: string) => {
      const parameters = [...new URLSearchParams(body)];
      const form = Object.fromEntries(parameters);
      if (Object.keys(form).length !== parameters.length) {
        throw new DomainError("bad_request", "A parameter appears more than once.");
      }
      return form;
    },
  );
}

/** Smaller bodies are discarded to reuse the connection. */
const MAX_DISCARDED_BYTES = 64 * 1024;

/** If the client waits for that. HTTP/1.0 has no interim answers (RFC 9110 §10.1.1, §15.2). */
export function askForBody({ raw, headers }: FastifyRequest, reply: FastifyReply): void {
  if (headers.expect !== undefined && raw.httpVersion !== "1.0") reply.raw.writeContinue();
}

export function closeIfUnread(request: FastifyRequest, reply: FastifyReply): void {
  if (leavesUnread(request)) reply.header("connection", "close");
}

/** A body may never arrive after an `Expect`. */
export function leavesUnread({ raw, headers, state }: FastifyRequest): boolean {
  if (raw.complete) return false;
  if (state.errorCode === "request_timeout") return true;
  const { "content-length": length = "0", "transfer-encoding": encoding, expect } = headers;
  return encoding !== undefined || expect !== undefined || Number(length) > MAX_DISCARDED_BYTES;
}
