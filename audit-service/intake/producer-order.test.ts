import { expect, test } from "vitest";
import { createProducerOrder } from "./producer-order.ts";

const PRODUCER = "0190b6a0-0000-4000-8000-0000000000aa";
const message = (...sequences: number[]) => ({
  producerId: PRODUCER,
  entries: sequences.map((sequence) => ({ sequence })),
});

test("the last sequence of a message acknowledges it and all before it", () => {
  const order = createProducerOrder();
  expect(order.accept(message())).toBe(0);
  expect(order.accept(message(5, 6))).toBe(6); // a reconnect begins at the first unacknowledged
  expect(order.accept(message())).toBe(6);
  expect(order.accept(message(7))).toBe(7);
});

test.each([
  ["a gap", [1, 3], "entries.sequence"],
  ["a repetition", [1, 1], "entries.sequence"],
  ["a step back", [2, 1], "entries.sequence"],
  ["a sequence below 1", [0], "entries.sequence"],
])("%s is refused", (_name, sequences, field) => {
  expect(() => createProducerOrder().accept(message(...sequences))).toThrowError(
    expect.objectContaining({ code: "validation_failed", fields: [expect.objectContaining({ field })] }),
  );
});

test("a gap between two messages is refused", () => {
  const order = createProducerOrder();
  order.accept(message(1, 2));
  expect(() => order.accept(message(4))).toThrowError(expect.objectContaining({ code: "validation_failed" }));
});

test("200 entries are accepted, 201 refused", () => {
  const count = (length: number) => Array.from({ length }, (_, index) => index + 1);
  expect(createProducerOrder().accept(message(...count(200)))).toBe(200);
  expect(() => createProducerOrder().accept(message(...count(201)))).toThrowError(
    expect.objectContaining({ code: "validation_failed" }),
  );
});

test.each(["", "me", `${PRODUCER}0`, "0190b6a0-0000-4000-8000-0000000000ag"])(
  "producer %j is refused",
  (producerId) => {
    expect(() => createProducerOrder().accept({ producerId, entries: [] })).toThrowError(
      expect.objectContaining({ code: "validation_failed" }),
    );
  },
);

test("a second producer on a stream is refused", () => {
  const order = createProducerOrder();
  order.accept(message(1));
  const other = { producerId: "0190b6a0-0000-4000-8000-0000000000bb", entries: [{ sequence: 2 }] };
  expect(() => order.accept(other)).toThrowError(expect.objectContaining({ code: "validation_failed" }));
});
