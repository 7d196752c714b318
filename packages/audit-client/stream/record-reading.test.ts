import { expect, test } from "vitest";
import { createRepeatedRecorder, filterText } from "./record-reading.ts";

test.each([
  [{ action: "auth.login", limit: 5, resource: undefined, actor: "" }, "action=auth.login limit=5"],
  [{ action: "x resource=1" }, 'action="x resource=1"'],
  [{ action: "x", resource: "1" }, "action=x resource=1"],
  [{ action: 'x" resource="1' }, 'action="x\\" resource=\\"1"'],
  [{ from: new Date(0) }, "from=1970-01-01T00:00:00.000Z"],
  [{ actor: "operator:anna", resource: "/payments/1" }, "actor=operator:anna resource=/payments/1"],
])("the filter %j is noted as %s", (fields, text) => {
  expect(filterText(fields)).toBe(text);
});

test("what is read again is recorded again after ten minutes, and at once where the record failed", async () => {
  let nowMs = 0;
  const repeated = createRepeatedRecorder(() => nowMs);
  const recorded: string[] = [];
  const read = (key: string) => repeated(key, async () => void recorded.push(`${key} ${nowMs}`));
  await expect(repeated("a", () => Promise.reject(new Error("not recorded")))).rejects.toThrow(
    "not recorded",
  );
  for (nowMs of [0, 1, 599_999, 600_000, 600_001]) {
    await read("a");
    await read("b");
  }
  expect(recorded).toEqual(["a 0", "b 0", "a 600000", "b 600000"]);
});
