import { OutboxWorker } from "#kit/database/outbox.ts";
import type { Sql } from "#kit/database/postgres.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import { backOffMs } from "#kit/values/back-off.ts";
import type { LinkTokens } from "./links.ts";
import { MAILS, type MailName } from "./mail.ts";
import {
  type ClaimedMail,
  claimDueMails,
  deleteDoneMails,
  giveUpMail,
  giveUpOverdueMails,
  markMailSent,
  oldestWaitingMail,
  postponeMail,
} from "./mail-outbox-store.ts";
import { MailNotSent, type MailSender } from "./mail-sender.ts";
import type { MailBrand, MailTemplates } from "./mail-templates.ts";

/** Limits a whole batch, which begins at once. */
const SEND_TIMEOUT_MS = 60_000;
const GIVE_UP_AFTER_MS = 3 * 24 * 3_600_000;
const KEEP_DONE_MS = 30 * 24 * 3_600_000;
const BACK_OFF = { firstMs: 30_000, maxMs: 48 * 60_000, range: [1, 1.25] } as const;

const TEMPLATES = Object.keys(MAILS) as MailName[];

/**
 * Retries for three days. A mail goes out twice, with the same Message-ID, only if this process dies or loses the
 * connection before it knows that the server has accepted it.
 */
export function createMailWorker(deps: {
  sql: Sql;
  templates: Pick<MailTemplates, "render">;
  /** Default: ours. */
  brand?: MailBrand | undefined;
  linkTokens: Pick<LinkTokens, "completed">;
  /** Undefined: mails wait until they are too old. */
  sender: MailSender | undefined;
  now: () => Date;
  /** 0 to 1. */
  random: () => number;
  logger: Logger;
  metrics: Metrics;
}): OutboxWorker<ClaimedMail> {
  const { sql, templates, brand, linkTokens, sender, now, random, logger, metrics } = deps;
  const mails = metrics.counter("gatehouse_mails_total", "Attempts to send a mail, by result.", [
    "template",
    "result",
  ]);

  async function deliver(mail: ClaimedMail, stopping: AbortSignal): Promise<void> {
    const { id, template, recipient, attempts } = mail;
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(SEND_TIMEOUT_MS)]);
    const content = templates.render(template, linkTokens.completed(mail.data), mail, brand);
    await sender?.send({ id, recipient, ...content }, signal);
    mails.inc({ template, result: "sent" });
    logger.info({ mailId: id, template, attempts }, "mail sent");
  }

  async function onFailure(mail: ClaimedMail, error: unknown): Promise<void> {
    const { id, template, attempts } = mail;
    const isExpected = error instanceof MailNotSent;
    const reason = isExpected ? error.reason : "not rendered";
    const details = { mailId: id, template, attempts, reason };
    if (isExpected && error.finality !== undefined) {
      mails.inc({ template, result: "given_up" });
      logger.error(details, `mail given up: ${error.finality}`);
      return giveUpMail(sql, mail, { now: now(), reason });
    }
    mails.inc({ template, result: "failed" });
    logger.warn(
      { ...details, ...(isExpected ? { problem: error.message } : { err: error }) },
      "mail not sent; trying again later",
    );
    const attemptAt = new Date(now().getTime() + mailBackOffMs(attempts, random()));
    await postponeMail(sql, mail, { attemptAt, reason });
  }

  async function forget(limit: number): Promise<number> {
    const nowMs = now().getTime();
    const createdUntil = new Date(nowMs - GIVE_UP_AFTER_MS);
    const overdue = await giveUpOverdueMails(sql, { now: now(), createdUntil, limit });
    for (const { id, template, attempts, lastError } of overdue) {
      mails.inc({ template, result: "given_up" });
      logger.error(
        { mailId: id, template, attempts, reason: lastError },
        "mail given up: it could not be sent in time",
      );
    }
    return deleteDoneMails(sql, new Date(nowMs - KEEP_DONE_MS), limit);
  }

  const worker = new OutboxWorker({
    what: "mail",
    pollIntervalMs: 2_000,
    leaseMs: 2 * SEND_TIMEOUT_MS, // Longer than sending and noting the result.
    maxBatch: 20,
    async claim(lease) {
      if (sender === undefined) return [];
      const createdAfter = new Date(now().getTime() - GIVE_UP_AFTER_MS);
      return claimDueMails(sql, { ...lease, now: now(), createdAfter, templates: TEMPLATES });
    },
    deliver,
    mark: ({ id }) => markMailSent(sql, id, now()),
    onFailure,
    forget,
    backlog: async () => ({ oldest: await oldestWaitingMail(sql) }),
    now,
    logger,
  });
  metrics.gauge(
    "gatehouse_mail_oldest_waiting_seconds",
    "Age of the oldest mail that is neither sent nor given up, or 0.",
    [],
    (gauge) => gauge.set(worker.oldestAgeS),
  );
  return worker;
}

/** From 30 s to 1 h. `random` is 0 to 1. */
export function mailBackOffMs(attempts: number, random: number): number {
  return backOffMs({ attempt: attempts, ...BACK_OFF, random });
}
