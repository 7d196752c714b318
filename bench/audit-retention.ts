/**
 * Whether keys and claimed addresses are forgotten as fast as entries come: what storing costs with the keys of 31 days
 * beside it, dropping a day, erasing a month's addresses, and looking where a month is cut.
 *
 *   npm run bench:audit-retention -- [rows a day, 200000 unless said]
 */
import { randomUUID } from "node:crypto";
import { producedEntry } from "#audit-service/entries/entry.fixture.ts";
import { insertEntries } from "#audit-service/entries/entry-store.ts";
import { storeEntries } from "#audit-service/entries/store-entries.ts";
import { deleteClaims, isCleanCut } from "#audit-service/log/retention-store.ts";
import { startWorkbench } from "./support/workbench.ts";

const ROWS_A_DAY = Number(process.argv[2] ?? 200_000);
const DAYS = 31;
const BATCH = 500;
const BATCHES = 100;

const workbench = await startWorkbench();
const sql = await workbench.connect("audit-service");
const owner = workbench.connectOwner("audit-service");

async function seconds(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return (performance.now() - startedMs) / 1_000;
}

const say = (text: string) => console.log(text);
const rate = (count: number, s: number) => `${Math.round(count / s).toLocaleString("en")}/s`;

async function store(): Promise<number> {
  return seconds(async () => {
    for (let batch = 0; batch < BATCHES; batch += 1) {
      const producerId = randomUUID();
      const entries = Array.from({ length: BATCH }, (_, index) => {
        const produced = producedEntry(index + 1);
        return { ...produced, origin: { ...produced.origin, producerId } };
      });
      await storeEntries({ insertEntries: (rows) => insertEntries(sql, rows) }, entries);
    }
  });
}

await store(); // warm
say(`storing, no keys of other days: ${rate(BATCH * BATCHES, await store())}`);

const filled = await seconds(async () => {
  for (let ago = 1; ago <= DAYS + 1; ago += 1) {
    const day = new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10);
    const next = new Date(Date.now() - (ago - 1) * 86_400_000).toISOString().slice(0, 10);
    const name = `stored_keys_${day.replaceAll("-", "_")}`;
    await owner.unsafe(
      `create table ${name} partition of stored_keys for values from ('${day}') to ('${next}')`,
    );
    await owner.unsafe(`alter table ${name} disable trigger all`);
    await owner.unsafe(`insert into ${name} (day, producer_name, producer_id, producer_sequence, id)
      select '${day}', 'gateway', gen_random_uuid(), n, gen_random_uuid() from generate_series(1, ${ROWS_A_DAY}) as n`);
  }
});
say(`${(DAYS + 1) * ROWS_A_DAY} keys of ${DAYS + 1} days made in ${filled.toFixed(0)} s`);
say(`storing beside them: ${rate(BATCH * BATCHES, await store())}`);
say(`dropping a day: ${((await seconds(() => sql`select drop_key_partitions(31)`)) * 1_000).toFixed(0)} ms`);

const claims = 5 * ROWS_A_DAY;
await owner.unsafe(`insert into claimed_emails (position, received_at, salt, address)
  select 1000000000 + n, now() - interval '400 days', sha256(n::text::bytea), 'someone.' || n || '@mail.example'
  from generate_series(1, ${claims}) as n`);
const erased = await seconds(async () => {
  for (let after: bigint | undefined = 0n; after !== undefined; ) {
    after = await deleteClaims(sql, { before: new Date(Date.now() - 86_400_000), after, limit: 5_000 });
  }
});
say(`erasing ${claims} claimed addresses: ${rate(claims, erased)}`);

await owner.unsafe(`insert into leaves (sequence, position, received_at, leaf_hash, chain_hash)
  select n, n, '2020-01-01'::timestamptz + n * interval '1 second', sha256('l'), sha256('c')
  from generate_series(1, ${5 * ROWS_A_DAY}) as n`);
const cut = { last: 5 * ROWS_A_DAY, ending: new Date("2020-02-01"), floorPosition: 10n ** 12n };
say(
  `the cut of a month among ${5 * ROWS_A_DAY} leaves: ${((await seconds(() => isCleanCut(sql, cut))) * 1_000).toFixed(1)} ms`,
);
await Promise.all([sql.end({ timeout: 1 }), owner.end({ timeout: 1 })]);
await workbench.stop();
