import { z } from "zod";
import { brandConfig } from "#kit/config/brand-config.ts";
import { loadConfig } from "#kit/config/config.ts";
import { mailConfig, mailConfigProblems, mailTemplatesOf, mailTextProblems } from "./mail-config.ts";
import { sampleMails } from "./mail-samples.ts";
import { mailBrandOf } from "./mail-templates.ts";
import { sendTestMail } from "./test-mail.ts";

// For `gatehouse mail`, with the variables of identity-service. Each task reads only what it needs, and prints JSON.

const { MAIL_TEMPLATES_DIR, MAIL_DEFAULT_LANGUAGE, BRAND_LOGO_FILE } = mailConfig;
const originSchema = z.url({ protocol: /^https?$/ }).optional();
const textSchema = z
  .object({
    ...brandConfig,
    MAIL_TEMPLATES_DIR,
    MAIL_DEFAULT_LANGUAGE,
    BRAND_LOGO_FILE,
    PUBLIC_ORIGIN: originSchema,
    PAGES_ORIGIN: originSchema,
  })
  .superRefine((config, context) => {
    for (const { key, message } of mailTextProblems(config))
      context.addIssue({ code: "custom", path: [key], message });
  });
const senderSchema = z.object({ ...brandConfig, ...mailConfig }).superRefine((config, context) => {
  const problems = mailConfigProblems(config);
  if (config.SMTP_URL === undefined)
    problems.push({ key: "SMTP_URL", message: "is required to send a mail" });
  for (const { key, message } of problems) context.addIssue({ code: "custom", path: [key], message });
});

const TASKS = {
  check() {
    const config = loadConfig(textSchema, process.env);
    const templates = mailTemplatesOf(config);
    const languages = templates.languages.map((tag) => ({ tag, missing: templates.missing(tag) }));
    return { folder: config.MAIL_TEMPLATES_DIR ?? null, languages, unread: templates.unread };
  },
  preview() {
    const config = loadConfig(textSchema, process.env);
    const { BRAND_NAME: name, BRAND_COLOR: color, SUPPORT_URL: support } = config;
    const origin = config.PAGES_ORIGIN ?? config.PUBLIC_ORIGIN ?? "https://gatehouse.example";
    const logo =
      config.BRAND_LOGO_FILE && `data:image/png;base64,${config.BRAND_LOGO_FILE.toString("base64")}`;
    const brand = mailBrandOf(name, color, support, logo);
    const mails = sampleMails(mailTemplatesOf(config), { brand, origin });
    return { brand: name, mails };
  },
  async test(recipient: string) {
    const config = loadConfig(senderSchema, process.env);
    const { SMTP_URL: server, MAIL_FROM: from, BRAND_NAME: brandName } = config;
    if (server === undefined || from === undefined) throw new Error("the schema requires both");
    const { SMTP_PASSWORD_FILE: password, SMTP_REQUIRE_TLS: requireTls, SMTP_CA_FILE: caFile } = config;
    const options = { server, from, password, requireTls, caFile };
    return {
      from: from.address,
      server: server.host,
      ...(await sendTestMail(options, { recipient, brandName })),
    };
  },
};

const [task = "", argument = ""] = process.argv.slice(2);
if (!Object.hasOwn(TASKS, task)) throw new Error(`no task of mails: ${task}`);
const result = await TASKS[task as keyof typeof TASKS](argument);
process.stdout.write(`${JSON.stringify(result)}\n`);
