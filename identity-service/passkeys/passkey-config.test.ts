import { expect, test } from "vitest";
import { passkeyConfigProblems, passkeyPartyOf } from "./passkey-config.ts";

const config = { PUBLIC_ORIGIN: "https://api.example.com", BRAND_NAME: "Example" };
const partyOf = (settings: object) => passkeyPartyOf({ ...config, ...settings } as never);

test("passkeys are of the pages' own host, if they have one, unless the settings name another", () => {
  expect(partyOf({})).toMatchObject({ id: "api.example.com", origins: ["https://api.example.com"] });
  const PAGES_ORIGIN = "https://id.example.com";
  expect(partyOf({ PAGES_ORIGIN })).toMatchObject({ id: "id.example.com", origins: [PAGES_ORIGIN] });
  const named = { PASSKEY_RP_ID: "example.com", PASSKEY_ORIGINS: ["https://example.com"] };
  const origins = [PAGES_ORIGIN, "https://example.com"];
  expect(partyOf({ PAGES_ORIGIN, ...named })).toMatchObject({ id: "example.com", origins });
});

test("pages outside of the passkeys' domain do not stop those of an application", () => {
  const named = { PASSKEY_RP_ID: "shop.example", PASSKEY_ORIGINS: ["https://www.shop.example"] };
  expect(partyOf(named).origins).toEqual(["https://www.shop.example"]);
  expect(passkeyConfigProblems({ ...config, ...named })).toEqual([]);
  expect(passkeyConfigProblems({ ...config, PASSKEY_RP_ID: "shop.example" })).toHaveLength(1);
});
