import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { DomainError, type ErrorCode } from "#kit/values/errors.ts";
import { http } from "#kit/values/http.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import { failure } from "./envelope.ts";
import { HTTP_STATUS } from "./http-errors.ts";
import { ANSWER_MARK, STANDARD_HEADERS } from "./standard-headers.ts";

const TOO_LATE = "ERR_HTTP_REQUEST_TIMEOUT";
const PARSER_CODES: Readonly<Record<string, ErrorCode>> = {
  [TOO_LATE]: "request_timeout",
  HPE_HEADER_OVERFLOW: "headers_too_large",
  HPE_CHUNK_EXTENSIONS_OVERFLOW: "payload_too_large",
};

/** How many requests have come on a connection. */
export type ReceivedRequests = WeakMap<Socket, number>;

type ClientError = Error & { code?: string };

/**
 * After a stall of this process, the request that is missed may wait in the kernel: Node looks for late ones before it reads.
 * So the answer waits until all has been read that has come.
 */
export function createClientErrorHandler(received: ReceivedRequests) {
  return (error: ClientError, socket: Socket): void => {
    const before = received.get(socket);
    const answer = () => {
      if (received.get(socket) !== before) return;
      // Nobody has asked: an answer would be taken for that of a request that is just coming (RFC 9110 §15.5.9).
      if (error.code === TOO_LATE && socket.bytesRead === 0) socket.destroy();
      else answerClientError(error, socket);
    };
    if (error.code === TOO_LATE) setImmediate(answer);
    else answer();
  };
}

/** Closes the connection, because the end of the unparsable request is unknown. */
export function answerClientError(error: ClientError, socket: Socket): void {
  if (error.code === "ECONNRESET" || socket.destroyed) return;
  if (socket.writable && !isAnswering(socket)) {
    socket.write(rawFailure(PARSER_CODES[error.code ?? ""] ?? "bad_request"));
  }
  socket.destroy();
}

/** Node provides no response object for CONNECT. */
export function refuseTunnel(socket: Socket): void {
  socket.on("error", () => socket.destroy());
  if (isAnswerOwed(socket)) socket.destroy();
  else socket.end(rawFailure("not_implemented"), () => socket.destroy());
}

/** For methods that the framework cannot route. */
export function refuseRequest(response: ServerResponse, code: ErrorCode): void {
  const { status, headers, text } = rawParts(code);
  response.writeHead(status, headers);
  response.end(text);
}

export function isAnswerOwed(socket: Socket): boolean {
  return (socket as Socket & { _httpMessage?: object | null })._httpMessage != null;
}

/** A second response must not be written into a started one. */
function isAnswering(socket: Socket): boolean {
  const { _httpMessage: current } = socket as Socket & { _httpMessage?: { headersSent: boolean } };
  return current?.headersSent ?? false;
}

function rawFailure(code: ErrorCode): string {
  const { status, headers, text } = rawParts(code);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return `HTTP/1.1 ${status} ${http.STATUS_CODES[status]}\r\n${lines.join("\r\n")}\r\n\r\n${text}`;
}

function rawParts(code: ErrorCode) {
  const requestId = uuidv7();
  const { contentType, body } = failure(new DomainError(code), requestId, undefined);
  const text = JSON.stringify(body);
  const headers = {
    connection: "close",
    date: new Date().toUTCString(),
    "content-type": contentType,
    "content-length": Buffer.byteLength(text),
    "cache-control": "no-store",
    "x-request-id": requestId,
    ...STANDARD_HEADERS,
    ...ANSWER_MARK,
  };
  return { status: HTTP_STATUS[code], headers, text };
}
