import { expect, test } from "vitest";
import { databaseHosts } from "./database-hosts.ts";

const one = (text: string) => databaseHosts(text)?.map(({ href }) => href);

test.each([
  ["postgres://r@db/identity", ["postgres://r@db/identity"]],
  ["postgresql://r@db:5433/identity", ["postgresql://r@db:5433/identity"]],
  ["postgres://db/identity", ["postgres://db/identity"]],
  ["postgres://r@a:1,b,[::1]:3/d", ["postgres://r@a:1/d", "postgres://r@b/d", "postgres://r@[::1]:3/d"]],
  ["postgres://r%2C@a,b/d", ["postgres://r%2C@a/d", "postgres://r%2C@b/d"]],
])("%s names %j", (text, urls) => {
  expect(one(text)).toEqual(urls);
});

test.each([
  "mysql://r@a/d",
  "postgres://r@a:1,b:x/d",
  "postgres://r@a,,b/d",
  "postgres://r@a,/d",
  "postgres://r@a,b@c/d",
  "postgres://r@a@b/d",
  "r@a/d",
  `postgres://r@${Array(9).fill("a").join(",")}/d`,
])("%s is refused", (text) => {
  expect(one(text)).toBeUndefined();
});
