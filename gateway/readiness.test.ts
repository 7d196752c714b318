import { expect, test } from "vitest";
import { oncePassed } from "./readiness.ts";

test("what was once known holds a replica back no more, though the service behind it goes away", () => {
  let isThere = false;
  const check = oncePassed(() => {
    if (!isThere) throw new Error("away");
  });
  expect(check).toThrow("away");
  isThere = true;
  check();
  isThere = false;
  expect(check).not.toThrow();
});
