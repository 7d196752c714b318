import { readFileSync } from "node:fs";
import { z } from "zod";
import { booleanSchema, integerSchema, readableFileSchema, secretFileSchema } from "#kit/config/config.ts";
import { canonicalEmail } from "#kit/values/canonical-email.ts";
import { languageTag } from "#kit/values/locale.ts";
import { isThisHost } from "#kit/values/network-of.ts";
import { isPng, pngProblem } from "#kit/values/png.ts";
import { MailTemplates } from "./mail-templates.ts";

export interface SmtpServer {
  /** IPv6 without brackets. */
  host: string;
  port: number;
  /** Implicit TLS (RFC 8314), not STARTTLS. */
  isTlsFromStart: boolean;
  user: string | undefined;
}

export interface MailAddress {
  name: string;
  address: string;
}

/** RFC 6409 and RFC 8314. */
const SUBMISSION_PORT = 587;
const SUBMISSIONS_PORT = 465;

const smtpUrlSchema = z.string().transform((text, context): SmtpServer => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const user = url && decoded(url.username);
  const problem = smtpUrlProblem(url, user);
  if (url === undefined || problem !== undefined) {
    context.addIssue({ code: "custom", message: problem ?? "must be a URL" });
    return z.NEVER;
  }
  const isTlsFromStart = url.protocol === "smtps:";
  return {
    host: url.hostname.replace(/^\[|\]$/g, ""),
    port: url.port === "" ? (isTlsFromStart ? SUBMISSIONS_PORT : SUBMISSION_PORT) : Number(url.port),
    isTlsFromStart,
    user: user || undefined,
  };
});

function smtpUrlProblem(url: URL | undefined, user: string | undefined): string | undefined {
  const isSmtp = url !== undefined && /^smtps?:$/.test(url.protocol) && url.hostname !== "";
  if (!isSmtp) return "must be smtp://host:port or smtps://host:port";
  if (user === undefined) return "has a user that is not well-formed";
  if (url.password !== "") return "put the password into SMTP_PASSWORD_FILE";
  if (!/^\/?$/.test(url.pathname) || url.search !== "" || url.hash !== "") return "must end after the port";
  return undefined;
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

const mailAddressSchema = z.string().transform((text, context): MailAddress => {
  const [, name, bracketed, bare] = /^(?:([^<>"\p{Cc}]{0,100})<([^<>]+)>|([^<>]+))$/u.exec(text) ?? [];
  const address = canonicalEmail(bracketed ?? bare ?? "");
  if (address === undefined) {
    context.addIssue({ code: "custom", message: "must be an address, or Name <address>" });
    return z.NEVER;
  }
  return { name: name?.trim() ?? "", address };
});

const languageSchema = z.string().transform((text, context) => {
  const tag = languageTag(text);
  if (tag !== undefined) return tag;
  context.addIssue({ code: "custom", message: "must be a language tag, such as de or pt-BR" });
  return z.NEVER;
});

/** Mail programs show PNG, and hardly any of them SVG: of that, mails have the name alone. */
const logoSchema = readableFileSchema.transform((path, context): Buffer | undefined => {
  const content = readFileSync(path);
  if (!isPng(content)) return undefined;
  const problem = pngProblem(content);
  if (problem === undefined) return content;
  context.addIssue({ code: "custom", message: problem });
  return z.NEVER;
});

export const mailConfig = {
  /** `smtp://user@host:port` or `smtps://…`. The user is optional. */
  SMTP_URL: smtpUrlSchema.optional(),
  SMTP_PASSWORD_FILE: secretFileSchema.optional(),
  SMTP_REQUIRE_TLS: booleanSchema.optional(),
  SMTP_CA_FILE: readableFileSchema.optional(),
  /** False: addresses that need SMTPUTF8 are refused. The sender asks the server in any case. */
  SMTP_UTF8: booleanSchema.default(true),
  /** `Name <address>` or an address. Message-ID and EHLO use its domain. */
  MAIL_FROM: mailAddressSchema.optional(),
  /** Beside the name, if it is a PNG. The gateway's pages have the same. */
  BRAND_LOGO_FILE: logoSchema.optional(),
  /** Goes before our own mails, file by file. */
  MAIL_TEMPLATES_DIR: z.string().optional(),
  /** For people whose language nobody knows, or has no mails. */
  MAIL_DEFAULT_LANGUAGE: languageSchema.default("en"),
  MAIL_STRANGERS_HOURLY_MAX: integerSchema(1, 1_000).default(5),
  MAIL_STRANGERS_DAILY_MAX: integerSchema(1, 10_000).default(10),
  /** Per recipient. Below 59, an attacker can exhaust it. */
  MAIL_RESET_DAILY_MAX: integerSchema(1, 10_000).default(60),
};

export type MailConfig = z.output<z.ZodObject<typeof mailConfig>>;
type TextConfig = Pick<MailConfig, "MAIL_TEMPLATES_DIR" | "MAIL_DEFAULT_LANGUAGE">;

interface Problem {
  key: keyof MailConfig;
  message: string;
}

export function mailTextProblems(config: TextConfig): Problem[] {
  const templates = mailTemplatesOf(config);
  const problems: Problem[] = templates.problems.map((message) => ({ key: "MAIL_TEMPLATES_DIR", message }));
  if (!templates.has(config.MAIL_DEFAULT_LANGUAGE)) {
    problems.push({ key: "MAIL_DEFAULT_LANGUAGE", message: "has no folder of mails" });
  }
  return problems;
}

export function mailConfigProblems(config: MailConfig): Problem[] {
  const problems = mailTextProblems(config);
  const { SMTP_URL: server, SMTP_PASSWORD_FILE: password } = config;
  if (server !== undefined && config.MAIL_FROM === undefined) {
    problems.push({ key: "MAIL_FROM", message: "is required beside SMTP_URL" });
  }
  if ((server?.user === undefined) !== (password === undefined)) {
    const message =
      password === undefined ? "is required for the user in SMTP_URL" : "needs a user in SMTP_URL";
    problems.push({ key: "SMTP_PASSWORD_FILE", message });
  }
  if (
    server?.user !== undefined &&
    !isThisHost(server.host) &&
    !server.isTlsFromStart &&
    config.SMTP_REQUIRE_TLS === false
  ) {
    problems.push({
      key: "SMTP_REQUIRE_TLS",
      message: "cannot be false with a user: the password would be readable",
    });
  }
  return problems;
}

export function mailTemplatesOf(config: TextConfig): MailTemplates {
  return new MailTemplates(config.MAIL_TEMPLATES_DIR, config.MAIL_DEFAULT_LANGUAGE);
}
