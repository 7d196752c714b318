import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { brandConfig } from "#kit/config/brand-config.ts";
import { MAILS, type MailName } from "./mail.ts";
import { BUILT_IN_MAIL_TEMPLATES, MailRenderError, MailTemplates, mailBrandOf } from "./mail-templates.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gatehouse-mail-templates-"));
  cpSync(BUILT_IN_MAIL_TEMPLATES, folder, { recursive: true });
});
afterEach(() => rmSync(folder, { recursive: true }));

const VALUES = { occurredAt: "2031-01-02 03:04:05 UTC", ip: "203.0.113.7", browser: "Firefox on Linux" };
const LINK = "https://gatehouse.example/auth/reset-password?token=abc&x=1";
const put = (file: string, text: string) => writeFileSync(join(folder, file), text);
/** Of the mail that tests change, in a layout that shows nothing else. */
const putBody = (body: string) => {
  put("layout.html", "{{content}}");
  put("en/refresh-reuse.txt", `Session ended\n\n${body}`);
};
const problems = () => new MailTemplates(folder).problems;
const render = (values: Record<string, string>) => new MailTemplates(folder).render("refresh-reuse", values);

test.each(Object.entries(MAILS))(
  "the built-in %s has no problem and shows each of its values as text and as HTML",
  (name, placeholders) => {
    const templates = new MailTemplates(BUILT_IN_MAIL_TEMPLATES);
    expect(templates.problems).toEqual([]);
    const values = Object.fromEntries(placeholders.map((placeholder) => [placeholder, `the ${placeholder}`]));
    const { subject, text, html } = templates.render(name as MailName, values);
    for (const value of Object.values(values)) {
      expect(text).toContain(value);
      expect(html).toContain(value);
    }
    expect(`${subject}${text}${html}`).not.toContain("{{");
    expect(html).toMatch(/<html lang="en">/);
    expect(html).toContain(`<title>${subject}</title>`);
    expect(html.includes('class="button"')).toBe("link" in values);
  },
);

test("an operator's templates take the place of ours", () => {
  put("layout.html", "<i>{{subject}}</i>{{content}}<hr>{{footer}} <p lang={{language}}>");
  put("en/footer.txt", "ACME & Co.");
  put("en/refresh-reuse.txt", "  Sitzung beendet: {{ip}}\r\n\r\n{{browser}} {{browser}}\r\n\r\nEnde\r\n");
  expect(render(VALUES)).toEqual({
    subject: "Sitzung beendet: 203.0.113.7",
    text: "Sitzung beendet: 203.0.113.7\n\nFirefox on Linux Firefox on Linux\n\nEnde\n\nACME & Co.\n",
    html:
      "<i>Sitzung beendet: 203.0.113.7</i><p>Firefox on Linux Firefox on Linux</p>\n<p>Ende</p><hr>" +
      "<p>ACME &amp; Co.</p> <p lang=en>",
  });
});

test("one text is paragraphs, facts and a button in HTML, and stays as it is in plain text", () => {
  const texts = new Map([
    ["reset-password", "Reset\n\nChoose <one>:\n{{link}}\n\nOr open {{link}} later."],
    ["new-device", "Login\n\nTime: {{occurredAt}}\nIP & port: {{ip}}\n\nNote: see {{browser}}"],
  ]);
  put("layout.html", "{{content}}");
  for (const [name, text] of texts) put(`en/${name}.txt`, text);
  const templates = new MailTemplates(folder);
  const href = '<a href="https://gatehouse.example/auth/reset-password?token=abc&amp;x=1">';
  const anchor = `${href}https://gatehouse.example/auth/reset-password?token=abc&amp;x=1</a>`;
  const reset = templates.render("reset-password", { link: LINK });
  expect(reset.text).toContain(`Choose <one>:\n${LINK}\n\nOr open ${LINK} later.`);
  expect(reset.html).toBe(
    `<p class="button">${href}Choose &lt;one&gt;</a></p>\n<p class="address">${anchor}</p>\n<p>Or open ${anchor} later.</p>`,
  );
  expect(templates.render("new-device", VALUES).html).toBe(
    '<table>\n<tr><th scope="row">Time</th><td>2031-01-02 03:04:05 UTC</td></tr>\n' +
      '<tr><th scope="row">IP &amp; port</th><td>203.0.113.7</td></tr>\n</table>\n<p>Note: see Firefox on Linux</p>',
  );
});

test("the operator's colour is that of the button, and the foot leads to the operator's help", () => {
  const accent = brandConfig.BRAND_COLOR.parse("7a1f5c");
  const brand = mailBrandOf(accent, "https://shop.example/help?a&b");
  const templates = new MailTemplates(BUILT_IN_MAIL_TEMPLATES);
  const mail = templates.render("reset-password", { link: LINK }, brand);
  expect(mail.html).toContain(
    "</style>\n<style>\n.button a { background: #7a1f5c; color: #ffffff; }\n</style>",
  );
  const address = "https://shop.example/help?a&amp;b";
  expect(mail.html).toContain(`<p>Do you need help? <a href="${address}">${address}</a></p>`);
  expect(mail.text).toMatch(/\n\nDo you need help\? https:\/\/shop\.example\/help\?a&b\n$/);
  const plain = templates.render("reset-password", { link: LINK }, mailBrandOf(undefined, undefined));
  expect(plain).toEqual(templates.render("reset-password", { link: LINK }));
  expect(plain.html).not.toContain("#7a1f5c");
  expect(plain.text).not.toContain("help?");
});

test("values are escaped in HTML and unchanged in text", () => {
  put("layout.html", "<title>{{subject}}</title>{{content}}");
  put("en/refresh-reuse.txt", "{{browser}}\n\n{{browser}}");
  const browser = `<script>alert("1")</script> & 'more'`;
  const escaped = "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;more&#39;";
  const { subject, text, html } = render({ ...VALUES, browser });
  expect(subject).toBe(browser);
  expect(text).toContain(`${browser}\n\n${browser}\n\n`);
  expect(html).toBe(`<title>${escaped}</title><p>${escaped}</p>`);
});

test("a value that looks like a placeholder, a replacement pattern or a fact is no more than text", () => {
  putBody("{{browser}}|{{ip}}");
  const { text, html } = render({ ...VALUES, browser: "{{ip}} $& $1 {{content}}: " });
  expect(text).toContain("\n\n{{ip}} $& $1 {{content}}: |203.0.113.7\n\n");
  expect(html).toBe("<p>{{ip}} $&amp; $1 {{content}}: |203.0.113.7</p>");
});

test.each(["\r\nBcc: eve@evil.example", "\n", "\r", "\u0000", "\u2028", "\u0085"])(
  "a value with %j in it is refused, and its text is not repeated",
  (end) => {
    put("en/refresh-reuse.txt", "From {{ip}}\n\nText");
    const refused = expect.objectContaining({ message: "{{ip}} is more than one line" });
    expect(() => render({ ...VALUES, ip: `secret${end}` })).toThrow(MailRenderError);
    expect(() => render({ ...VALUES, ip: `secret${end}` })).toThrow(refused);
  },
);

test("a value that is missing is refused, also one that every object has", () => {
  expect(() => render({ ...VALUES, ip: undefined as unknown as string })).toThrow("{{ip}} has no value");
  expect(() => render({})).toThrow(MailRenderError);
});

const MAIL = "en/refresh-reuse.txt";

test.each([
  [MAIL, " \n", "is empty"],
  [MAIL, "Subject", "does not begin with a subject and an empty line"],
  [MAIL, "Subject\nText\n\nText", "does not begin with a subject and an empty line"],
  [MAIL, "one\rtwo\n\nText", "has a subject of more than one line"],
  [MAIL, "one\u2028two\n\nText", "has a subject of more than one line"],
  [MAIL, `${"x".repeat(201)}\n\nText`, "has a subject with more than 200 characters"],
  [MAIL, "Subject\n\n{{password}}", "has the unknown placeholder {{password}}"],
  [MAIL, "Subject\n\n{{toString}}", "has the unknown placeholder {{toString}}"],
  [MAIL, "{{ ip }}\n\nText", "has a {{ that does not begin a placeholder"],
  [MAIL, "Subject\n\n{{ip}", "has a {{ that does not begin a placeholder"],
  [MAIL, `Subject\n\n${"x".repeat(65_537)}`, "has more than 65536 characters"],
  ["en/footer.txt", "{{ip}}", "has the unknown placeholder {{ip}}"],
  ["layout.html", "{{content}}{{ip}}", "has the unknown placeholder {{ip}}"],
  ["layout.html", "{{subject}}", "has no {{content}}"],
])("a %s of %j is refused", (file, text, problem) => {
  put(file, text);
  expect(problems()).toEqual([`${file} ${problem}`]);
});

test("styles may have braces", () => {
  put("layout.html", "<style>@media print{p{color:red}}</style>{{content}}");
  expect(problems()).toEqual([]);
});

test("every problem is named, whatever else lies in the folder", () => {
  rmSync(join(folder, "en/footer.txt"));
  put(MAIL, "{{one}}\n\n{{two}}");
  put("README.md", "{{not a template}}");
  expect(problems()).toEqual([
    "en/footer.txt cannot be read (ENOENT)",
    "en/refresh-reuse.txt has the unknown placeholder {{one}}",
    "en/refresh-reuse.txt has the unknown placeholder {{two}}",
  ]);
});
