import { expect, test, vi } from "vitest";
import type { Sql } from "#kit/database/postgres.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import { cleanUp } from "./housekeeping.ts";

/** A fake database: each deletion returns the next count, then the last one for ever. */
function database(found: {
  sessions?: { seen: number; deleted: number }[];
  revocations?: number[];
  events?: number[];
}) {
  const looks = { sessions: 0, revocations: 0, events: 0 };
  const cursors: unknown[] = [];
  const sql = (async (strings: TemplateStringsArray, ...values: unknown[]) => {
    const text = strings.join("?");
    const table = text.includes("from sessions")
      ? "sessions"
      : text.includes("from revocations")
        ? "revocations"
        : "events";
    const index = looks[table];
    looks[table] += 1;
    if (table !== "sessions") return { count: found[table]?.[index] ?? found[table]?.at(-1) ?? 0 };
    cursors.push(values[0]);
    const page = found.sessions?.[index] ?? found.sessions?.at(-1) ?? { seen: 0, deleted: 0 };
    return [{ ...page, last: `session ${index}` }];
  }) as unknown as Sql;
  const info = vi.fn();
  const deps = { sql, assertClock: () => undefined, logger: { info } as unknown as Logger };
  return { deps, looks, cursors, info };
}

const NOTHING = "00000000-0000-0000-0000-000000000000";

test("nothing to delete is looked for once, and not logged", async () => {
  const { deps, looks, cursors, info } = database({});
  expect(await cleanUp(deps)).toBeUndefined();
  expect(looks).toEqual({ sessions: 1, revocations: 1, events: 1 });
  expect(cursors).toEqual([NOTHING]);
  expect(info).not.toHaveBeenCalled();
});

test("a backlog is deleted in batches until one is not full, and its numbers are logged", async () => {
  const { deps, looks, cursors, info } = database({
    sessions: [
      { seen: 1_000, deleted: 700 },
      { seen: 999, deleted: 5 },
    ],
    revocations: [1_000, 1_000, 3],
    events: [1_000, 0],
  });
  expect(await cleanUp(deps)).toBeUndefined();
  expect(looks).toEqual({ sessions: 2, revocations: 3, events: 2 });
  expect(cursors).toEqual([NOTHING, "session 0"]);
  expect(info).toHaveBeenCalledExactlyOnceWith(
    { sessions: 705, revocations: 2_003, events: 1_000 },
    expect.any(String),
  );
});

test("a run makes a hundred looks at each at the most, and the next run goes on where it ended", async () => {
  const { deps, looks, cursors } = database({
    sessions: [{ seen: 1_000, deleted: 0 }],
    revocations: [1_000],
    events: [1_000],
  });
  expect(await cleanUp(deps, "before")).toBe("session 99");
  expect(looks).toEqual({ sessions: 100, revocations: 100, events: 100 });
  expect(cursors[0]).toBe("before");
});

test.each([
  { sessions: [{ seen: 1, deleted: 1 }] },
  { revocations: [1] },
  { events: [1] },
  { sessions: [{ seen: 1, deleted: 1 }], revocations: [1] },
  { revocations: [1], events: [1] },
])("what was deleted is logged: %j", async (found) => {
  const { deps, info } = database(found);
  await cleanUp(deps);
  expect(info).toHaveBeenCalledTimes(1);
});
