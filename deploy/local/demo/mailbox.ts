import { createRequire } from "node:module";

/**
 * The mailbox of a local Gatehouse: takes every mail over SMTP, keeps it, sends none on. A page and, at `/email`, JSON.
 * A process of its own; npm `maildev` has no types, so what is used of it is described here.
 */
const createMailbox = createRequire(import.meta.url)("maildev") as (options: object) => {
  listen(callback: (error?: Error) => void): void;
};

const { SMTP_PORT, MAILBOX_PORT, MAIL_DIRECTORY } = process.env;

const mailbox = createMailbox({
  ip: "127.0.0.1",
  smtp: Number(SMTP_PORT),
  webIp: "127.0.0.1",
  web: Number(MAILBOX_PORT),
  mailDirectory: MAIL_DIRECTORY,
});
mailbox.listen((error) => {
  if (error) throw error;
});

// Its own answer to these signals waits for idle connections; nothing here needs to be finished.
for (const event of ["SIGTERM", "SIGINT"] as const) {
  process.removeAllListeners(event);
  process.on(event, () => process.exit(0));
}
// The launcher is gone.
process.on("disconnect", () => process.exit(0));
