import { z } from "zod";
import { type RateLimit, rateLimitSchema } from "#routes-file/routes-file.ts";

const perMinute = (calls: number): RateLimit => ({ calls, perSeconds: 60 });

export interface ClassLimits {
  /** For an IPv4 address or IPv6 /64, 4 times for a /56 and 16 times for a /48. */
  address: RateLimit;
  user?: RateLimit;
  /** Applies to a known device on an unknown network. Further calls count as strangers'. */
  device?: RateLimit;
  /** For all strangers together: no recent success of their network or device. */
  total?: RateLimit;
}

/**
 * Counted before any other work. identity-service also counts accounts and failures, with smaller limits.
 * A limit that all callers share lets one of them shut out the others. So only strangers share one, where a
 * call costs work before it is authenticated.
 */
const DEFAULT_CLASSES = {
  /** Calls that carry a password or a code. */
  login: { address: perMinute(300), device: perMinute(10), total: perMinute(12_000) },
  /** Calls that carry a token of a mail. */
  link: { address: perMinute(120), device: perMinute(10), total: perMinute(12_000) },
  /** At identity providers: three calls a login. */
  provider: { address: perMinute(300), device: perMinute(30), total: perMinute(36_000) },
  refresh: { address: perMinute(600) },
  /** Separate, so that a session can always be ended. */
  logout: { address: perMinute(1_200), user: perMinute(300) },
  /** With an access token. */
  account: { address: perMinute(1_200), user: perMinute(300) },
  admin: { address: perMinute(600), user: perMinute(600) },
  /** By clients, for tokens, and by providers with security events. identity-service bounds failures before it checks a signature. */
  client: { address: perMinute(1_200) },
  /** By services, possibly for each of their own calls. */
  introspection: { address: perMinute(30_000) },
  /** Served and counted in memory. */
  document: { address: perMinute(600) },
  /** The pages of `web/` and their files: about ten for the first one. Served and counted in memory. */
  page: { address: perMinute(3_000) },
  /** Unknown paths, methods and hosts, and preflights; counted in memory. */
  unknown: { address: perMinute(3_000) },
} satisfies Record<string, ClassLimits>;

export type LimitClass = keyof typeof DEFAULT_CLASSES;
export type LimitClasses = Record<LimitClass, ClassLimits>;

const ENTRY = /^([a-z]+)\.([a-z]+)=(\d{1,10})\/(\d{1,4})$/;

/** `login.address=100/60,refresh.total=5000/1`, as calls and seconds. */
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
