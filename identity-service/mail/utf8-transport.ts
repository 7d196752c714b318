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
        const envelope = message.getEnvelope() as SMTPEnvelope;
        await sendAlone(options, { envelope, message: message.createReadStream(), signal });
      };
      const sentOne = sending();
      lanes[lane] = sentOne.catch(() => undefined);
      sentOne.then(() => done(null), done);
    },
  };
}

async function sendAlone(
  { auth, ...options }: Omit<Utf8TransportOptions, "maxConnections">,
  { envelope, message, signal }: Sending,
): Promise<void> {
  signal?.throwIfAborted();
  const connection = new SMTPConnection(options);
  try {
    await new Promise<void>((resolve, reject) => {
      const step = (next: () => void) => (error?: Error | null) => (error ? reject(error) : next());
      const send = () => connection.send(envelope, message, step(resolve));
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
