import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { SMTPServer, type SMTPServerOptions } from "smtp-server";

/** A mail that a test server has taken. */
interface ReceivedMail {
  from: string;
  to: string[];
  /** As sent, soft line breaks undone. */
  raw: string;
  messageId: string | undefined;
}

/** A real SMTP server. */
export interface TestSmtp {
  port: number;
  mails: ReceivedMail[];
  /** Refuses every recipient with this reply from now on; undefined: none. */
  refuseRecipients(reply: { code: number; text: string } | undefined): void;
  /** Called once a mail is complete; the server answers when it resolves. */
  onMail: (mail: ReceivedMail) => Promise<void>;
  /** Cuts all connections, as a crash does. Not for TLS: Node crashes itself if that is in the middle of a handshake. */
  cut(): void;
  close(): Promise<void>;
}

/**
 * Starts an SMTP server that keeps what it gets. In clear text and without authentication unless told.
 *
 * @param port 0: a free one.
 */
export async function startTestSmtp(options: SMTPServerOptions = {}, port = 0): Promise<TestSmtp> {
  let refusal: { code: number; text: string } | undefined;
  const server = new SMTPServer({
    disabledCommands: ["STARTTLS", "AUTH"],
    disableReverseLookup: true,
    closeTimeout: 100,
    logger: false,
    onRcptTo(_address, _session, callback) {
      callback(refusal && Object.assign(new Error(refusal.text), { responseCode: refusal.code }));
    },
    async onData(stream, session, callback) {
      const raw = (await text(stream)).replace(/(?<!\?)=\r\n/g, "");
      const { mailFrom, rcptTo } = session.envelope;
      const mail = {
        from: mailFrom === false ? "" : mailFrom.address,
        to: rcptTo.map(({ address }) => address),
        raw,
        messageId: /^Message-ID:\s+(\S+)/im.exec(raw)?.[1],
      };
      smtp.mails.push(mail);
      await smtp.onMail(mail);
      callback(null, "taken");
    },
    ...options,
  });
  server.on("error", () => undefined); // a client that has gone
  const listener = server.listen(port, "127.0.0.1");
  await new Promise((resolve, reject) => listener.once("listening", resolve).once("error", reject));
  const sockets = new Set<{ destroy(): void }>();
  listener.on("connection", (socket) => sockets.add(socket));
  const smtp: TestSmtp = {
    port: (listener.address() as AddressInfo).port,
    mails: [],
    refuseRecipients: (reply) => {
      refusal = reply;
    },
    onMail: async () => undefined,
    cut: () => {
      for (const socket of sockets) socket.destroy();
    },
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
  return smtp;
}
