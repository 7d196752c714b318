import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { MAILS, type MailName } from "./mail.ts";
import { BUILT_IN_MAIL_TEMPLATES, loadMailTemplates, MailRenderError } from "./mail-templates.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gatehouse-mail-templates-"));
  cpSync(BUILT_IN_MAIL_TEMPLATES, folder, { recursive: true });
});
afterEach(() => rmSync(folder, { recursive: true }));

const VALUES = { occurredAt: "2031-01-02 03:04:05 UTC", ip: "203.0.113.7", browser: "Firefox on Linux" };
const put = (part: string, text: string) => writeFileSync(join(folder, `refresh-reuse.${part}`), text);
const problems = () => loadMailTemplates(folder).problems;
const render = (values: Record<string, string>) =>
  loadMailTemplates(folder).templates.render("refresh-reuse", values);

test.each(Object.entries(MAILS))(
  "the built-in %s has no problem and shows each of its values as text and as HTML",
  (name, placeholders) => {
    const { templates, problems: found } = loadMailTemplates(BUILT_IN_MAIL_TEMPLATES);
    expect(found).toEqual([]);
    const values = Object.fromEntries(placeholders.map((placeholder) => [placeholder, `the ${placeholder}`]));
    const { subject, text, html } = templates.render(name as MailName, values);
    for (const value of Object.values(values)) {
      expect(text).toContain(value);
      expect(html).toContain(value);
    }
    expect(`${subject}${text}${html}`).not.toContain("{{");
    expect(html).toMatch(/<html lang="en">/);
  },
);

test("an operator's templates take the place of ours", () => {
  put("subject", "  Sitzung beendet: {{ip}}\n");
  put("txt", "{{browser}} {{browser}}");
  put("html", "<p>{{browser}}</p>");
  expect(render(VALUES)).toEqual({
    subject: "Sitzung beendet: 203.0.113.7",
    text: "Firefox on Linux Firefox on Linux",
    html: "<p>Firefox on Linux</p>",
  });
});

test("values are escaped in HTML and unchanged in text", () => {
  put("txt", "{{browser}}");
  put("html", '<p title="{{browser}}">{{browser}}</p>');
  const browser = `<script>alert("1")</script> & 'more'`;
  const escaped = "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;more&#39;";
  expect(render({ ...VALUES, browser })).toMatchObject({
    text: browser,
    html: `<p title="${escaped}">${escaped}</p>`,
  });
});

test("a value that looks like a placeholder, or like a replacement pattern, is no more than text", () => {
  put("txt", "{{browser}}|{{ip}}");
  expect(render({ ...VALUES, browser: "{{ip}} $& $1 $`" }).text).toBe("{{ip}} $& $1 $`|203.0.113.7");
});

test.each(["\r\nBcc: eve@evil.example", "\n", "\r", "\u0000", "\u2028", "\u0085"])(
  "a value with %j in it is refused, and its text is not repeated",
  (end) => {
    put("subject", "From {{ip}}");
    const refused = expect.objectContaining({ message: "{{ip}} is more than one line" });
    expect(() => render({ ...VALUES, ip: `secret${end}` })).toThrow(MailRenderError);
    expect(() => render({ ...VALUES, ip: `secret${end}` })).toThrow(refused);
  },
);

test("a value that is missing is refused, also one that every object has", () => {
  expect(() => render({ ...VALUES, ip: undefined as unknown as string })).toThrow("{{ip}} has no value");
  expect(() => render({})).toThrow(MailRenderError);
});

test.each([
  ["subject", "", "refresh-reuse.subject is empty"],
  ["subject", "one\ntwo", "refresh-reuse.subject is more than one line"],
  ["subject", "x".repeat(201), "refresh-reuse.subject has more than 200 characters"],
  ["txt", " \n", "refresh-reuse.txt is empty"],
  ["txt", "{{password}}", "refresh-reuse.txt has the unknown placeholder {{password}}"],
  ["txt", "{{toString}}", "refresh-reuse.txt has the unknown placeholder {{toString}}"],
  ["html", "{{ ip }}", "refresh-reuse.html has a {{ that does not begin a placeholder"],
  ["html", "{{ip}", "refresh-reuse.html has a {{ that does not begin a placeholder"],
  ["html", "x".repeat(65_537), "refresh-reuse.html has more than 65536 characters"],
])("a .%s of %j is refused", (part, text, problem) => {
  put(part, text);
  expect(problems()).toEqual([problem]);
});

test("styles may have braces", () => {
  put("html", "<style>@media print{p{color:red}}</style>{{ip}}");
  expect(problems()).toEqual([]);
});

test("every problem is named, whatever else lies in the folder", () => {
  rmSync(join(folder, "refresh-reuse.txt"));
  put("html", "{{one}} {{two}}");
  writeFileSync(join(folder, "README.md"), "{{not a template}}");
  expect(problems()).toEqual([
    "refresh-reuse.txt cannot be read (ENOENT)",
    "refresh-reuse.html has the unknown placeholder {{one}}",
    "refresh-reuse.html has the unknown placeholder {{two}}",
  ]);
});
