import { addAbortListener } from "node:events";
import { connect, isIP, type Socket } from "node:net";
import { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectTls, type SecureContextOptions } from "node:tls";
import { CollectorProblem } from "./collector.ts";

/** Receivers have nothing to say. */
const MAX_RECEIVED_BYTES = 4 * 1024;
/** Longer than most ways through a network: a receiver that ends by itself is seen before the connection is ended here. */
const QUIET_MS = 250;

export interface SyslogConnectionOptions {
  host: string;
  port: number;
  /** PEM. Without `ca` those of the system. */
  tls: Pick<SecureContextOptions, "ca" | "cert" | "key">;
  /** Limits each wait. */
  deadlineMs: number;
  /** Breaks the connection. */
  signal: AbortSignal;
}

/** Each of its waits rejects with a `CollectorProblem` once the connection has failed. */
export interface SyslogConnection {
  /** Resolves when the system has taken the text. */
  write(text: string): Promise<void>;
  pause(ms: number): Promise<void>;
  /**
   * Resolves when the receiver has read everything and has ended its side: with a `close_notify` in answer to ours (RFC 5425 section 4.4), which a
   * receiver that was killed does not send, and then without a reset, which would mean that something was not read.
   */
  end(): Promise<void>;
  destroy(): void;
}

/** @throws {CollectorProblem} */
export async function connectSyslog(options: SyslogConnectionOptions): Promise<SyslogConnection> {
  const { host, port, tls, deadlineMs, signal } = options;
  const raw = connect({ host, port, allowHalfOpen: true, noDelay: true });
  const socket = connectTls({
    ...{ ...tls, host, minVersion: "TLSv1.2", rejectUnauthorized: true, socket: transportOver(raw) },
    ...(isIP(host) === 0 && { servername: host }),
  });
  const [failed, ended] = [Promise.withResolvers<never>(), Promise.withResolvers<void>()];
  failed.promise.catch(() => undefined);
  let [isEnding, isNotified, received] = [false, false, 0];
  const destroy = () => {
    for (const each of [socket, raw]) each.destroy();
  };
  const fail = (problem: string, cause?: unknown) => {
    failed.reject(new CollectorProblem(problem, { cause }));
    destroy();
  };
  for (const each of [socket, raw]) each.on("error", (error) => fail("unreachable", error));
  socket.on("end", () => {
    isNotified = isEnding && !raw.readableEnded;
    if (!isNotified) fail(isEnding ? "the connection was cut" : "the receiver ended the connection");
  });
  raw.on("end", () => isNotified && ended.resolve());
  raw.on("close", () => fail("the connection was cut"));
  socket.on("data", (chunk: Buffer) => {
    received += chunk.length;
    if (received > MAX_RECEIVED_BYTES) fail("the receiver sends data");
  });
  const aborted = addAbortListener(signal, () => fail("stopped"));
  raw.on("close", () => aborted[Symbol.dispose]());
  const inTime = async <T>(happens: Promise<T>): Promise<T> => {
    const timer = setTimeout(() => fail("too_slow"), deadlineMs);
    return Promise.race([happens, failed.promise]).finally(() => clearTimeout(timer));
  };
  await inTime(new Promise((resolve) => socket.once("secureConnect", resolve)));
  const pause = (ms: number) => Promise.race([sleep(ms), failed.promise]);
  return {
    write: (text) => inTime(new Promise((resolve) => socket.write(text, () => resolve()))),
    pause,
    async end() {
      await pause(QUIET_MS);
      isEnding = true;
      socket.end();
      await inTime(ended.promise);
    },
    destroy,
  };
}

/** Stays between the two, so that the end of the encrypted connection is told from the end of the one below it. */
function transportOver(raw: Socket): Duplex {
  const transport = new Duplex({
    read: () => void raw.resume(),
    write: (chunk, _, done) => void raw.write(chunk, (error) => done(error)),
    final: (done) => void raw.end(done),
  });
  raw.on("data", (chunk) => {
    if (!transport.destroyed && !transport.push(chunk)) raw.pause();
  });
  raw.on("end", () => transport.destroyed || transport.push(null));
  return transport;
}
