/**
 * A process that makes transactions on `DATABASE_URL` as a service would, until its parent says `stop`; then it checks
 * that everything that was acknowledged is there, and reports to the parent by `TransactionCounts`.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import { Secret } from "#kit/config/config.ts";
import { connectPostgres, transaction } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";

export interface TransactionCounts {
  acknowledged: number;
  unavailable: number;
  /** Failures other than `service_unavailable`. */
  unexpected: string[];
  /** Set in the last message: numbers that were acknowledged, and are not in the database. */
  missing?: number[];
  /** Set in the last message: whether the accounts have what the ledger says. */
  isBalanced?: boolean;
}

const PER_S = 1_000;
const ACCOUNTS = 50;
const SEND_INTERVAL_MS = 50;
const MAX_UNDER_WAY = 200;

const sql = connectPostgres(
  {
    DATABASE_URL: process.env.DATABASE_URL ?? "",
    DATABASE_PASSWORD_FILE: new Secret(process.env.DATABASE_PASSWORD ?? ""),
    DATABASE_POOL_SIZE: 10,
  },
  "transaction load",
  pino({ level: "silent" }),
);
const acknowledged: number[] = [];
const unexpected: string[] = [];
let unavailable = 0;
let underWay = 0;
let isStopped = false;

class Unwanted extends Error {}

async function book(id: number): Promise<void> {
  const account = id % ACCOUNTS;
  if (id % 8 === 7) {
    await sql`insert into ledger (id, account) values (${id}, null)`;
    return;
  }
  await transaction(sql, async (tx) => {
    await tx`select balance from accounts where id = ${account} for update`;
    await tx`insert into ledger (id, account) values (${id}, ${account})`;
    const update = (part: typeof tx) => part`update accounts set balance = balance + 1 where id = ${account}`;
    if (id % 8 === 6) await tx.savepoint(update);
    else await update(tx);
    if (id % 8 === 5) throw new Unwanted();
  });
}

async function attempt(id: number): Promise<void> {
  underWay += 1;
  try {
    await book(id);
    acknowledged.push(id);
  } catch (error) {
    if (error instanceof DomainError && error.code === "service_unavailable") unavailable += 1;
    else if (!(error instanceof Unwanted)) unexpected.push(String(error));
  } finally {
    underWay -= 1;
  }
}

function sendCounts(more: Partial<TransactionCounts> = {}): void {
  const counts: TransactionCounts = { acknowledged: acknowledged.length, unavailable, unexpected, ...more };
  process.send?.(counts);
}

process.on("message", () => {
  isStopped = true;
});
const onOrphaned = () => process.exit(2); // without its parent it would never end
process.on("disconnect", onOrphaned);

const sending = setInterval(sendCounts, SEND_INTERVAL_MS);
const startedMs = performance.now();
let next = 0;
let skipped = 0;
while (!isStopped) {
  const due = ((performance.now() - startedMs) / 1_000) * PER_S - skipped;
  for (; next < due && underWay < MAX_UNDER_WAY; next += 1) void attempt(next);
  skipped += Math.max(0, due - next); // not made up for later
  await sleep(5);
}
while (underWay > 0) await sleep(10);
clearInterval(sending);

const stored = new Set((await sql<{ id: number }[]>`select id from ledger`).map(({ id }) => id));
const [sums] = await sql<{ booked: number; balance: number }[]>`
  select (select count(account)::int from ledger) as booked, (select sum(balance)::int from accounts) as balance`;
sendCounts({
  missing: acknowledged.filter((id) => !stored.has(id)),
  isBalanced: sums !== undefined && sums.booked === sums.balance,
});
await sql.end();
process.off("disconnect", onOrphaned);
process.disconnect();
