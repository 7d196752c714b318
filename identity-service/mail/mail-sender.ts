import { readFileSync } from "node:fs";
import { createTransport, type NodemailerError } from "nodemailer";
import type { Secret } from "../../service-kit/config.ts";
import type { MailContent } from "./mail.ts";
import { isLoopback, type MailAddress, type SmtpServer } from "./mail-config.ts";

/** How mail leaves. */
export interface MailSenderOptions {
  server: SmtpServer;
  password?: Secret<string> | undefined;
  /** Undefined: unless the server is this machine. */
  requireTls?: boolean | undefined;
  caFile?: string | undefined;
  from: MailAddress;
}

/** A mail as it goes out. */
export interface OutgoingMail extends MailContent {
  /** UUID; makes the Message-ID, so that what is sent again is recognised as the same mail. */
  id: string;
  recipient: string;
}

/** Hands mails to an SMTP server. */
export interface MailSender {
  /**
   * Resolves when the server has taken responsibility for the mail (RFC 5321 §4.2.5).
   *
   * @param signal ends the attempt. The server may have the mail all the same.
   * @throws {MailNotSent}
   */
  send(mail: OutgoingMail, signal: AbortSignal): Promise<void>;
  /** Closes idle connections, and busy ones when they are done. */
  close(): void;
}

/** Without anything that a server wrote: replies repeat the recipient. */
export class MailNotSent extends Error {
  override readonly name = "MailNotSent";
  /** What kind of failure: `ECONNREFUSED`, `EENVELOPE 550 5.1.1`. At most 64 characters. */
  readonly reason: string;
  /** The server says that there is no such address (RFC 3463 §3.2): trying again will not make one. */
  readonly isUnknownAddress: boolean;

  constructor(reason: string, message: string, isUnknownAddress: boolean) {
    super(message);
    this.reason = reason;
    this.isUnknownAddress = isUnknownAddress;
  }
}

const CONNECT_TIMEOUT_MS = 10_000;
/**
 * Between two signs of life. Long, because a server may look at a mail before it answers (RFC 5321 §4.5.3.2.6 asks for
 * ten minutes), and to give up in between means to send the mail twice.
 */
const SILENCE_TIMEOUT_MS = 50_000;
/** Before the server does. */
const IDLE_TIMEOUT_MS = 5_000;
const MAX_CONNECTIONS = 5;
const MAX_MAILS_PER_CONNECTION = 100;
const MAX_REPLY_BYTES = 64 * 1024;

export function createMailSender(options: MailSenderOptions): MailSender {
  const { server, from } = options;
  const requireTls = options.requireTls ?? !isLoopback(server.host);
  const domain = from.address.slice(from.address.lastIndexOf("@") + 1);
  const transport = createTransport({
    host: server.host,
    port: server.port,
    secure: server.isTlsFromStart,
    requireTLS: requireTls && !server.isTlsFromStart,
    // What a relay on this machine offers is no protection, and its certificate rarely names it.
    ignoreTLS: !requireTls && isLoopback(server.host),
    tls: {
      minVersion: "TLSv1.2",
      ...(options.caFile !== undefined && { ca: readFileSync(options.caFile) }),
    },
    ...(server.user !== undefined && { auth: { user: server.user, pass: options.password?.reveal() ?? "" } }),
    name: domain,
    pool: true,
    maxConnections: MAX_CONNECTIONS,
    maxMessages: MAX_MAILS_PER_CONNECTION,
    maxRequeues: 0, // the outbox tries again
    idleTimeout: IDLE_TIMEOUT_MS,
    connectionTimeout: CONNECT_TIMEOUT_MS,
    dnsTimeout: CONNECT_TIMEOUT_MS,
    greetingTimeout: CONNECT_TIMEOUT_MS,
    socketTimeout: SILENCE_TIMEOUT_MS,
    maxResponseSize: MAX_REPLY_BYTES,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  return {
    async send(mail, signal) {
      try {
        await transport.sendMail({
          messageId: `<${mail.id}@${domain}>`,
          from,
          to: { name: "", address: mail.recipient },
          envelope: { from: from.address, to: [mail.recipient] },
          subject: mail.subject,
          text: mail.text,
          html: mail.html,
          // RFC 3834 §5, and what Exchange knows instead: no out-of-office answers.
          headers: { "Auto-Submitted": "auto-generated", "X-Auto-Response-Suppress": "All" },
          xMailer: false,
          signal,
        });
      } catch (error) {
        throw notSent(error as NodemailerError);
      }
    },
    close: () => transport.close(),
  };
}

/** Failures before anybody's address is spoken of. Their messages are Node's, OpenSSL's or nodemailer's own. */
const BEFORE_THE_MAIL = new Set(["ECONNECTION", "EDNS", "ESOCKET", "ETIMEDOUT", "ETLS"]);

/** RFC 3463 §3.2 and RFC 7505 §5; the other 5.1 codes speak of the sender, and that is for the operator to repair. */
const NO_SUCH_RECIPIENT = /^5\.1\.(?:1|2|3|6|10)$/;

function notSent(error: NodemailerError): MailNotSent {
  const enhancedCode = /^5\d\d[ -](5\.\d{1,3}\.\d{1,3})\b/.exec(error.response ?? "")?.[1];
  const reason = [error.originalCode ?? error.code ?? error.name, error.responseCode, enhancedCode]
    .filter((part) => part !== undefined)
    .join(" ")
    .slice(0, 64);
  const isHarmless = error.response === undefined && BEFORE_THE_MAIL.has(error.code ?? "");
  const isUnknownAddress = error.command === "RCPT TO" && NO_SUCH_RECIPIENT.test(enhancedCode ?? "");
  return new MailNotSent(reason, isHarmless ? error.message : reason, isUnknownAddress);
}
