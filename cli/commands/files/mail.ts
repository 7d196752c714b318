import { z } from "zod";
import { canonicalEmail } from "#kit/values/canonical-email.ts";
import type { Backend } from "../../backend.ts";
import { CliError } from "../../cli-error.ts";
import type { Command, CommandInput } from "../../command.ts";
import { EXIT } from "../../exit-code.ts";
import { printable } from "../../printable.ts";
import { runOfService } from "../../service-configuration.ts";
import { UsageError } from "../../usage-error.ts";
import { VARIABLES_OPTION, variablesOf } from "./config-check.ts";
import { type PreviewedMail, writePreview } from "./mail-preview-pages.ts";

const PROGRAM = "identity-service/mail/main.ts";
/** Longer than the program waits for a mail server. */
const TIMEOUT_MS = 75_000;

const OPTIONS: Command["options"] = {
  templates: { type: "string", value: "folder", description: "in place of MAIL_TEMPLATES_DIR" },
  ...VARIABLES_OPTION,
};
const SOURCE =
  "Reads the variables of identity-service as `config check` does. Exit code 78 if it would refuse them.";

const checkSchema = z.object({
  folder: z.string().nullable(),
  languages: z.array(
    z.object({ tag: z.string(), missing: z.array(z.object({ text: z.string(), shownIn: z.string() })) }),
  ),
  unread: z.array(z.string()),
});

export const mailCheck: Command = {
  name: "mail check",
  summary: "Check the mails as identity-service would, and list what each language lacks",
  details: `${SOURCE}\nWhat is missing is sent in the language beside it, and is no error.`,
  positionals: [],
  options: OPTIONS,
  async run(input, backend) {
    const { result, source } = await askMails(checkSchema, ["check"], input, backend);
    const lines = result.languages.flatMap(({ tag, missing }) => [
      `${tag}: ${missing.length === 0 ? "complete" : `${missing.length} missing`}`,
      ...missing.map(({ text, shownIn }) => `  ${text}, sent in ${shownIn}`),
    ]);
    const warnings = result.unread.map((file) => `Warning: ${file} is the name of no mail: it is not read`);
    return { text: [...lines, ...warnings, source].join("\n"), json: result };
  },
};

const previewSchema = z.object({
  brand: z.string(),
  mails: z.array(
    z.object({
      name: z.string(),
      language: z.string(),
      subject: z.string(),
      text: z.string(),
      html: z.string(),
    }),
  ),
});

export const mailPreview: Command = {
  name: "mail preview",
  summary: "Show mails with your texts, name and colours, and invented values",
  details:
    `${SOURCE}\nPrints one mail as text, or writes each as HTML and text into a folder, with an index.html that shows\n` +
    "the languages side by side. Links in them open nothing.",
  positionals: [],
  optionalPositionals: ["name"],
  options: {
    language: { type: "string", value: "tag", description: "only this language, such as de" },
    output: { type: "string", value: "folder", description: "write into this folder, which is made" },
    force: { type: "boolean", description: "write into a folder with files in it" },
    ...OPTIONS,
  },
  async run(input, backend) {
    const [name] = input.positionals;
    const [language, folder] = [input.values.get("language"), input.values.get("output")];
    if (name === undefined && folder === undefined)
      throw new UsageError("Name a mail, or a folder for all with --output", "gatehouse mail preview --help");
    const { result, source } = await askMails(previewSchema, ["preview"], input, backend);
    const mails = chosen(result.mails, { name, language });
    if (folder === undefined) return { text: mails.map(asText).join("\n\n"), json: { mails } };
    const page = await writePreview(folder, { brand: result.brand, mails }, input.flags.has("force"));
    return { text: `${mails.length} mails: open ${page}\n${source}`, json: { page, mails: mails.length } };
  },
};

function chosen(
  mails: readonly PreviewedMail[],
  wanted: Readonly<Record<"name" | "language", string | undefined>>,
): PreviewedMail[] {
  for (const key of ["name", "language"] as const) {
    const known = new Set(mails.map((mail) => mail[key]));
    const given = wanted[key];
    if (given === undefined || known.has(given)) continue;
    throw new UsageError(`There is no mail of the ${key} ${given}, but of ${[...known].sort().join(", ")}`);
  }
  const { name, language } = wanted;
  return mails.filter(
    (mail) => mail.name === (name ?? mail.name) && mail.language === (language ?? mail.language),
  );
}

const asText = ({ name, language, subject, text }: PreviewedMail) =>
  `--- ${name} (${language}): ${subject} ---\n\n${text.trimEnd()}`;

const testSchema = z.object({
  from: z.string(),
  server: z.string(),
  isSent: z.boolean(),
  problem: z.string().optional(),
  answer: z.string().optional(),
});

export const mailTest: Command = {
  name: "mail test",
  summary: "Send one mail as identity-service would, and print what the mail server answers",
  details: `${SOURCE}\nIt waits for a minute at most, and never prints the password.`,
  positionals: [],
  options: {
    to: { type: "string", value: "address", required: true, description: "who gets the mail" },
    ...VARIABLES_OPTION,
  },
  async run(input, backend) {
    const typed = input.values.get("to") ?? "";
    const recipient = canonicalEmail(typed);
    if (recipient === undefined) throw new UsageError(`--to ${typed} is no e-mail address`);
    const { result, source } = await askMails(testSchema, ["test", recipient], input, backend);
    const { isSent, problem, from, server, answer } = result;
    const said = answer === undefined ? "" : `\nThe mail server's answer: ${printable(answer)}`;
    if (isSent) {
      const text = `${server} has taken the mail from ${from} to ${recipient}.${said}\n${source}`;
      return { text, json: { recipient, from, server, answer: answer ?? null } };
    }
    const message = `The mail from ${from} to ${recipient} was not sent by ${server}: ${problem}${said}\n${source}`;
    throw new CliError(message, { exitCode: EXIT.failed, code: "mail_not_sent" });
  },
};

/** Asks identity-service's own program: its rules are not here. */
async function askMails<S extends z.ZodType>(
  schema: S,
  argv: readonly string[],
  { values }: Pick<CommandInput, "values">,
  backend: Backend,
): Promise<{ result: z.output<S>; source: string }> {
  const { environment, source } = variablesOf("identity-service", values.get("variables"), backend);
  const templates = values.get("templates");
  const given = { ...environment, ...(templates !== undefined && { MAIL_TEMPLATES_DIR: templates }) };
  const { code, printed, said } = await runOfService([PROGRAM, ...argv], given, TIMEOUT_MS);
  if (code === EXIT.ok) return { result: schema.parse(JSON.parse(printed)), source };
  const isConfiguration = code === EXIT.config;
  throw new CliError(
    isConfiguration
      ? `${said.trim()}\n${source}`
      : `The mails ended with ${code ?? "a signal"}:\n${said.trim()}`,
    isConfiguration
      ? { exitCode: EXIT.config, code: "configuration" }
      : { exitCode: EXIT.failed, code: "internal_error" },
  );
}
