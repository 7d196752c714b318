/**
 * A token-service that starts with a million live entries in the revocation log, besides as many that have ended; a
 * fail-over that loses some; and a verifier that reads all of them from the stream.
 *
 *   npm run bench:revocation-log -- [entries]
 */
import { pino } from "pino";
import { transaction } from "../service-kit/postgres.ts";
import { createMemoryBell } from "../token-service/revocation-bell.ts";
import { RevocationFeed } from "../token-service/revocation-feed.ts";
import { LOG_BEGIN, readRevocations } from "../token-service/revocation-store.ts";
import { startWorkbench } from "./support/workbench.ts";

const ENTRIES = Number(process.argv[2] ?? "1000000");
const LOST = 100;
const MAX_START_S = 10;
const MAX_LAG_MS = 3_000;

const bench = await startWorkbench();
const owner = await bench.connectOwner("token-service");
await owner`
  insert into revocations (sequence, session_id, expires_at)
  select n, gen_random_uuid(), now() + case when n <= ${ENTRIES}::integer then interval '-30 minutes' else interval '30 minutes' end
  from generate_series(1, 2 * ${ENTRIES}::integer) as n`;
await owner`update revocation_head set sequence = 2 * ${ENTRIES}::integer`;
await owner`analyze`;

const sql = await bench.connect("token-service", 10, { statement_timeout: "2000" });
const feed = new RevocationFeed({
  read: (known) => transaction(sql, (tx) => readRevocations(tx, known, 3_670)),
  bell: createMemoryBell(),
  logger: pino({ level: "silent" }),
  accessTtlS: 3_600,
  onKeyRevoked: () => undefined,
  onKeys: () => undefined,
});
const megabytes = () => Math.round(process.memoryUsage().rss / 1_048_576);
const before = megabytes();
const startedMs = performance.now();
await feed.start();
const startS = (performance.now() - startedMs) / 1_000;
console.log(
  `${ENTRIES} live entries and as many ended: read in ${startS.toFixed(1)} s, ${megabytes() - before} MB`,
);

await owner`update revocations set tip = gen_random_uuid(), session_id = gen_random_uuid() where sequence > 2 * ${ENTRIES}::integer - ${LOST}::integer`;
const lostMs = performance.now();
await feed.refresh();
const rereadMs = performance.now() - lostMs;
console.log(`after a fail-over that lost ${LOST} of them: read again in ${rereadMs.toFixed(0)} ms`);

const watchMs = performance.now();
let sent = 0;
for await (const { revocations, caughtUp } of feed.watch(LOG_BEGIN, new AbortController().signal)) {
  sent += revocations.length;
  if (caughtUp) break;
}
console.log(`${sent} entries for a watcher: ${((performance.now() - watchMs) / 1_000).toFixed(1)} s`);

feed.stop();
await Promise.all([sql.end(), owner.end()]);
await bench.stop();
const isKept = startS < MAX_START_S && rereadMs < MAX_LAG_MS && sent === ENTRIES;
const promise = `a start within ${MAX_START_S} s, and after a fail-over no silence of ${MAX_LAG_MS / 1_000} s`;
console.log(isKept ? `promise kept: ${promise}` : `PROMISE BROKEN: ${promise}`);
process.exit(isKept ? 0 : 1);
