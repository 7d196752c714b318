import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "../../service-kit/logger.ts";
import type { Metrics } from "../../service-kit/metrics.ts";
import type { Sql } from "../../service-kit/postgres.ts";
import { type Repetition, repeat } from "../../service-kit/repeat.ts";
import type { LinkTokens } from "./links.ts";
import { MAILS, type MailName } from "./mail.ts";
import { mailBackOffMs } from "./mail-back-off.ts";
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
import type { MailTemplates } from "./mail-templates.ts";

export interface MailWorkerOptions {
  sql: Sql;
  templates: MailTemplates;
  /** Makes the links of mails whole. */
  linkTokens: Pick<LinkTokens, "completed">;
  /** Undefined: nothing is sent; mails wait, until they are too old. */
  sender: MailSender | undefined;
  now: () => Date;
  /** 0 to 1. */
  random: () => number;
  logger: Logger;
  metrics: Metrics;
}

const POLL_INTERVAL_MS = 2_000;
const CLEAN_UP_INTERVAL_MS = 60_000;
const MAX_BATCH = 20;
/** For a whole batch: all of it begins at once. */
const SEND_TIMEOUT_MS = 60_000;
/** Beyond the time-out by more than it takes to write down what came of it. */
const LEASE_MS = 120_000;
const MARK_ATTEMPTS = 20;
const MAX_MARK_PAUSE_MS = 2_000;
/** How long mails on their way may take when the process stops. */
const STOP_GRACE_MS = 2_000;
const GIVE_UP_AFTER_MS = 3 * 24 * 3_600_000;
const KEEP_DONE_MS = 30 * 24 * 3_600_000;
const MAX_CLEAN_UP_BATCH = 1_000;

const TEMPLATES = Object.keys(MAILS) as MailName[];

/**
 * Sends what is in the outbox. Any number of replicas do: a lease keeps a mail with one of them at a time. What fails
 * is tried again with growing pauses for three days. A mail goes out twice only if the server has taken it and this
 * process dies, or loses the connection, before it knows: then both have the same Message-ID.
 */
export class MailWorker {
  readonly #options: MailWorkerOptions;
  readonly #mails;
  #isStopping = false;
  readonly #cut = new AbortController();
  #polling: Repetition | undefined;
  #cleaning: Repetition | undefined;
  #oldest: Date | undefined;

  constructor(options: MailWorkerOptions) {
    this.#options = options;
    const { metrics, now } = options;
    this.#mails = metrics.counter("gatehouse_mails_total", "Attempts to send a mail, by what came of them.", [
      "template",
      "result",
    ]);
    metrics.gauge(
      "gatehouse_mail_oldest_waiting_seconds",
      "Age of the oldest mail that is neither sent nor given up; 0 without one.",
      [],
      (gauge) =>
        gauge.set(this.#oldest === undefined ? 0 : (now().getTime() - this.#oldest.getTime()) / 1_000),
    );
  }

  start(): void {
    const { logger } = this.#options;
    this.#polling = repeat("mail", POLL_INTERVAL_MS, () => this.poll(), logger);
    this.#cleaning = repeat("mail clean-up", CLEAN_UP_INTERVAL_MS, () => this.cleanUp(), logger);
  }

  /** There is a mail to send. */
  wake(): void {
    this.#polling?.runSoon();
  }

  /** Takes no more mails; those on their way get two seconds, then they are left for a later attempt. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    const timer = setTimeout(() => this.#cut.abort(), STOP_GRACE_MS);
    await Promise.all([this.#polling?.stop(), this.#cleaning?.stop()]);
    clearTimeout(timer);
  }

  /** Sends what is due, and sees how old the rest is. */
  async poll(): Promise<void> {
    const { sql, sender } = this.#options;
    if (sender !== undefined) await this.#drain(sender);
    this.#oldest = await oldestWaitingMail(sql);
  }

  /** Gives up what is too old, and deletes what is left of mails that were done long ago. */
  async cleanUp(): Promise<void> {
    const { sql, now, logger } = this.#options;
    const nowMs = now().getTime();
    const createdUntil = new Date(nowMs - GIVE_UP_AFTER_MS);
    const overdue = await giveUpOverdueMails(sql, { now: now(), createdUntil, limit: MAX_CLEAN_UP_BATCH });
    for (const { id, template, attempts, lastError } of overdue) {
      this.#mails.inc({ template, result: "given_up" });
      logger.error(
        { mailId: id, template, attempts, reason: lastError },
        "mail given up: it could not be sent in time",
      );
    }
    await deleteDoneMails(sql, new Date(nowMs - KEEP_DONE_MS), MAX_CLEAN_UP_BATCH);
  }

  async #drain(sender: MailSender): Promise<void> {
    const { sql, now } = this.#options;
    let claimed = MAX_BATCH;
    while (claimed === MAX_BATCH && !this.#isStopping) {
      const nowMs = now().getTime();
      const mails = await claimDueMails(sql, {
        now: new Date(nowMs),
        leaseEnd: new Date(nowMs + LEASE_MS),
        createdAfter: new Date(nowMs - GIVE_UP_AFTER_MS),
        templates: TEMPLATES,
        limit: MAX_BATCH,
      });
      await Promise.all(mails.map((mail) => this.#deliver(sender, mail)));
      claimed = mails.length;
    }
  }

  /** Never throws: what cannot be written down is settled when the lease ends. */
  async #deliver(sender: MailSender, mail: ClaimedMail): Promise<void> {
    const { templates, linkTokens, logger } = this.#options;
    const { id, template, recipient, attempts } = mail;
    const signal = AbortSignal.any([this.#cut.signal, AbortSignal.timeout(SEND_TIMEOUT_MS)]);
    try {
      const content = templates.render(template, linkTokens.completed(mail.data));
      await sender.send({ id, recipient, ...content }, signal);
    } catch (error) {
      await this.#onFailure(mail, error).catch((cause: unknown) => {
        logger.warn({ err: cause, mailId: id }, "a mail's failure could not be recorded");
      });
      return;
    }
    this.#mails.inc({ template, result: "sent" });
    logger.info({ mailId: id, template, attempts }, "mail sent");
    await this.#markSent(id);
  }

  /** Insists: as long as the lease lasts, a database that is away for a moment causes no second mail. */
  async #markSent(id: string): Promise<void> {
    const { sql, now, logger } = this.#options;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await markMailSent(sql, id, now());
      } catch (error) {
        if (attempt === MARK_ATTEMPTS || this.#cut.signal.aborted) {
          return logger.error({ err: error, mailId: id }, "mail sent but not marked; it will be sent again");
        }
        const pauseMs = Math.min(100 * 2 ** attempt, MAX_MARK_PAUSE_MS);
        await sleep(pauseMs, undefined, { signal: this.#cut.signal }).catch(() => undefined);
      }
    }
  }

  async #onFailure(mail: ClaimedMail, error: unknown): Promise<void> {
    const { sql, now, random, logger } = this.#options;
    const { id, template, attempts } = mail;
    const isExpected = error instanceof MailNotSent;
    const reason = isExpected ? error.reason : "not rendered";
    const details = { mailId: id, template, attempts, reason };
    if (isExpected && error.isUnknownAddress) {
      this.#mails.inc({ template, result: "given_up" });
      logger.error(details, "mail given up: the address does not exist");
      return giveUpMail(sql, mail, { now: now(), reason });
    }
    this.#mails.inc({ template, result: "failed" });
    logger.warn(
      { ...details, ...(isExpected ? { problem: error.message } : { err: error }) },
      "mail not sent; trying again later",
    );
    const attemptAt = new Date(now().getTime() + mailBackOffMs(attempts, random()));
    await postponeMail(sql, mail, { attemptAt, reason });
  }
}
