import { expect, test } from "vitest";
import { ENTRY_COLUMNS } from "#audit-client/stream/audit-entry.ts";
import { type ExportRead, readExport } from "./read-export.ts";

const LINE = '{"id":"a"}\n';
const END = '{"end":{"entries":2,"complete":true}}\n';

/** An answer in pieces. `asked` counts those that somebody has waited for. */
function answering(...pieces: string[]) {
  const left = [...pieces];
  const seen = { asked: 0, isCancelled: false };
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const piece = left.shift();
        if (piece === undefined) return controller.close();
        seen.asked += 1;
        controller.enqueue(new TextEncoder().encode(piece));
      },
      cancel() {
        seen.isCancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  return { response: new Response(body), seen };
}

const textOf = async (read: ExportRead) => ("file" in read ? await read.file.text() : undefined);

test("CSV is made of the lines, has the columns of the API, and no cell that a spreadsheet would run", async () => {
  const line = {
    sequence: 1,
    log: 3,
    id: "a",
    actor: { userId: "u" },
    userAgent: '=cmd|"x"',
    resource: "a,b",
  };
  const found = await readExport(
    answering(`${JSON.stringify(line)}\n`, END).response,
    "csv",
    () => undefined,
  );
  const [head, row, end] = (await textOf(found))?.split("\n") ?? [];
  expect(head).toBe(ENTRY_COLUMNS.join(","));
  expect(row).toBe(`1,a,,,,,,u,,,,,"'=cmd|""x""",,,"a,b",,,,,,,,,3`);
  expect(end).toBe("");
});

test("an export of which there is more says how much it has, and where to go on", async () => {
  const end = '{"end":{"entries":1,"complete":false,"nextCursor":"c"}}\n';
  for (const format of ["ndjson", "csv"] as const)
    expect(await readExport(answering(LINE, end).response, format, () => undefined)).toMatchObject({
      whole: "more",
      entries: 1,
      nextCursor: "c",
    });
});

test("an export up to the bound is kept whole, and one byte more of it is neither kept nor read to its end", async () => {
  const bound = (LINE + LINE + END).length;
  const sizes: number[] = [];
  const fits = await readExport(
    answering(LINE, LINE, END).response,
    "ndjson",
    (bytes) => sizes.push(bytes),
    bound,
  );
  expect(fits).toMatchObject({ whole: "whole", entries: 2 });
  expect(await textOf(fits)).toBe(LINE + LINE + END);
  expect(sizes).toEqual([LINE.length, 2 * LINE.length, bound]);

  const { response, seen } = answering(LINE, LINE, END, LINE, LINE);
  const found = await readExport(response, "ndjson", () => undefined, bound - 1);
  expect(found).toEqual({ whole: "tooLarge" });
  expect(seen).toEqual({ asked: 3, isCancelled: true });
});

test.each([
  ["ndjson", LINE],
  ["ndjson", '{"end":{"entr'],
  ["csv", LINE],
  ["csv", '{"end":{"entr'],
] as const)("%s that ends with %j is broken, and not kept", async (format, end) => {
  expect(await readExport(answering(LINE, end).response, format, () => undefined)).toEqual({
    whole: "broken",
  });
});

test.each(["ndjson", "csv"] as const)("%s whose connection breaks leaves no short file", async (format) => {
  const { readable, writable } = new TransformStream<Uint8Array>();
  const writer = writable.getWriter();
  const sizes: number[] = [];
  const found = readExport(new Response(readable), format, (bytes) => sizes.push(bytes));
  await writer.write(new TextEncoder().encode(LINE));
  await writer.abort(new TypeError("network error"));
  expect([await found, sizes]).toEqual([{ whole: "interrupted" }, [LINE.length]]);
});
