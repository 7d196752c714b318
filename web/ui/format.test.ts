import { expect, test } from "vitest";
import { fullName } from "./format.ts";

test("one name is shown without a space", () => {
  expect(fullName({ firstName: "Suharto", lastName: "" })).toBe("Suharto");
  expect(fullName({ firstName: "Ada", lastName: "Lovelace" })).toBe("Ada Lovelace");
});
