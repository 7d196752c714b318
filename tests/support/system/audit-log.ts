import { startOfMonth } from "#audit-service/log/retention-store.ts";
import { type Sql, transaction } from "#kit/database/postgres.ts";

const APPEND_ONLY = ["log_entries", "leaves", "subtrees", "checkpoints", "removals"];
const BESIDE = [
  "stored_keys",
  "log_months",
  "removal_cleanups",
  "claimed_emails",
  "open_intents",
  "producers",
];

/** Empties a test's log, which only its owner can, and only without the triggers. */
export async function emptyLog(ownerSql: Sql): Promise<void> {
  await withoutTriggers(ownerSql, (tx) => tx.unsafe(`truncate ${[...APPEND_ONLY, ...BESIDE].join(", ")}`));
}

/** Moves unnumbered entries to the tenth of a month, as if they had been received then, and creates its partition. */
export async function receiveInMonth(ownerSql: Sql, month: number): Promise<void> {
  const start = startOfMonth(month).toISOString().slice(0, 10);
  await ownerSql`select create_log_partition(${start}::text::date)`;
  await withoutTriggers(ownerSql, (tx) =>
    tx.unsafe(`
      update log_entries as e set received_at = '${start}T00:00:00Z'::timestamptz + interval '9 days'
      where not exists (select from leaves as l where l.position = e.position)
        and received_at >= now() - interval '1 hour'`),
  );
}

/** What an attacker with the owner's password could do. */
export async function withoutTriggers(
  ownerSql: Sql,
  work: (tx: { unsafe(statement: string): PromiseLike<unknown> }) => PromiseLike<unknown>,
): Promise<void> {
  const tables = await ownerSql<{ name: string }[]>`
    select distinct tgrelid::regclass::text as name from pg_trigger where tgname = 'append_only'`;
  const switchAll = (how: string) =>
    tables.map(({ name }) => `alter table ${name} ${how} trigger append_only`).join(";");
  await transaction(ownerSql, async (tx) => {
    await tx.unsafe(switchAll("disable"));
    await work(tx);
    await tx.unsafe(switchAll("enable always"));
  });
}
