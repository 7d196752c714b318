import { readFileSync } from "node:fs";
import { createTransport, type NodemailerError } from "nodemailer";
import type { Secret } from "#kit/config/config.ts";
import { isAsciiMailbox } from "#kit/values/canonical-email.ts";
import { isThisHost } from "#kit/values/network-of.ts";
import type { MailContent } from "./mail.ts";
import type { MailAddress, SmtpServer } from "./mail-config.ts";
import { createUtf8Transport, SmtpUtf8NotOffered } from "./utf8-transport.ts";

export interface MailSenderOptions {
  server: SmtpServer;
  password?: Secret<string> | undefined;
  /** Default: true, except for loopback. */
  requireTls?: boolean | undefined;
  caFile?: string | undefined;
  from: MailAddress;
  /** A PNG, for mails that show it. */
  logo?: Buffer | undefined;
}

/** Of the image within the mail. @see RFC 2392. */
const LOGO_ID = "logo@gatehouse";
export const LOGO_URL = `cid:${LOGO_ID}`;

interface OutgoingMail extends MailContent {
  /** Determines the Message-ID, for deduplication. */
  id: string;
  recipient: string;
}

export interface MailSender {
  /**
   * Resolves on acceptance (RFC 5321 §4.2.5), with the server's answer. An aborted mail may still arrive.
   * @throws {MailNotSent}.
   */
  send(mail: OutgoingMail, signal: AbortSignal): Promise<string>;
  close(): void;
}

/** Logs show no server text, because replies repeat the recipient. */
export class MailNotSent extends Error {
  override readonly name = "MailNotSent";
  /** Such as `EENVELOPE 550 5.1.1`, at most 64 characters. */
  readonly reason: string;
  /** Why it is of no use to try again. Undefined: it may be. */
  readonly finality: string | undefined;
  readonly #answer: string | undefined;

  constructor(reason: string, message: string, finality: string | undefined, answer: string | undefined) {
    super(message);
    this.reason = reason;
    this.finality = finality;
    this.#answer = answer;
  }

  /** The server's, never to be logged. Undefined: it did not answer. */
  answer(): string | undefined {
    return this.#answer;
  }
}

const CONNECT_TIMEOUT_MS = 10_000;
/** Servers may scan before they answer (RFC 5321 §4.5.3.2.6); an early abort sends the mail twice. */
const SILENCE_TIMEOUT_MS = 50_000;
/** Shorter than the timeout of servers. */
const IDLE_TIMEOUT_MS = 5_000;
const MAX_CONNECTIONS = 5;
const MAX_MAILS_PER_CONNECTION = 100;
const MAX_REPLY_BYTES = 64 * 1024;

export function createMailSender(options: MailSenderOptions): MailSender {
  const { server, from, logo } = options;
  const image = logo && {
    cid: LOGO_ID,
    filename: "logo.png",
    content: logo,
    contentDisposition: "inline" as const,
  };
  const requireTls = options.requireTls ?? !isThisHost(server.host);
  const domain = from.address.slice(from.address.lastIndexOf("@") + 1);
  const settings = {
    host: server.host,
    port: server.port,
    secure: server.isTlsFromStart,
    requireTLS: requireTls && !server.isTlsFromStart,
    // A local relay's certificate rarely matches.
    ignoreTLS: !requireTls && isThisHost(server.host),
    tls: {
      minVersion: "TLSv1.2" as const,
      ...(options.caFile !== undefined && { ca: readFileSync(options.caFile) }),
    },
    ...(server.user !== undefined && { auth: { user: server.user, pass: options.password?.reveal() ?? "" } }),
    name: domain,
    maxConnections: MAX_CONNECTIONS,
    connectionTimeout: CONNECT_TIMEOUT_MS,
    dnsTimeout: CONNECT_TIMEOUT_MS,
    greetingTimeout: CONNECT_TIMEOUT_MS,
    socketTimeout: SILENCE_TIMEOUT_MS,
    maxResponseSize: MAX_REPLY_BYTES,
  };
  const noAccess = { disableFileAccess: true, disableUrlAccess: true };
  const pool = createTransport({
    ...settings,
    ...noAccess,
    pool: true,
    maxMessages: MAX_MAILS_PER_CONNECTION,
    maxRequeues: 0, // The outbox retries.
    idleTimeout: IDLE_TIMEOUT_MS,
  });
  const utf8 = createTransport(createUtf8Transport(settings), noAccess);
  return {
    async send(mail, signal) {
      const isAscii = isAsciiMailbox(mail.recipient) && isAsciiMailbox(from.address);
      const transport = isAscii ? pool : utf8;
      try {
        const { response } = await transport.sendMail({
          messageId: `<${mail.id}@${domain}>`,
          from,
          to: { name: "", address: mail.recipient },
          envelope: { from: from.address, to: [mail.recipient] },
          subject: mail.subject,
          text: mail.text,
          html: mail.html,
          attachments: image !== undefined && mail.html.includes(LOGO_URL) ? [image] : [],
          // RFC 3834 §5 and the Exchange equivalent.
          headers: { "Auto-Submitted": "auto-generated", "X-Auto-Response-Suppress": "All" },
          xMailer: false,
          signal,
        });
        return response ?? "";
      } catch (error) {
        throw notSent(error as NodemailerError);
      }
    },
    close: () => pool.close(),
  };
}

/** Failures before any address is sent. They hold no server text. */
const BEFORE_THE_MAIL = new Set(["ECONNECTION", "EDNS", "ESOCKET", "ETIMEDOUT", "ETLS"]);

/** RFC 3463 §3.2 and RFC 7505 §5. Other 5.1 codes concern the sender. */
const NO_SUCH_RECIPIENT = /^5\.1\.(?:1|2|3|6|10)$/;
/** RFC 6531 §4.3. */
const NO_UTF8 = /^5\.6\.[79]$/;

function notSent(error: NodemailerError): MailNotSent {
  if (error instanceof SmtpUtf8NotOffered)
    return new MailNotSent("no SMTPUTF8", error.name, UTF8_NEEDED, undefined);
  const enhancedCode = /^5\d\d[ -](5\.\d{1,3}\.\d{1,3})\b/.exec(error.response ?? "")?.[1];
  const reason = [error.originalCode ?? error.code ?? error.name, error.responseCode, enhancedCode]
    .filter((part) => part !== undefined)
    .join(" ")
    .slice(0, 64);
  const isHarmless = error.response === undefined && BEFORE_THE_MAIL.has(error.code ?? "");
  const message = isHarmless ? error.message : reason;
  return new MailNotSent(reason, message, finalityOf(error, enhancedCode), error.response);
}

const UTF8_NEEDED =
  "the address has letters beyond ASCII before its @, which the mail server does not take (SMTPUTF8): see SMTP_UTF8";

function finalityOf({ command }: NodemailerError, enhancedCode = ""): string | undefined {
  if (NO_UTF8.test(enhancedCode)) return UTF8_NEEDED;
  const isUnknown = command === "RCPT TO" && NO_SUCH_RECIPIENT.test(enhancedCode);
  return isUnknown ? "the address does not exist" : undefined;
}
