import { z } from "zod";
import { type RateLimit, rateLimitSchema } from "../../routes-file/routes-file.ts";

const perMinute = (calls: number): RateLimit => ({ calls, perSeconds: 60 });

/** How much of a class may be. */
export interface ClassLimits {
  /** Of one client network: an IPv4 address or an IPv6 /64; a /56 has 4 times and a /48 16 times as much. */
  address: RateLimit;
  /** Of one user. */
  user?: RateLimit;
  /** Calls of a known device on an unknown network. Further ones are counted with strangers. */
  device?: RateLimit;
  /** Calls of all strangers together: neither network nor device is known for a recent success. */
  total?: RateLimit;
}

/**
 * What is counted together, and how much of it may be. Of logins, registrations and mails identity-service counts
 * accounts and failures besides, with budgets that are smaller; what stands here is counted before anything is recorded
 * or asked of a service.
 *
 * A limit that everybody shares is an off switch for whoever can fill it. So only strangers share one, where there is
 * work to do before they have proven anything; who is let in stays out of it. Everything else is shed where it is work:
 * hashes, calls in flight and connections to databases have limits of their own.
 */
const DEFAULT_CLASSES = {
  /** With a password or a code, without a token. */
  login: { address: perMinute(300), device: perMinute(10), total: perMinute(12_000) },
  /** With a token out of a mail. */
  link: { address: perMinute(120), device: perMinute(10), total: perMinute(12_000) },
  /** On the way to an identity provider and back: three calls a login. */
  provider: { address: perMinute(300), device: perMinute(30), total: perMinute(36_000) },
  refresh: { address: perMinute(600) },
  /** Apart from what else users do: nobody is kept from ending a session. */
  logout: { address: perMinute(1_200), user: perMinute(300) },
  /** What users do once they are logged in. */
  account: { address: perMinute(1_200), user: perMinute(300) },
  admin: { address: perMinute(600), user: perMinute(600) },
  /** By services, perhaps for each of their own calls. */
  introspection: { address: perMinute(30_000) },
  /** From memory, so counted there. */
  document: { address: perMinute(600) },
  /** Paths, methods and hosts that do not exist, and browsers' preflights; likewise. */
  unknown: { address: perMinute(3_000) },
} satisfies Record<string, ClassLimits>;

export type LimitClass = keyof typeof DEFAULT_CLASSES;
export type LimitClasses = Record<LimitClass, ClassLimits>;

const ENTRY = /^([a-z]+)\.([a-z]+)=(\d{1,10})\/(\d{1,4})$/;

/**
 * Reads changes to the limits: `login.address=100/60,refresh.total=5000/1`, as calls and seconds.
 *
 * It is a schema: its problems name the entry.
 */
export const limitClassesSchema = z.string().transform((text, context): LimitClasses => {
  const classes: LimitClasses = structuredClone(DEFAULT_CLASSES);
  for (const entry of text.split(",").map((part) => part.trim())) {
    const problem = change(classes, entry);
    if (problem !== undefined) context.addIssue({ code: "custom", message: `${entry}: ${problem}` });
  }
  return classes;
});

export function defaultLimitClasses(): LimitClasses {
  return structuredClone(DEFAULT_CLASSES);
}

function change(classes: LimitClasses, entry: string): string | undefined {
  const [, name = "", scope = "", calls, perSeconds] = ENTRY.exec(entry) ?? [];
  if (calls === undefined) return "must be like login.address=100/60";
  if (!Object.hasOwn(classes, name)) return `must be of ${Object.keys(classes).join(", ")}`;
  const limits = classes[name as LimitClass];
  if (!Object.hasOwn(limits, scope)) return `must be of ${Object.keys(limits).join(", ")}`;
  const limit = { calls: Number(calls), perSeconds: Number(perSeconds) };
  if (!rateLimitSchema.safeParse(limit).success) return "must be 1 to 1000000000 calls in 1 to 3600 seconds";
  Object.assign(limits, { [scope]: limit });
  return undefined;
}
