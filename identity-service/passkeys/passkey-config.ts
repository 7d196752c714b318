import { z } from "zod";

const MAX_ORIGINS = 20;
/** Of a native app on Android: the SHA-256 of its signing certificate. */
const ANDROID_ORIGIN = /^android:apk-key-hash:[A-Za-z0-9_-]{43}$/;
/** Browsers take no addresses. `localhost` is for development. */
const RP_ID = /^(?:localhost|(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,62})$/;

const originsSchema = z.string().transform((text, context) => {
  const origins = text.split(",").map((entry) => entry.trim());
  if (!origins.every(isOrigin) || origins.length > MAX_ORIGINS) {
    const message = "must be a comma list of https:// origins, http://localhost, or android:apk-key-hash:";
    context.addIssue({ code: "custom", message });
  }
  return origins;
});

function isOrigin(text: string): boolean {
  if (ANDROID_ORIGIN.test(text)) return true;
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, origin } = new URL(text);
  return origin === text && (protocol === "https:" || (protocol === "http:" && hostname === "localhost"));
}

/** Refine with `passkeyConfigProblems`. */
export const passkeyConfig = {
  PASSKEY_RP_ID: z.string().max(253).regex(RP_ID, "must be a host name in lower case").optional(),
  /** Exact, comma-separated. */
  PASSKEY_ORIGINS: originsSchema.optional(),
};

type PasskeyConfig = z.output<z.ZodObject<typeof passkeyConfig>> & {
  PUBLIC_ORIGIN: string;
  PAGES_ORIGIN?: string | undefined;
};

/** Browsers refuse an origin outside of the relying party's domain (WebAuthn Level 3 §5.1.3 step 8). */
export function passkeyConfigProblems(
  config: PasskeyConfig,
): { key: keyof typeof passkeyConfig; message: string }[] {
  // The public origin alone may be an address: then no browser offers passkeys.
  if (config.PASSKEY_RP_ID === undefined && config.PASSKEY_ORIGINS === undefined) return [];
  const { id, origins } = passkeyPartyOf({ ...config, BRAND_NAME: "" });
  return origins
    .filter((origin) => !ANDROID_ORIGIN.test(origin) && !isWithin(new URL(origin).hostname, id))
    .map((origin) => ({ key: "PASSKEY_ORIGINS", message: `${origin} is outside of the domain ${id}` }));
}

function isWithin(host: string, domain: string): boolean {
  return host === domain || host.endsWith(`.${domain}`);
}

export function passkeyPartyOf(
  config: PasskeyConfig & { MFA_ISSUER?: string | undefined; BRAND_NAME: string },
): PasskeyParty {
  const { PAGES_ORIGIN: own = config.PUBLIC_ORIGIN, PASSKEY_ORIGINS: named } = config;
  const id = config.PASSKEY_RP_ID ?? new URL(own).hostname;
  // Who names the origin of an application keeps the passkeys of the account portal.
  const isOwnUsable = isOrigin(own) && isWithin(new URL(own).hostname, id);
  const origins = named === undefined || isOwnUsable ? [own] : [];
  return {
    id,
    name: config.MFA_ISSUER ?? config.BRAND_NAME,
    origins: [...new Set([...origins, ...(named ?? [])])],
  };
}

/** The relying party (WebAuthn Level 3 §4). */
export interface PasskeyParty {
  /** A host name. */
  id: string;
  /** For people. */
  name: string;
  /** Matched exactly. */
  origins: readonly string[];
}
