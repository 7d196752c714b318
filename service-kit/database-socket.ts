import { connect, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

export interface DatabaseSocketOptions {
  host: string;
  port: number;
  /** CA of the server's certificate, PEM. Without it the connection is not encrypted. */
  ca?: Buffer | undefined;
  /** For name look-up, connection and handshake together. */
  timeoutMs: number;
  /** Given up when nothing comes from the server for so long. Never if absent. */
  maxSilenceMs?: number | undefined;
  /** Gives the attempt up, or destroys the socket. */
  signal: AbortSignal;
}

const SILENCE_CHECK_INTERVAL_MS = 2_500;
/** PostgreSQL's SSLRequest: length 8, code 80877103 (Frontend/Backend Protocol, 54.7). */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);
const ACCEPTED = "S";

/**
 * A connection to PostgreSQL, up to the start-up message. With a CA it is TLS with full verification, or fails.
 *
 * The driver would do this itself, but takes all listeners off the socket for TLS, has no limit to a silence, and does
 * not refuse bytes that came before the handshake.
 */
export async function openDatabaseSocket(options: DatabaseSocketOptions): Promise<Socket> {
  const { host, port, ca, signal } = options;
  const raw = connect({ host, port, signal });
  if (options.maxSilenceMs !== undefined) endWhenSilent(raw, options.maxSilenceMs);
  const timer = setTimeout(
    () => raw.destroy(failure("no connection in time", "CONNECT_TIMEOUT")),
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
  // More than the one byte was not written by the server, but by somebody between who wants it read as encrypted.
  if (answer.toString("latin1") !== ACCEPTED)
    throw failure("the database does not offer TLS", "CONNECTION_NOT_ENCRYPTED");
  const secured = connectTls({
    socket: raw,
    host, // the name that the certificate must have
    ca,
    rejectUnauthorized: true,
    ...(isIP(host) === 0 && { servername: host }),
  });
  await happened(secured, "secureConnect");
  return secured;
}

/** Resolves with the event's value; rejects if the socket fails or closes first. */
function happened(socket: Socket, event: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const listeners = {
      [event]: (value: unknown) => settle(() => resolve(value)),
      error: (error: Error) => settle(() => reject(error)),
      close: () => settle(() => reject(failure("the database closed the connection", "CONNECTION_CLOSED"))),
    };
    const settle = (end: () => void) => {
      for (const [name, listener] of Object.entries(listeners)) socket.off(name, listener);
      socket.on("error", () => undefined); // an error of later is told by "close"; without a listener it ends the process
      end();
    };
    for (const [name, listener] of Object.entries(listeners)) socket.on(name, listener);
  });
}

/** Counts what was read: a socket's own time-out starts again with every write, and queries go on being written. */
function endWhenSilent(socket: Socket, maxSilenceMs: number): void {
  let bytesRead = 0;
  let silentSinceMs = performance.now();
  const timer = setInterval(() => {
    if (socket.bytesRead !== bytesRead) {
      bytesRead = socket.bytesRead;
      silentSinceMs = performance.now();
    } else if (performance.now() - silentSinceMs >= maxSilenceMs) {
      socket.destroy(failure("the database is silent", "ETIMEDOUT"));
    }
  }, SILENCE_CHECK_INTERVAL_MS);
  timer.unref();
  socket.once("close", () => clearInterval(timer));
}

function failure(message: string, code: string): Error {
  return Object.assign(new Error(message), { code });
}
