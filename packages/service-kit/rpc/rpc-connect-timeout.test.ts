import net from "node:net";
import { Client, credentials } from "@grpc/grpc-js";
import { afterEach, expect, test, vi } from "vitest";
import { LIMITED_CONNECT_TIME, limitConnectTime } from "./rpc-connect-timeout.ts";

limitConnectTime();
afterEach(() => void vi.restoreAllMocks());

/** Whether a channel with these options gives its attempts to connect a limit. */
async function isLimited(options: Record<string, unknown>): Promise<boolean> {
  const connect = vi.spyOn(net, "connect");
  const client = new Client("127.0.0.1:1", credentials.createInsecure(), options);
  client.getChannel().getConnectivityState(true);
  await expect.poll(() => connect.mock.calls.length).toBeGreaterThan(0);
  client.close();
  return (connect.mock.calls as unknown as [{ signal?: AbortSignal }][]).some(([{ signal }]) => signal);
}

test("a channel that asks for it connects within a limit, and other channels of the process as before", async () => {
  expect(await isLimited({ [LIMITED_CONNECT_TIME]: 1 })).toBe(true);
  vi.restoreAllMocks();
  expect(await isLimited({})).toBe(false);
});
