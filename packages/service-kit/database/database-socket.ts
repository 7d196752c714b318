import { connect, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

export interface DatabaseSocketOptions {
  host: string;
  port: number;
  /** PEM. Enables TLS. */
  ca?: Buffer | undefined;
  timeoutMs: number;
  /** Limit for a server that sends nothing. */
  maxSilenceMs?: number | undefined;
  signal: AbortSignal;
}

const SILENCE_CHECK_INTERVAL_MS = 2_500;
/** PostgreSQL's SSLRequest: length 8, code 80877103 (Frontend/Backend Protocol, 54.7). */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);
const ACCEPTED = "S";

/**
 * The driver's own connect removes listeners for TLS, allows silence, and accepts bytes before the handshake.
 */
export async function openDatabaseSocket(options: DatabaseSocketOptions): Promise<Socket> {
  const { host, port, ca, signal } = options;
  const raw = connect({ host, port, signal });
  if (options.maxSilenceMs !== undefined) endWhenSilent(raw, options.maxSilenceMs);
  const timer = setTimeout(
    () => raw.destroy(failure("connecting took too long", "CONNECT_TIMEOUT")),
    options.timeoutMs,
  );
  try {
    await happened(raw, "connect");
    return ca === undefined ? raw : await startTls(raw, host, ca);
  } catch (error) {
    raw.destroy();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

async function startTls(raw: Socket, host: string, ca: Buffer): Promise<Socket> {
  raw.write(SSL_REQUEST);
  const answer = (await happened(raw, "data")) as Buffer;
  // More bytes would be an injection, to be read as encrypted data.
  if (answer.toString("latin1") !== ACCEPTED)
    throw failure("the database does not offer TLS", "CONNECTION_NOT_ENCRYPTED");
  const secured = connectTls({
    socket: raw,
    host, // This name must be in the certificate.
    ca,
    rejectUnauthorized: true,
    ...(isIP(host) === 0 && { servername: host }),
  });
  await happened(secured, "secureConnect");
  return secured;
}

/** Rejects if the socket fails or closes first. */
function happened(socket: Socket, event: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const listeners = {
      [event]: (value: unknown) => settle(() => resolve(value)),
      error: (error: Error) => settle(() => reject(error)),
      close: () => settle(() => reject(failure("the database closed the connection", "CONNECTION_CLOSED"))),
    };
    const settle = (end: () => void) => {
      for (const [name, listener] of Object.entries(listeners)) socket.off(name, listener);
      socket.on("error", () => undefined); // "close" reports it.
      end();
    };
    for (const [name, listener] of Object.entries(listeners)) socket.on(name, listener);
  });
}

/** Checks `bytesRead`, because writes reset a socket's own time-out. */
function endWhenSilent(socket: Socket, maxSilenceMs: number): void {
  let bytesRead = 0;
  let silentSinceMs = performance.now();
  const timer = setInterval(() => {
    if (socket.bytesRead !== bytesRead) {
      bytesRead = socket.bytesRead;
      silentSinceMs = performance.now();
    } else if (performance.now() - silentSinceMs >= maxSilenceMs) {
      socket.destroy(failure("the database sends nothing", "ETIMEDOUT"));
    }
  }, SILENCE_CHECK_INTERVAL_MS);
  timer.unref();
  socket.once("close", () => clearInterval(timer));
}

function failure(message: string, code: string): Error {
  return Object.assign(new Error(message), { code });
}
