import { expect, test } from "vitest";
import { readExport } from "./read-export.ts";

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

test("an export up to the bound is kept whole, and one byte more of it is neither kept nor read to its end", async () => {
  const bound = (LINE + LINE + END).length;
  const sizes: number[] = [];
  const fits = await readExport(
    answering(LINE, LINE, END).response,
    "ndjson",
    (bytes) => sizes.push(bytes),
    bound,
  );
  expect([fits.whole, await fits.file?.text()]).toEqual(["whole", LINE + LINE + END]);
  expect(sizes).toEqual([LINE.length, 2 * LINE.length, bound]);

  const { response, seen } = answering(LINE, LINE, END, LINE, LINE);
  const found = await readExport(response, "ndjson", () => undefined, bound - 1);
  expect(found).toEqual({ whole: "tooLarge" });
  expect(seen).toEqual({ asked: 3, isCancelled: true });
});

test.each([
  ["ndjson", END, "whole"],
  ["ndjson", '{"end":{"entries":2,"complete":false}}\n', "more"],
  ["ndjson", LINE, "broken"],
  ["ndjson", '{"end":{"entr', "broken"],
  ["csv", "1,a\n", "unknown"],
  ["csv", '1,"a\nb', "broken"],
] as const)("%s that ends with %j is %s, and is kept only if it has its end", async (format, end, whole) => {
  const found = await readExport(answering(LINE, end).response, format, () => undefined);
  expect([found.whole, found.file === undefined]).toEqual([whole, whole === "broken"]);
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
