import { promises } from "node:dns";
import { afterEach, expect, test, vi } from "vitest";
import { newSecret } from "../endpoints/endpoint.ts";
import { asWebhook, createSender } from "./attempt.ts";

afterEach(() => vi.restoreAllMocks());

test("the address of a receiver is asked of the name servers, not of a thread, and checked", async () => {
  const resolve4 = vi.spyOn(promises.Resolver.prototype, "resolve4").mockResolvedValue(["10.0.0.1"]);
  vi.spyOn(promises.Resolver.prototype, "resolve6").mockRejectedValue(new Error("none"));
  const target = { url: "https://hooks.example.com/", networks: ["public"] as const };
  const sender = createSender(target, asWebhook([newSecret()]));
  expect(await sender.send({ id: "id", body: "{}" })).toMatchObject({ problem: "address_refused" });
  expect(resolve4).toHaveBeenCalledWith("hooks.example.com");
  await sender.close();
});
