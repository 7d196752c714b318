import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { escapeHtml } from "#kit/values/escape-html.ts";
import { CliError } from "../../cli-error.ts";
import { EXIT } from "../../exit-code.ts";

export interface PreviewedMail {
  name: string;
  language: string;
  subject: string;
  text: string;
  html: string;
}

const STYLE =
  ":root{color-scheme:light dark}body{margin:2rem;font:1rem/1.5 system-ui,sans-serif}" +
  ".mail{display:flex;gap:1rem;overflow-x:auto}.mail>div{flex:1 0 22rem}" +
  "iframe{width:100%;height:34rem;border:1px solid #8888;border-radius:6px;resize:vertical}";

/** @returns the page with all mails. @throws {CliError} 73 if the folder has files, or cannot be written. */
export async function writePreview(
  folder: string,
  { brand, mails }: { brand: string; mails: readonly PreviewedMail[] },
  force: boolean,
): Promise<string> {
  const page = join(folder, "index.html");
  try {
    await mkdir(folder, { recursive: true });
    if (!force && (await readdir(folder)).length > 0)
      throw new CliError(`${folder} has files in it: add --force to replace those of the same name`, {
        exitCode: EXIT.output,
        code: "output",
      });
    for (const { name, language, text, html } of mails) {
      await mkdir(join(folder, language), { recursive: true });
      await writeFile(join(folder, language, `${name}.html`), html);
      await writeFile(join(folder, language, `${name}.txt`), text);
    }
    await writeFile(page, indexOf(brand, mails));
  } catch (error) {
    if (!(error instanceof Error && "syscall" in error)) throw error;
    const message = `${folder} cannot be written: ${error.message}`;
    throw new CliError(message, { exitCode: EXIT.output, code: "output", cause: error });
  }
  return page;
}

function indexOf(brand: string, mails: readonly PreviewedMail[]): string {
  const names = [...new Set(mails.map(({ name }) => name))];
  const sections = names.map((name) => {
    const own = mails.filter((mail) => mail.name === name).map(frameOf);
    return `<h2 id="${name}">${name}</h2>\n<div class="mail">\n${own.join("\n")}\n</div>`;
  });
  const title = `Mails of ${escapeHtml(brand)}`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${title}</h1>
${sections.join("\n")}
</main>
</body>
</html>
`;
}

/** In a sandbox: a layout of the operator is no page of ours. */
function frameOf({ name, language, subject }: PreviewedMail): string {
  const path = `${language}/${name}`;
  const title = escapeHtml(`${name}, ${language}`);
  return (
    `<div lang="${language}"><p><b>${escapeHtml(subject)}</b><br>` +
    `<a href="${path}.html">${language}</a>, <a href="${path}.txt">text</a></p>` +
    `<iframe sandbox loading="lazy" title="${title}" src="${path}.html"></iframe></div>`
  );
}
