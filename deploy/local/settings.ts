import { resolve } from "node:path";
import { z } from "zod";
import { checkPassword, commonPasswords } from "#identity-service/passwords/password-policy.ts";
import { canonicalEmail } from "#kit/values/canonical-email.ts";
import { DomainError } from "#kit/values/errors.ts";
import { LaunchError } from "./launch-error.ts";
import { writePrivateFile } from "./private-file.ts";
import type { ServiceSettings } from "./service-settings.ts";

const MIN_PASSWORD_CHARACTERS = 8;

const port = (fallback: number) =>
  z
    .string()
    .regex(/^\d{1,5}$/, "must be a port, 1 to 65535")
    .transform(Number)
    .pipe(z.number().min(1).max(65_535))
    .default(fallback);

/** All on loopback, and below 32768, where Linux takes the ports of outgoing connections from. */
const portSettings = {
  GATEWAY_PORT: port(8080),
  GATEWAY_OPERATIONS_PORT: port(9080),
  IDENTITY_PORT: port(15_051),
  IDENTITY_HEALTH_PORT: port(15_061),
  IDENTITY_OPERATIONS_PORT: port(9081),
  TOKEN_PORT: port(15_052),
  TOKEN_HEALTH_PORT: port(15_062),
  TOKEN_OPERATIONS_PORT: port(9082),
  AUDIT_PORT: port(15_053),
  AUDIT_HEALTH_PORT: port(15_063),
  AUDIT_OPERATIONS_PORT: port(9083),
  EVENT_PORT: port(15_054),
  EVENT_HEALTH_PORT: port(15_064),
  EVENT_OPERATIONS_PORT: port(9085),
  PAYMENTS_PORT: port(8081),
  PAYMENTS_OPERATIONS_PORT: port(9084),
  POSTGRES_PORT: port(15_432),
  SMTP_PORT: port(1025),
  MAILBOX_PORT: port(1080),
  DEMO_PROVIDER_PORT: port(8090),
};

export type PortName = keyof typeof portSettings;
const portNames = Object.keys(portSettings) as PortName[];

const isText = ({ value }: { value: unknown }) => typeof value === "string";

/** The services take none of a driver's many parameters. */
const serverUrl = (protocol: RegExp) =>
  z
    .url({ protocol })
    .refine((text) => !text.includes("?"), {
      message: "takes no parameters: for TLS name a CA file",
      when: isText,
    })
    .refine(isDecodable, { message: "has a % that begins no character: write it as %25", when: isText });

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

export const settingsSchema = z.object({
  ...portSettings,
  GATEHOUSE_HOME: z.string().min(1).optional(),
  GATEHOUSE_ADMIN_EMAIL: z
    .email()
    .refine((text) => canonicalEmail(text) !== undefined, "is not an address that can be registered")
    .default("admin@gatehouse.example"),
  GATEHOUSE_ADMIN_PASSWORD: z
    .string()
    .refine((text) => text === text.trim() && !/[\r\n]/.test(text), "must be one line without outer spaces")
    .optional(),
  GATEHOUSE_POSTGRES_URL: serverUrl(/^postgres(?:ql)?$/).optional(),
  GATEHOUSE_POSTGRES_PASSWORD_FILE: z.string().optional(),
  GATEHOUSE_POSTGRES_CA_FILE: z.string().optional(),
  GATEHOUSE_REDIS_URL: serverUrl(/^rediss?$/).optional(),
  GATEHOUSE_REDIS_PASSWORD_FILE: z.string().optional(),
  GATEHOUSE_REDIS_CA_FILE: z.string().optional(),
  GATEHOUSE_PLAINTEXT: z.enum(["true", "false"]).default("false"),
  BREACH_LIST_FILE: z.string().min(1).optional(),
  /** identity-service validates them. */
  MFA_REQUIRED_ROLES: z.string().optional(),
  TRUSTED_DEVICE_DAYS: z.string().optional(),
  /** So do gateway and identity-service. */
  BRAND_NAME: z.string().optional(),
  BRAND_COLOR: z.string().optional(),
  SUPPORT_URL: z.string().optional(),
  /** The gateway validates it. */
  ALLOWED_ORIGINS: z.string().optional(),
  PORTAL_RETURN_TO: z.string().optional(),
  CALL_BUDGET_MS: z.string().optional(),
  WEB: z.enum(["on", "off"]).default("on"),
  LOG_LEVEL: z.enum(["fatal", "error", "warn", "info", "debug", "trace"]).default("info"),
  OTEL_EXPORTER_OTLP_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
});

type Parsed = z.infer<typeof settingsSchema>;

/** `home` is absolute. */
export type Settings = Omit<z.infer<typeof settingsSchema>, "GATEHOUSE_HOME"> & {
  home: string;
  services: ServiceSettings;
};

/**
 * Empty variables count as unset.
 * @param root contains the default home, `.gatehouse`.
 * @throws {LaunchError} 78 with all invalid variables. Their values are not shown, because one may be a password.
 */
export function readSettings(
  environment: NodeJS.ProcessEnv,
  root: string,
  more: { services: ServiceSettings; problems: readonly string[] } = { services: {}, problems: [] },
): Settings {
  const given = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ""));
  const parsed = settingsSchema.safeParse(given);
  const problems = parsed.error?.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`) ?? [];
  problems.push(...more.problems);
  problems.push(...portsUsedTwice(given));
  if (parsed.success) problems.push(...passwordProblems(parsed.data));
  if (!parsed.success || problems.length > 0) {
    const lines = problems.map((problem) => `\n  ${problem}`).join("");
    throw new LaunchError(`Invalid settings:${lines}`, { exitCode: 78 });
  }
  const { GATEHOUSE_HOME, ...settings } = parsed.data;
  const WEB = more.services.gateway?.WEB === "off" ? "off" : settings.WEB;
  return {
    ...settings,
    WEB,
    home: resolve(GATEHOUSE_HOME ?? resolve(root, ".gatehouse")),
    services: more.services,
  };
}

/** identity-service has the same rules, but its refusal would leave no administrator. */
function passwordProblems({ GATEHOUSE_ADMIN_EMAIL: email, GATEHOUSE_ADMIN_PASSWORD: password }: Parsed) {
  if (password === undefined) return [];
  const common = commonPasswords(MIN_PASSWORD_CHARACTERS);
  try {
    checkPassword({ minLength: MIN_PASSWORD_CHARACTERS, common }, password, canonicalEmail(email) ?? email);
    return [];
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    return [`GATEHOUSE_ADMIN_PASSWORD or GATEHOUSE_ADMIN_EMAIL: ${error.message}`];
  }
}

export function settingsPorts(settings: Settings): { name: PortName; port: number }[] {
  const isUsed = (name: PortName) =>
    name !== "POSTGRES_PORT" || settings.GATEHOUSE_POSTGRES_URL === undefined;
  return portNames.filter(isUsed).map((name) => ({ name, port: settings[name] }));
}

/** The CLI may run with other variables. */
export async function writePorts(home: { portsFile: string }, settings: Settings): Promise<void> {
  const ports = Object.fromEntries(settingsPorts(settings).map(({ name, port }) => [name, port]));
  await writePrivateFile(home.portsFile, `${JSON.stringify(ports, undefined, 2)}\n`);
}

/** Parses each port alone, so that other problems do not hide this one. */
function portsUsedTwice(given: Record<string, string | undefined>): string[] {
  const ports = portNames.map((name) => ({ name, port: portSettings[name].safeParse(given[name]).data }));
  const byPort = Map.groupBy(ports, ({ port }) => port);
  return [...byPort].flatMap(([number, [first, ...others]]) =>
    number === undefined ? [] : others.map(({ name }) => `${name}: ${number} is also used by ${first?.name}`),
  );
}
