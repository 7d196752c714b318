import { type BreachList, openBreachList } from "#breach-list/open-breach-list.ts";
import { identifyFile } from "#kit/config/watch-text-file.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import { repeat } from "#kit/telemetry/repeat.ts";
import { type BreachLookup, sha1Of } from "./breach-lookup.ts";

const LOOK_EVERY_MS = 10_000;
const DAY_MS = 86_400_000;

export interface BreachListOptions {
  path: string;
  /** An older list stays in use, with a warning. */
  maxAgeDays: number;
  now: () => Date;
  logger: Logger;
  metrics: Metrics;
  lookEveryMs?: number;
}

export interface WatchedBreachList extends BreachLookup {
  /** Waits for look-ups. */
  close(): Promise<void>;
}

interface State {
  list: BreachList;
  /** Of the file that was looked at last. */
  identity: string;
  isRefused: boolean;
  isKnownAsOld: boolean;
}

/**
 * Uses a replaced file without a restart, and keeps the last valid list. After a failed look-up, the password passes.
 * @throws {BreachListError} if the file cannot be used at the start.
 */
export async function watchBreachList(options: BreachListOptions): Promise<WatchedBreachList> {
  const { path, logger, metrics, lookEveryMs = LOOK_EVERY_MS } = options;
  const identity = await identify(path);
  const state = { list: await openBreachList(path), identity, isRefused: false, isKnownAsOld: false };
  logInUse(options, state);
  warnIfOld(options, state);
  registerGauges(options, state);
  const lookups = metrics.counter(
    "gatehouse_breach_list_lookups_total",
    "Look-ups of new passwords in the breach list.",
    ["outcome"],
  );
  // An alert counts from the first time on.
  lookups.inc({ outcome: "failed" }, 0);
  const watch = repeat("breach list", lookEveryMs, () => lookAgain(options, state), logger);
  return {
    async isBreached(password) {
      try {
        const isBreached = await state.list.contains(sha1Of(password));
        lookups.inc({ outcome: isBreached ? "breached" : "clean" });
        return isBreached;
      } catch (error) {
        lookups.inc({ outcome: "failed" });
        logger.warn({ err: error, path }, "look-up in the breach list failed; the password is accepted");
        return false;
      }
    },
    async close() {
      await watch.stop();
      await state.list.close();
    },
  };
}

async function lookAgain(options: BreachListOptions, state: State): Promise<void> {
  const identity = await identify(options.path);
  if (identity !== state.identity) {
    state.identity = identity;
    await replaceList(options, state);
  }
  warnIfOld(options, state);
}

async function replaceList(options: BreachListOptions, state: State): Promise<void> {
  const former = state.list;
  try {
    state.list = await openBreachList(options.path);
  } catch (error) {
    state.isRefused = true;
    options.logger.error(
      { err: error },
      "the breach list has changed and cannot be used: the former one stays",
    );
    return;
  }
  state.isRefused = false;
  state.isKnownAsOld = false;
  logInUse(options, state);
  await former.close();
}

function logInUse({ path, logger }: BreachListOptions, { list }: State): void {
  const { entries, builtAt, label } = list.header;
  logger.info({ path, entries, builtAt: builtAt.toISOString(), label }, "breach list in use");
}

function warnIfOld({ path, maxAgeDays, now, logger }: BreachListOptions, state: State): void {
  if (state.isKnownAsOld || now().getTime() < oldAtMs(state, maxAgeDays)) return;
  state.isKnownAsOld = true;
  const builtAt = state.list.header.builtAt.toISOString();
  logger.warn({ path, builtAt, maxAgeDays }, "the breach list is too old: build a new one");
}

function oldAtMs({ list }: State, maxAgeDays: number): number {
  return list.header.builtAt.getTime() + maxAgeDays * DAY_MS;
}

function registerGauges({ metrics, maxAgeDays }: BreachListOptions, state: State): void {
  metrics.gauge("gatehouse_breach_list_entries", "Hashes in the breach list in use.", [], (gauge) =>
    gauge.set(state.list.header.entries),
  );
  metrics.gauge(
    "gatehouse_breach_list_old_at_seconds",
    "Unix time at which the breach list in use exceeds BREACH_LIST_MAX_AGE_DAYS.",
    [],
    (gauge) => gauge.set(oldAtMs(state, maxAgeDays) / 1_000),
  );
  metrics.gauge(
    "gatehouse_breach_list_refused",
    "1 while the file at BREACH_LIST_FILE cannot be used.",
    [],
    (gauge) => gauge.set(state.isRefused ? 1 : 0),
  );
}

async function identify(path: string): Promise<string> {
  return identifyFile(path).catch((error: NodeJS.ErrnoException) => error.code ?? "unreadable");
}
