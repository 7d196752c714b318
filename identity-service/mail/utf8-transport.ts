import type { Readable } from "node:stream";
import type { SMTPConnectionAuth, SMTPConnectionOptions, SMTPEnvelope, Transport } from "nodemailer";
import SMTPConnection from "nodemailer/lib/smtp-connection";

/** Servers without it may take an address beyond ASCII for another mailbox. */
export class SmtpUtf8NotOffered extends Error {
  override readonly name = "SmtpUtf8NotOffered";
}

export interface Utf8TransportOptions extends SMTPConnectionOptions {
  auth?: SMTPConnectionAuth;
  maxConnections: number;
}

interface Sending {
  envelope: SMTPEnvelope;
  message: Readable;
  signal: AbortSignal | undefined;
}

const OFFER = /^250[ -]SMTPUTF8\b/im;

/**
 * For addresses beyond ASCII, which nodemailer's own transports send to any server (RFC 6531 §3.1 forbids it). Each mail has a
 * connection of its own, because nodemailer shows the answer to EHLO only right after it.
 */
export function createUtf8Transport({ maxConnections, ...options }: Utf8TransportOptions): Transport {
  const lanes: Promise<void>[] = Array.from({ length: maxConnections }, async () => undefined);
  let sent = 0;
  return {
    name: "SMTP with SMTPUTF8",
    version: "1",
    supportsAbortSignal: true,
    send({ data: { signal }, message }, done) {
      const lane = sent++ % maxConnections;
      const sending = async () => {
        await lanes[lane];
        const envelope = message.getEnvelope();
        const stream = message.createReadStream();
        const sending = { envelope: envelope as SMTPEnvelope, message: stream, signal };
        return { envelope, messageId: message.messageId(), response: await sendAlone(options, sending) };
      };
      const sentOne = sending();
      lanes[lane] = sentOne.then(
        () => undefined,
        () => undefined,
      );
      sentOne.then((info) => done(null, info), done);
    },
  };
}

/** @returns the server's answer. */
async function sendAlone(
  { auth, ...options }: Omit<Utf8TransportOptions, "maxConnections">,
  { envelope, message, signal }: Sending,
): Promise<string> {
  signal?.throwIfAborted();
  const connection = new SMTPConnection(options);
  try {
    return await new Promise<string>((resolve, reject) => {
      const step = (next: () => void) => (error?: Error | null) => (error ? reject(error) : next());
      const send = () =>
        connection.send(envelope, message, (error, info) =>
          error || !info ? reject(error) : resolve(info.response),
        );
      signal?.addEventListener("abort", () => reject(signal.reason));
      connection.on("error", reject);
      connection.on("end", () => reject(new Error("The connection ended")));
      connection.connect(
        step(() => {
          // Within TLS it is the answer to the second EHLO.
          if (!OFFER.test(connection.lastServerResponse || "")) reject(new SmtpUtf8NotOffered());
          else if (auth && connection.allowsAuth) connection.login(auth, step(send));
          else send();
        }),
      );
    });
  } finally {
    connection.close();
    message.destroy();
  }
}
