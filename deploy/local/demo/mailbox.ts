import { createRequire } from "node:module";

// Accepts mails over SMTP and forwards none. They are shown on a page, and as JSON at `/email`. `maildev` has no types.
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

// Maildev's own handlers wait for idle connections.
for (const event of ["SIGTERM", "SIGINT"] as const) {
  process.removeAllListeners(event);
  process.on(event, () => process.exit(0));
}
// The launcher has ended.
process.on("disconnect", () => process.exit(0));
