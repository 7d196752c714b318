import { expect, test } from "vitest";
import { z } from "zod";
import { spoolConfig } from "./audit-spool.ts";

const MIB = 1_048_576;
const parse = (values: Record<string, string>) => z.object(spoolConfig).parse(values);

test("there is no spool without a directory; a spool holds 256 MiB by default", () => {
  expect(parse({})).toEqual({ AUDIT_SPOOL_MAX_BYTES: 256 * MIB });
});

test("the directory must be an absolute path", () => {
  expect(parse({ AUDIT_SPOOL_DIRECTORY: "/var/spool" }).AUDIT_SPOOL_DIRECTORY).toBe("/var/spool");
  expect(() => parse({ AUDIT_SPOOL_DIRECTORY: "spool" })).toThrow("must be an absolute path");
});

test("the limit is between 64 MiB and 64 GiB", () => {
  const bytes = (value: number) => parse({ AUDIT_SPOOL_MAX_BYTES: String(value) }).AUDIT_SPOOL_MAX_BYTES;
  expect([bytes(64 * MIB), bytes(65_536 * MIB)]).toEqual([67_108_864, 68_719_476_736]);
  expect(() => bytes(64 * MIB - 1)).toThrow();
  expect(() => bytes(65_536 * MIB + 1)).toThrow();
});
