import { mkdir, mkdtemp, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { type FollowedLogs, startFollowedLogs } from "#tests/support/system/followed-logs.ts";
import { provenSegments, readFolder } from "#tests/support/system/proven-segments.ts";
import { HOW_TO_MOUNT, openSmallDisk } from "#tests/support/system/small-disk.ts";
import { CollectorProblem } from "./collector.ts";
import { openBucket } from "./segment-bucket.ts";
import { openFolder } from "./segment-folder.ts";
import { type Bucket, startBucket } from "./segments.fixture.ts";
import { openSegmentCollector, type SegmentPlace } from "./segments.ts";
import { type Siem, startSiem } from "./siem.fixture.ts";

const MAX_ENTRIES = 100;
const A_DAY = 86_400;

let certificates: TestCertificates;
let database: TestDatabase;
let logs: FollowedLogs;
let folder: string;
let bucket: Bucket;
let started: Siem[];

beforeAll(async () => {
  certificates = await createTestCertificates();
});
afterAll(() => certificates.remove());

beforeEach(async () => {
  database = await createTestDatabase("event-service");
  logs = await startFollowedLogs(certificates);
  folder = await mkdtemp(join(tmpdir(), "gatehouse-segments-"));
  bucket = await startBucket();
  started = [];
});
afterEach(async () => {
  bucket.close();
  await Promise.all(started.map((siem) => siem.stop()));
  await logs.close();
  await database.drop();
  await rm(folder, { recursive: true });
});

interface Options {
  place?: SegmentPlace;
  maxSeconds?: number;
  now?: () => Date;
}

async function replica({ place, maxSeconds = 0, now = () => new Date() }: Options = {}): Promise<Siem> {
  const { client } = logs;
  const siem = startSiem({ sql: database.sql, logs: client }, "segments", (reader, lease) =>
    openSegmentCollector({
      ...{ sql: database.sql, lease, reader, now, maxSeconds, maxEntries: MAX_ENTRIES },
      ...{ exportLog: client.exportLog, place: place ?? openFolder(folder) },
    }),
  );
  started.push(siem);
  await siem.start();
  return siem;
}

const s3 = (): SegmentPlace =>
  openBucket({
    ...{ url: bucket.url, region: "eu-central-1", ca: undefined, now: () => new Date() },
    credentials: () => ({ accessKeyId: "AKIAEXAMPLE", secretAccessKey: "not-a-secret" }),
  });

async function stored() {
  const [row] = await database.ownerSql<{ places: object; problem: string }[]>`
    select places, problem from siem_collectors
  `;
  return row;
}
const proven = async () => provenSegments(await readFolder(folder), logs.verifierKey);

/** The first time that something is written under a name like this, it happens instead. */
function failing(name: RegExp, happens: (write: () => Promise<void>) => Promise<void>): SegmentPlace {
  const place = openFolder(folder);
  let isFirst = true;
  return {
    ...place,
    async write(written, bytes, signal) {
      const write = () => place.write(written, bytes, signal);
      if (!isFirst || !name.test(written)) return write();
      isFirst = false;
      return happens(write);
    },
  };
}

test("each log is stored in segments that follow each other, and the verifier proves each of them", async () => {
  await logs.add(250);
  await logs.add(30, 7);
  await replica();
  await expect.poll(stored).toMatchObject({ places: { 0: 250, 7: 30 }, problem: "" });
  await logs.add(5);
  await expect.poll(stored).toMatchObject({ places: { 0: 255, 7: 30 } });
  const segments = await proven();
  expect(segments.filter((segment) => /^[07]:1-/.test(segment))).toHaveLength(2);
  expect(segments.at(-2)).toBe("0:251-255");
  expect(segments.at(-1)).toBe("7:1-30");
  const names = [...(await readFolder(folder)).keys()];
  expect(names.slice(0, 2)).toEqual(["000/0000000000000001.jsonl", "000/0000000000000001.manifest.json"]);
});

test("few entries wait for others until the first is old", async () => {
  await logs.add(5);
  const clock = { aheadS: 0 };
  const now = () => new Date(Date.now() + clock.aheadS * 1_000);
  const siem = await replica({ maxSeconds: A_DAY, now });
  await expect.poll(() => siem.collectors.lags).toMatchObject([{ entries: 5 }]);
  await logs.add(MAX_ENTRIES + 1, 7);
  await expect.poll(stored).toMatchObject({ places: { 7: MAX_ENTRIES + 1 } });
  expect(await stored()).not.toMatchObject({ places: { 0: 5 } });
  clock.aheadS = A_DAY + 60;
  await expect.poll(stored).toMatchObject({ places: { 0: 5 } });
  expect(await proven()).toContain("0:1-5");
});

test.each([
  ["before the segment is there", /21\.jsonl$/, false],
  ["before its manifest is there", /21\.manifest\.json$/, false],
  ["before the place is stored", /21\.manifest\.json$/, true],
])(
  "a run that ends %s has begun what the next one finishes with the same end",
  async (_, name, isWritten) => {
    await logs.add(20);
    const died = Promise.withResolvers<void>();
    const place = failing(name, async (write) => {
      if (isWritten) await write();
      died.resolve();
      // It is killed here: nothing of it follows.
      await new Promise(() => undefined);
    });
    const one = await replica({ place });
    await expect.poll(stored).toMatchObject({ places: { 0: 20 } });
    await logs.add(20);
    await died.promise;
    await one.freeze();
    started.length = 0;
    const before = await readFolder(folder);
    await writeFile(join(folder, ".unfinished", "of-the-killed"), "half");
    // A new end would be 70.
    await logs.add(30);
    await database.ownerSql`update siem_collectors set leased_until = now()`;
    await replica();
    await expect.poll(stored).toMatchObject({ places: { 0: 70 } });
    expect(await proven()).toEqual(["0:1-20", "0:21-40", "0:41-70"]);
    const after = await readFolder(folder);
    for (const [written, bytes] of before) {
      if (!written.startsWith(".")) expect(after.get(written)).toEqual(bytes);
    }
    expect(await readdir(join(folder, ".unfinished"))).toEqual([]);
  },
);

test("a run that lost its lease plans nothing and stores nothing", async () => {
  await logs.add(10);
  const [reached, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const place = failing(/\.jsonl$/, async (write) => {
    reached.resolve();
    await held.promise;
    await write();
  });
  const one = await replica({ place });
  await reached.promise;
  await one.freeze();
  await database.ownerSql`update siem_collectors set leased_until = now()`;
  await replica();
  await expect.poll(stored).toMatchObject({ places: { 0: 10 } });
  await logs.add(10);
  await expect.poll(stored).toMatchObject({ places: { 0: 20 } });
  const planned = await database.ownerSql`select * from siem_segments`;
  const manifest = join(folder, "000/0000000000000001.manifest.json");
  const { ino } = await stat(manifest);
  held.resolve();
  await expect.poll(() => one.collectors.lags).toEqual([]);
  expect(await stored()).toMatchObject({ places: { 0: 20 } });
  expect(await database.ownerSql`select * from siem_segments`).toEqual(planned);
  expect(await stat(manifest)).toMatchObject({ ino });
  expect(await proven()).toEqual(["0:1-10", "0:11-20"]);
});

test("after the loss of its database it goes on behind what is there; another log's manifest is a problem", async () => {
  await logs.add(20);
  const one = await replica();
  await expect.poll(stored).toMatchObject({ places: { 0: 20 } });
  await one.stop();
  await logs.add(10);
  await database.ownerSql`delete from siem_collectors`;
  await database.ownerSql`delete from siem_segments`;
  const before = await readFolder(folder);
  const two = await replica();
  await expect.poll(stored).toMatchObject({ places: { 0: 30 } });
  expect(await proven()).toEqual(["0:1-20", "0:21-30"]);
  for (const [name, bytes] of before) expect((await readFolder(folder)).get(name)).toEqual(bytes);
  await two.stop();
  const foreign = { first: 31, last: 35, checkpoint: "another" };
  await writeFile(join(folder, "000/0000000000000031.manifest.json"), JSON.stringify(foreign));
  await logs.add(10);
  await replica();
  await expect
    .poll(stored)
    .toMatchObject({ problem: "000/0000000000000031.manifest.json is of another log", places: { 0: 30 } });
});

test("a log whose beginning retention has removed begins later, in segments that say so", async () => {
  await logs.addAfterRemoved(30, 20);
  await replica();
  await expect.poll(stored).toMatchObject({ places: { 0: 50 }, problem: "" });
  expect(await proven()).toEqual(["0:31-50"]);
  const [, segment] = [...(await readFolder(folder))][0] ?? [];
  expect(segment?.toString()).toContain('{"type":"removal"');
});

test("a folder that is away is a problem and not made; it goes on when it is back", async () => {
  const away = `${folder}-away`;
  await rename(folder, away);
  await logs.add(10);
  await replica();
  await expect.poll(stored).toMatchObject({ problem: "folder: ENOENT", places: {} });
  await rename(away, folder);
  await expect.poll(stored).toMatchObject({ problem: "", places: { 0: 10 } });
  expect(await proven()).toEqual(["0:1-10"]);
});

test("a full disk is a problem, and loses nothing", async ({ skip }) => {
  const disk = await openSmallDisk();
  if (disk === undefined) {
    process.stderr.write(HOW_TO_MOUNT);
    return skip();
  }
  try {
    const root = join(disk.path, "siem");
    await mkdir(root);
    await disk.fill();
    await logs.add(50);
    const siem = await replica({ place: openFolder(root) });
    await expect.poll(stored).toMatchObject({ problem: "folder: ENOSPC", places: {} });
    await disk.free();
    await expect.poll(stored).toMatchObject({ problem: "", places: { 0: 50 } });
    await siem.stop();
    expect(await provenSegments(await readFolder(root), logs.verifierKey)).toEqual(["0:1-50"]);
  } finally {
    await disk.remove();
  }
});

test("what a bucket refuses, or is cut off, is a problem that is shown and tried again", async () => {
  bucket.answer((_, response) => response.writeHead(403).end("<Error><Code>AccessDenied</Code></Error>"));
  await logs.add(20);
  await replica({ place: s3() });
  await expect.poll(stored).toMatchObject({ problem: "status 403 AccessDenied", places: {} });
  for (const [status, code] of [
    [404, "NoSuchBucket"],
    [503, "SlowDown"],
    [500, "InternalError"],
  ] as const) {
    bucket.answer((_, response) => response.writeHead(status).end(`<Error><Code>${code}</Code></Error>`));
    await expect.poll(stored).toMatchObject({ problem: `status ${status} ${code}` });
  }
  bucket.answer((_, response) => response.destroy());
  await expect.poll(stored).toMatchObject({ problem: "unreachable", places: {} });
  bucket.answer((_, response) => response.writeHead(301, { location: "http://127.0.0.1:1" }).end());
  await expect.poll(stored).toMatchObject({ problem: "redirect" });
  bucket.answer();
  await expect.poll(stored).toMatchObject({ problem: "", places: { 0: 20 } });
  expect(await provenSegments(bucket.objects, logs.verifierKey)).toEqual(["0:1-20"]);
  const put = bucket.requests.findLast(({ method }) => method === "PUT");
  expect(put).toMatchObject({
    path: "/audit/gatehouse/000/0000000000000001.manifest.json",
    headers: {
      authorization: expect.stringMatching(
        /^AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE\/\d{8}\/eu-central-1\/s3\/aws4_request, SignedHeaders=host;x-amz-checksum-sha256;x-amz-content-sha256;x-amz-date, Signature=[\da-f]{64}$/,
      ),
    },
  });
});

test("a segment whose manifest the bucket did not take is written again, the same", async () => {
  await logs.add(20);
  bucket.answer(({ method, url = "" }, response) =>
    method === "PUT" && url.endsWith(".manifest.json") ? response.writeHead(503).end() : undefined,
  );
  await replica({ place: s3() });
  await expect.poll(stored).toMatchObject({ problem: "status 503", places: {} });
  const written = bucket.objects.get("000/0000000000000001.jsonl");
  await logs.add(20);
  bucket.answer();
  await expect.poll(stored).toMatchObject({ places: { 0: 40 } });
  expect(bucket.objects.get("000/0000000000000001.jsonl")).toEqual(written);
  expect(await provenSegments(bucket.objects, logs.verifierKey)).toEqual(["0:1-20", "0:21-40"]);
});

test("a log that is shorter than it was is a problem, and does not hold back the others", async () => {
  await logs.add(20);
  const one = await replica();
  await expect.poll(stored).toMatchObject({ places: { 0: 20 } });
  await one.stop();
  await database.ownerSql`update siem_collectors set places = '{"0": 30}'`;
  await logs.add(5, 7);
  await replica();
  await expect.poll(stored).toMatchObject({ places: { 0: 30, 7: 5 } });
  await expect.poll(stored).toMatchObject({ problem: "log 0 is shorter than it was" });
});

test("a folder's file that cannot be written names the system's code alone", async () => {
  await writeFile(join(folder, "000"), "");
  const write = openFolder(folder).write("000/1.jsonl", Buffer.from("x"), new AbortController().signal);
  await expect(write).rejects.toThrow(new CollectorProblem("folder: ENOTDIR"));
});
