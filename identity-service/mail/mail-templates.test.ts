import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { brandConfig } from "#kit/config/brand-config.ts";
import { MAILS, type MailName, type MailValue, TIMES } from "./mail.ts";
import { BUILT_IN_MAIL_TEMPLATES, MailRenderError, MailTemplates, mailBrandOf } from "./mail-templates.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gatehouse-mail-templates-"));
  mkdirSync(join(folder, "en"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const VALUES = {
  occurredAt: "2031-01-02T03:04:05.000Z",
  ip: "203.0.113.7",
  browser: [{ phrase: "device", values: { browser: "Firefox", system: "Linux" } }],
} as const;
const SAID = "January 2, 2031 at 3:04:05 AM UTC";
const NOBODY = { language: null, timeZone: null };
const LINK = "https://gatehouse.example/auth/reset-password?token=abc&x=1";
const put = (file: string, text: string) => writeFileSync(join(folder, file), text);
/** Of the mail that tests change, in a layout that shows nothing else. */
const putBody = (body: string) => {
  put("layout.html", "{{content}}");
  put("en/refresh-reuse.txt", `Session ended\n\n${body}`);
};
const problems = () => new MailTemplates(folder).problems;
const render = (values: Record<string, MailValue>) =>
  new MailTemplates(folder).render("refresh-reuse", values);

const LANGUAGES = ["en", "de", "es", "fr"];

test.each(
  LANGUAGES.flatMap((language) => Object.keys(MAILS).map((name) => [language, name as MailName] as const)),
)(
  "the built-in mail in %s, %s, has no problem and shows each of its values as text and as HTML",
  (language, name) => {
    const templates = new MailTemplates();
    expect(templates.problems).toEqual([]);
    const placeholders = MAILS[name].filter((placeholder) => !TIMES.has(placeholder));
    const values = Object.fromEntries(placeholders.map((placeholder) => [placeholder, `the ${placeholder}`]));
    const times = Object.fromEntries([...TIMES].map((placeholder) => [placeholder, VALUES.occurredAt]));
    const { subject, text, html } = templates.render(
      name,
      { ...values, ...times },
      { language, timeZone: null },
    );
    for (const value of Object.values(values)) {
      expect(text).toContain(value);
      expect(html).toContain(value);
    }
    expect(text.includes("2031")).toBe(MAILS[name].some((placeholder) => TIMES.has(placeholder)));
    expect(`${subject}${text}${html}`).not.toContain("{{");
    expect(html).toContain(`<html lang="${language}">`);
    expect(html).toContain(`<title>${subject}</title>`);
    expect(html.includes('class="button"')).toBe("link" in values);
  },
);

test("the languages have the same files, with the same placeholders in the same lines of facts", () => {
  const contents = LANGUAGES.map((language) => {
    const own = join(BUILT_IN_MAIL_TEMPLATES, language);
    return readdirSync(own).map((name) => {
      const found = readFileSync(join(own, name), "utf8").match(/\{\{\w+\}\}|^[a-z-]+: /gm) ?? [];
      return [name, new Set(found)];
    });
  });
  expect(contents[1]).toEqual(contents[0]);
});

test("a mail is in the reader's language, else in a less exact one, else in the default one, else in English", () => {
  for (const language of ["pt", "sv"]) mkdirSync(join(folder, language));
  put("pt/refresh-reuse.txt", "Sessão terminada\n\n{{browser}}: {{occurredAt}}");
  put("pt/phrases.txt", "device: {{browser}} no {{system}}");
  put("sv/new-device.txt", "Ny inloggning\n\n{{browser}}");
  const templates = new MailTemplates(folder, "sv");
  expect(templates.problems).toEqual([]);
  const mail = (language: string | null, name: MailName = "refresh-reuse") =>
    templates.render(name, VALUES, { language, timeZone: "America/Sao_Paulo" });
  expect(mail("pt-BR").subject).toBe("Sessão terminada");
  expect(mail("pt-BR").text).toMatch(/^Firefox no Linux: 2 de janeiro de 2031/m);
  expect(mail("pt-BR").html).toContain('<html lang="pt">');
  expect(mail("pt-BR", "new-device").subject).toBe("Ny inloggning");
  expect(mail("de-AT").text).toContain("Zeit: 2. Jänner 2031 um 00:04:05 GMT-3");
  expect(mail("it", "new-device").subject).toBe("Ny inloggning");
  expect(mail(null, "new-device").subject).toBe("Ny inloggning");
  // In one language from the subject to the foot.
  expect(mail("it")).toEqual(mail("en"));
});

test("a zone that this runtime does not know is UTC", () => {
  const mail = new MailTemplates().render("refresh-reuse", VALUES, {
    language: "en",
    timeZone: "Mars/Olympus",
  });
  expect(mail.text).toContain(`Time: ${SAID}`);
});

test("several phrases are listed as the language does", () => {
  const removed = [{ phrase: "earlier-password" }, { phrase: "all-passkeys" }] as const;
  const left = [
    { phrase: "provider-login-since", values: { provider: "ACME", linkedAt: VALUES.occurredAt } },
  ] as const;
  const values = { occurredAt: VALUES.occurredAt, removed, left };
  const mail = (language: string) =>
    new MailTemplates().render("password-reset", values, { language, timeZone: "Europe/Berlin" }).text;
  expect(mail("en")).toContain("Removed: the earlier password and the passkeys\n");
  expect(mail("de")).toContain("Entfernt: das bisherige Passwort und die Passkeys\n");
  expect(mail("de")).toContain(
    "Weitere Anmeldewege: die Anmeldung mit ACME (verknüpft am 2. Januar 2031 um 04:04:05 MEZ)\n",
  );
});

test("a space before a colon, as French has it, is no part of a fact's name or of a button's label", () => {
  const mail = (name: MailName) =>
    new MailTemplates().render(
      name,
      { ...VALUES, link: "https://gate.example/x" },
      { language: "fr", timeZone: null },
    );
  expect(mail("refresh-reuse").html).toContain('<th scope="row">Adresse IP</th>');
  expect(mail("reset-password").html).toContain(">Choisir un nouveau mot de passe</a>");
});

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
    '<table>\n<tr><th scope="row">Time</th><td>' +
      SAID +
      "</td></tr>\n" +
      '<tr><th scope="row">IP &amp; port</th><td>203.0.113.7</td></tr>\n</table>\n<p>Note: see Firefox on Linux</p>',
  );
});

test("the operator's colour is that of the button, and the foot leads to the operator's help", () => {
  const accent = brandConfig.BRAND_COLOR.parse("7a1f5c");
  const brand = mailBrandOf("ACME & Co.", accent, "https://shop.example/help?a&b");
  const templates = new MailTemplates();
  const mail = templates.render("reset-password", { link: LINK }, NOBODY, brand);
  expect(mail.html).toContain(
    "</style>\n<style>\na { color: #7a1f5c; }\n@media (prefers-color-scheme: dark) { a { color: #b684a5; } }\n" +
      ".button a { background: #7a1f5c; color: #ffffff; }\n</style>",
  );
  expect(mail.html).toContain("<header>ACME &amp; Co.</header>");
  const address = "https://shop.example/help?a&amp;b";
  expect(mail.html).toContain(`<p>Do you need help? <a href="${address}">${address}</a></p>`);
  expect(mail.text).toMatch(/\n\nDo you need help\? https:\/\/shop\.example\/help\?a&b\n$/);
  const plain = templates.render(
    "reset-password",
    { link: LINK },
    NOBODY,
    mailBrandOf("Gatehouse", undefined, undefined),
  );
  expect(plain).toEqual(templates.render("reset-password", { link: LINK }));
  expect(plain.html).not.toContain("#7a1f5c");
  expect(plain.text).not.toContain("help?");
});

test("the operator's logo stands beside the name", () => {
  const brand = mailBrandOf("ACME & Co.", undefined, undefined, "cid:logo&more");
  const { html, text } = new MailTemplates().render("reset-password", { link: LINK }, NOBODY, brand);
  expect(html).toMatch(/<header><img src="cid:logo&amp;more" alt="" [^>]*> ACME &amp; Co\.<\/header>/);
  expect(text).not.toContain("cid:");
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
  ["en/reset-password.txt", "Subject\n\nText", "has no {{link}}"],
  ["en/phrases.txt", "unknown: {{ip}}", "has the unknown placeholder {{ip}}"],
  ["en/phrases.txt", "toString: x", "has a line that is no known phrase: toString: x"],
])("a %s of %j is refused", (file, text, problem) => {
  put(file, text);
  expect(problems()).toEqual([`${file} ${problem}`]);
});

test("styles may have braces", () => {
  put("layout.html", "<style>@media print{p{color:red}}</style>{{content}}");
  expect(problems()).toEqual([]);
});

// Root reads everything.
test.skipIf(process.getuid?.() === 0)("the folder of a language that cannot be read is a problem", () => {
  mkdirSync(join(folder, "it"), { mode: 0 });
  expect(new MailTemplates(folder).problems).toEqual(["it/ cannot be read (EACCES)"]);
});

test("every problem is named, whatever else lies in the folder", () => {
  put(MAIL, "{{one}}\n\n{{two}}");
  put("README.md", "{{not a template}}");
  put("en/a-mail-of-tomorrow.txt", "{{x}}");
  put("verify-email.txt", "Flat\n\n{{link}}");
  mkdirSync(join(folder, "pt_br"));
  mkdirSync(join(folder, "..data"));
  symlinkSync("de", join(folder, "de"));
  const templates = new MailTemplates(folder);
  expect(templates.problems).toEqual([
    "de/ cannot be read (ELOOP)",
    "en/refresh-reuse.txt has the unknown placeholder {{one}}",
    "en/refresh-reuse.txt has the unknown placeholder {{two}}",
    "pt_br/ is no language: name it as pt-BR",
    "verify-email.txt lies beside the languages: put it into en/",
  ]);
  expect(new MailTemplates(join(folder, "absent")).problems).toEqual(["the folder cannot be read (ENOENT)"]);
});
