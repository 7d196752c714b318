import { ConfigError } from "#kit/config/config.ts";
import { builtInLanguages, PageLanguages } from "#kit/config/page-languages.ts";
import { languageTag } from "#kit/values/locale.ts";
import { CliError } from "../../cli-error.ts";
import type { Command } from "../../command.ts";
import { EXIT } from "../../exit-code.ts";
import { UsageError } from "../../usage-error.ts";

export const languagesCheck: Command = {
  name: "languages check",
  summary: "Check a folder of languages of the pages, as the gateway would, and list missing texts",
  details:
    "For PAGE_LANGUAGES_DIR. Without <folder>, the built-in languages. What is missing is shown in the next best\n" +
    "language, English at the end, and is no error.",
  positionals: [],
  optionalPositionals: ["folder"],
  options: {},
  async run({ positionals: [folder] }) {
    const languages = read(folder);
    if (languages.problems.length > 0)
      throw new CliError(
        `${folder} cannot be used:\n${languages.problems.map((line) => `    ${line}`).join("\n")}`,
        {
          exitCode: EXIT.config,
          code: "languages_invalid",
        },
      );
    const checked = (folder === undefined ? languages.builtIn : languages.added).map((tag) => {
      const { name, dir } = languages.language(tag);
      return { tag, name, dir, missing: languages.missing(tag) };
    });
    const lines = checked.flatMap(({ tag, name, missing }) => [
      `${tag} (${name}): ${missing.length === 0 ? "complete" : `${missing.length} missing`}`,
      ...missing.map((key) => `  ${key}`),
    ]);
    return { text: lines.join("\n") || "There is no language.", json: { languages: checked } };
  },
};

export const languagesTemplate: Command = {
  name: "languages template",
  summary: "Print a file with all texts of the pages, to be translated",
  details: "In the language if it is built in, otherwise in English with the plural forms of the language.",
  positionals: [],
  options: {
    language: { type: "string", value: "tag", description: "BCP 47, such as pt-BR (default: en)" },
  },
  async run({ values }) {
    const wanted = values.get("language") ?? "en";
    const tag = languageTag(wanted);
    if (tag === undefined) throw new UsageError(`--language ${wanted} is no BCP 47 tag, such as pt-BR`);
    const { name, dir, texts } = read().language(tag);
    const file = { name, dir, ...texts };
    return { text: JSON.stringify(file, undefined, 2), json: file };
  },
};

function read(folder?: string): PageLanguages {
  try {
    return new PageLanguages(builtInLanguages(), folder);
  } catch (cause) {
    if (!(cause instanceof ConfigError)) throw cause;
    throw new CliError(cause.message, { exitCode: EXIT.config, code: "pages_not_built", cause });
  }
}
