import { createRequire } from "node:module";
import { z } from "zod";

/**
 * The mailbox of a local Gatehouse: takes every mail over SMTP, keeps it, sends none on. A page and, at `/email`, JSON.
 * A process of its own; npm `maildev` has no types, so what is used of it is described here.
 */
interface MailServer {
  listen(callback: (error?: Error) => void): void;
}

const { SMTP_PORT, MAILBOX_PORT, MAIL_DIRECTORY } = z
  .object({
    SMTP_PORT: z.coerce.number().int(),
    MAILBOX_PORT: z.coerce.number().int(),
    MAIL_DIRECTORY: z.string().min(1),
  })
  .parse(process.env);

const createMailbox = createRequire(import.meta.url)("maildev") as (options: object) => MailServer;

// Its own answer to SIGTERM waits for idle connections; nothing here needs to be finished.
const mailbox = createMailbox({
  ip: "127.0.0.1",
  smtp: SMTP_PORT,
  webIp: "127.0.0.1",
  web: MAILBOX_PORT,
  mailDirectory: MAIL_DIRECTORY,
});
mailbox.listen((error) => {
  if (error) throw error;
});

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  process.removeAllListeners(signal);
  process.on(signal, () => process.exit(0));
}
// The launcher is gone.
process.on("disconnect", () => process.exit(0));
