import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { SMTPServer, type SMTPServerOptions } from "smtp-server";

interface ReceivedMail {
  from: string;
  to: string[];
  raw: string;
  messageId: string | undefined;
}

export interface TestSmtp {
  port: number;
  mails: ReceivedMail[];
  refuseRecipients(reply: { code: number; text: string } | undefined): void;
  /** In later answers to EHLO. True at first. */
  offerUtf8(isOffered: boolean): void;
  onMail: (mail: ReceivedMail) => Promise<void>;
  /** Not with TLS: Node crashes in the middle of a handshake. */
  cut(): void;
  close(): Promise<void>;
}

/** Without TLS and authentication by default. @param port 0: a free one. */
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
      // Undefined: the client has gone in the middle of a mail, and nobody waits for an answer.
      const whole = await text(stream).catch(() => undefined);
      if (whole === undefined) return;
      const raw = whole.replace(/(?<!\?)=\r\n/g, "");
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
  // A client may have gone.
  server.on("error", () => undefined);
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
    offerUtf8: (isOffered) => {
      server.options.hideSMTPUTF8 = !isOffered;
    },
    onMail: async () => undefined,
    cut: () => {
      for (const socket of sockets) socket.destroy();
    },
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
  return smtp;
}
