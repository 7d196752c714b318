import { randomUUID } from "node:crypto";
import { createMailSender, MailNotSent, type MailSenderOptions } from "./mail-sender.ts";

const TIMEOUT_MS = 60_000;

export interface TestMailResult {
  isSent: boolean;
  /** Why it was not sent, in words. */
  problem?: string;
  /** The server's. Absent: it did not answer. */
  answer?: string | undefined;
}

/** By codes of nodemailer. Others have words of their own. */
const WORDS: Readonly<Record<string, string>> = {
  EAUTH: "the mail server refused the user or the password",
  EENVELOPE: "the mail server refused the sender or the recipient",
  EMESSAGE: "the mail server refused the mail",
};

/** With the settings with which the service sends. It is not retried. */
export async function sendTestMail(
  options: MailSenderOptions,
  {
    recipient,
    brandName,
    timeoutMs = TIMEOUT_MS,
  }: { recipient: string; brandName: string; timeoutMs?: number },
): Promise<TestMailResult> {
  const text = "This mail was sent to test the settings of the mail server. Nothing is to be done.";
  const mail = {
    id: randomUUID(),
    recipient,
    subject: `Test mail of ${brandName}`,
    text,
    html: `<p>${text}</p>`,
  };
  const signal = AbortSignal.timeout(timeoutMs);
  const sender = createMailSender(options);
  const shown = (answer: string | undefined) => answer && withoutPassword(answer, options);
  try {
    return { isSent: true, answer: shown(await sender.send(mail, signal)) };
  } catch (error) {
    if (!(error instanceof MailNotSent)) throw error;
    const problem = signal.aborted
      ? `the mail server did not take it within ${timeoutMs / 1_000} s`
      : (error.finality ?? WORDS[error.reason.split(" ", 1)[0] ?? ""] ?? error.message);
    return { isSent: false, problem, answer: shown(error.answer()) };
  } finally {
    sender.close();
  }
}

/** A server may repeat what it was sent: in plain, or as AUTH LOGIN and AUTH PLAIN (RFC 4616) encode it. */
function withoutPassword(answer: string, { password, server: { user = "" } }: MailSenderOptions): string {
  const secret = password?.reveal() ?? "";
  if (secret === "") return answer;
  const encoded = [`\0${user}\0${secret}`, secret].map((text) => Buffer.from(text).toString("base64"));
  return [...encoded, secret].reduce((text, form) => text.replaceAll(form, "[password]"), answer);
}
