import { expect, test } from "vitest";
import { createProgress } from "./progress.ts";

const CLEARED = "\r\x1b[K";

function watch({ columns, flags = [] }: { columns?: number; flags?: string[] } = {}) {
  const written: string[] = [];
  const clock = { ms: 5_000 };
  const terminal = {
    writeError: (text: string) => void written.push(text),
    columns: () => columns,
  };
  const progress = createProgress(terminal, new Set(flags), "users", () => clock.ms);
  return { progress, written, clock };
}

test("a terminal has one line of at most four states a second, removed at the end", () => {
  const { progress, written, clock } = watch({ columns: 80 });
  for (let done = 0; done <= 1_000; done += 10) {
    progress.show(done, 4_000);
    clock.ms += 10;
  }
  expect(written).toEqual([
    `${CLEARED}250 of 4,000 users (6 %), 1,000/s, 0:04 left`,
    `${CLEARED}500 of 4,000 users (12 %), 1,000/s, 0:04 left`,
    `${CLEARED}750 of 4,000 users (18 %), 1,000/s, 0:03 left`,
    `${CLEARED}1,000 of 4,000 users (25 %), 1,000/s, 0:03 left`,
  ]);
  progress[Symbol.dispose]();
  clock.ms += 60_000;
  progress.show(2_000, 4_000);
  expect(written.slice(4)).toEqual([CLEARED]);
});

test("elsewhere there is a line every ten seconds, and none for work that ends sooner", () => {
  const { progress, written, clock } = watch();
  for (let second = 0; second < 10; second += 1) {
    progress.show(second * 7, 0);
    clock.ms += 1_000;
  }
  expect(written).toEqual([]);
  progress.show(70, 0);
  clock.ms += 9_999;
  progress.show(71, 0);
  progress[Symbol.dispose]();
  expect(written).toEqual(["70 users, 7/s\n"]);
});

test.each([
  { flags: ["quiet"], columns: 80, lines: 0 },
  { flags: ["quiet"], lines: 0 },
  { flags: ["json"], columns: 80, lines: 1 },
  { flags: ["json"], lines: 0 },
])("with $flags and a terminal of $columns columns there are $lines lines", ({ lines, ...options }) => {
  const { progress, written, clock } = watch(options);
  progress.show(0, 10);
  clock.ms += 60_000;
  progress.show(5, 10);
  progress[Symbol.dispose]();
  expect(written.filter((text) => text !== CLEARED)).toHaveLength(lines);
});

test("the line is narrower than a terminal, also after the window became smaller", () => {
  const options = { columns: 30 };
  const written: string[] = [];
  const terminal = { writeError: (text: string) => void written.push(text), columns: () => options.columns };
  let ms = 0;
  using progress = createProgress(terminal, new Set(), "entries", () => ms);
  for (const columns of [30, 12]) {
    options.columns = columns;
    progress.show(ms, 9_999_999);
    ms += 1_000;
    progress.show(ms, 9_999_999);
  }
  expect(written).toEqual([`${CLEARED}1,000 of 9,999,999 entries (0`, `${CLEARED}2,000 of 9,`]);
});

test("the time left follows the rate of the last seconds, and is missing while nothing is done", () => {
  const { progress, written, clock } = watch();
  const at = (second: number, done: number) => {
    clock.ms = second * 1_000;
    progress.show(done, 100_000);
  };
  // What a resumed import skips does not count.
  at(0, 40_000);
  at(10, 41_000);
  expect(written.at(-1)).toBe("41,000 of 100,000 users (41 %), 100/s, 9:50 left\n");
  at(20, 51_000);
  at(30, 61_000);
  at(40, 71_000);
  expect(written.at(-1)).toBe("71,000 of 100,000 users (71 %), 971/s, 0:30 left\n");
  for (let second = 50; second <= 300; second += 10) at(second, 71_000);
  expect(written.at(-1)).toBe("71,000 of 100,000 users (71 %), 0/s\n");
});

test("hours are shown, and a rate below one", () => {
  const { progress, written, clock } = watch();
  progress.show(0, 3_000);
  clock.ms += 10_000;
  progress.show(5, 3_000);
  expect(written).toEqual(["5 of 3,000 users (0 %), 0.5/s, 1:39:50 left\n"]);
});

test("of a file the total is estimated from what was read, and unknown before", () => {
  const { progress, written, clock } = watch();
  const at = (done: number, bytesRead: number, size = 1_000_000) => {
    clock.ms += 10_000;
    progress.showOfFile(done, bytesRead, size);
  };
  at(0, 0);
  at(100, 0);
  at(1_000, 200_000);
  at(1_500, 200_000);
  at(5_500, 1_000_000);
  expect(written.map((line) => line.replace(/,[^,]*\/s/, ""))).toEqual([
    "100 users\n",
    expect.stringMatching(/^1,000 of about 5,000 users \(20 %\), \d:\d\d left\n$/),
    expect.stringMatching(/^1,500 of about 5,000 users \(30 %\), \d:\d\d left\n$/),
    "5,500 of about 5,500 users (100 %), 0:00 left\n",
  ]);
  const pipe = watch();
  pipe.progress.showOfFile(0, 0, 0);
  pipe.clock.ms += 10_000;
  pipe.progress.showOfFile(100, 500, 0);
  expect(pipe.written).toEqual(["100 users, 10/s\n"]);
});
