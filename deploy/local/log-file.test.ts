import { expect, test } from "vitest";
import { reasonIn } from "./log-file.ts";

test("the reason is the last fatal entry, else the last error, with its cause", () => {
  const error = '{"level":50,"msg":"retrying","err":{"message":"connect ECONNREFUSED"}}';
  const fatal = '{"level":60,"msg":"uncaught error","err":{"message":"no key"}}';
  expect(reasonIn(['{"level":30,"msg":"ready"}', error])).toBe("retrying: connect ECONNREFUSED");
  expect(reasonIn([fatal, error])).toBe("uncaught error: no key");
  expect(reasonIn(['{"level":"error","msg":"by name"}'])).toBe("by name");
});

test("without entries the reason is the message of the error that Node printed, without the stack", () => {
  expect(
    reasonIn(["file:///main.ts:9", "TypeError: x is undefined", "    at main.ts:9", "Node.js v24.0.0"]),
  ).toBe("TypeError: x is undefined");
});

test("a log without errors gives no reason", () => {
  expect(reasonIn([])).toBeUndefined();
  expect(reasonIn(['{"level":30,"msg":"ready"}', "{broken", "serving"])).toBeUndefined();
});
