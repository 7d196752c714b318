import { afterAll, expect, test } from "vitest";
import { testGateway } from "#gateway/testing/test-gateway.ts";
import { RESERVED_PROVIDER_NAMES } from "#identity-service/oauth/oauth-provider-settings.ts";

const { app } = testGateway();
afterAll(() => app.close());

test("no provider can have the name of a path that the gateway has under /auth, and of no other", async () => {
  await app.ready();
  const tree = app.printRoutes({ commonPrefix: false });
  expect(tree).toContain(":provider");
  // The whole tree, so that the test cannot look past a branch: indented by four characters a segment.
  const path: string[] = [];
  const names = new Set<string>();
  for (const line of tree.split("\n")) {
    const [, indent = "", segment = ""] = /^([│ ]*)[├└]── (\S+)/.exec(line) ?? [];
    if (segment === "") continue;
    path.length = indent.length / 4;
    path.push(segment);
    const name = /^(?:\/v1)?\/auth\/([^/:*]+)(?:\/|$)/.exec(path.join(""))?.[1];
    if (name !== undefined) names.add(name);
  }
  expect([...names].sort()).toEqual([...RESERVED_PROVIDER_NAMES].sort());
});
