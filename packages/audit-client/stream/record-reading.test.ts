import { expect, test } from "vitest";
import { filterText } from "./record-reading.ts";

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
