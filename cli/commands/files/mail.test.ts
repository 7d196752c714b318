import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { MAILS } from "#identity-service/mail/mail.ts";
import { startTestSmtp } from "#identity-service/testing/test-smtp.ts";
import { EXIT } from "../../exit-code.ts";
import { run } from "../../run.ts";
import { COMMANDS } from "../commands.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gatehouse-mail-"));
  mkdirSync(join(folder, "mails", "it"), { recursive: true });
});
afterEach(() => rmSync(folder, { recursive: true }));

const put = (file: string, text: string) => writeFileSync(join(folder, file), text, { mode: 0o600 });
const mails = () => join(folder, "mails");

async function mail(environment: Record<string, string>, ...argv: string[]) {
  const printed: Record<"out" | "error", string[]> = { out: [], error: [] };
  const code = await run(["mail", ...argv], COMMANDS, {
    environment,
    defaultHome: "/no such home",
    writeOut: (line) => void printed.out.push(line),
    writeError: (line) => void printed.error.push(line),
  });
  return { code, out: printed.out.join(""), error: printed.error.join("") };
}

test("what a language lacks is listed with the language that is sent, and a misspelt file is named", async () => {
  put("mails/it/invitation.txt", "Invito\n\nImposta la password:\n{{link}}");
  put("mails/it/invitaton.txt", "Invito\n\n{{link}}");
  put("mails/it/phrases.txt", "unknown: sconosciuto");
  const { code, out } = await mail({ MAIL_TEMPLATES_DIR: mails(), MAIL_DEFAULT_LANGUAGE: "de" }, "check");
  expect(code).toBe(EXIT.ok);
  expect(out).toContain("de: complete\nen: complete\nes: complete\nfr: complete\nit: 41 missing\n");
  expect(out).toContain("  verify-email.txt, sent in de\n");
  expect(out).toContain("  footer.txt, sent in de\n");
  expect(out).toContain("  nothing of phrases.txt, sent in de\n");
  expect(out).not.toContain("  invitation.txt");
  expect(out).not.toContain("  unknown of");
  expect(out).toContain(
    "Warning: it/invitaton.txt is the name of no mail: it is not read\nBy the environment.",
  );
});

test("every problem of a folder is an error of the configuration, and no secret is needed to see it", async () => {
  put("mails/it/invitation.txt", "Invito\n\nCiao {{name}}");
  const environment = { SMTP_URL: "smtp://user@mail.example", SMTP_PASSWORD_FILE: "/no such file" };
  const refused = await mail(environment, "check", "--templates", mails());
  expect([refused.code, refused.out]).toEqual([EXIT.config, ""]);
  expect(refused.error).toContain(
    "MAIL_TEMPLATES_DIR: it/invitation.txt has the unknown placeholder {{name}}",
  );
  expect(refused.error).toContain("MAIL_TEMPLATES_DIR: it/invitation.txt has no {{link}}");
  expect((await mail(environment, "check")).code).toBe(EXIT.ok);
});

test("a preview has every mail in each language as it would be sent, and a page that shows them in sandboxes", async () => {
  put("mails/it/invitation.txt", "Invito <b>\n\nImposta la password:\n{{link}}");
  const output = join(folder, "out");
  const environment = {
    MAIL_TEMPLATES_DIR: mails(),
    BRAND_NAME: "Müller & Söhne",
    BRAND_COLOR: "7a1f5c",
    SUPPORT_URL: "mailto:help@shop.example",
    PUBLIC_ORIGIN: "https://shop.example",
  };
  const { code, out } = await mail(environment, "preview", "--output", output);
  expect([code, out]).toEqual([EXIT.ok, expect.stringContaining(`open ${join(output, "index.html")}`)]);
  expect(readdirSync(output).sort()).toEqual(["de", "en", "es", "fr", "index.html", "it"]);
  const [html = "", text = ""] = ["html", "txt"].map((kind) =>
    readFileSync(join(output, "it", `invitation.${kind}`), "utf8"),
  );
  expect(html).toContain("Müller &amp; Söhne");
  expect(html).toContain(".button a { background: #7a1f5c; color: #ffffff; }");
  expect(text).toMatch(
    /Imposta la password:\nhttps:\/\/shop\.example\/auth\/reset-password\?token=[\w-]{43}\n/,
  );
  expect(text).toContain("mailto:help@shop.example");
  const index = readFileSync(join(output, "index.html"), "utf8");
  const frames = [...index.matchAll(/<iframe sandbox [^>]* src="([^"]+)">/g)].map(([, path = ""]) => path);
  expect(frames).toHaveLength(Object.keys(MAILS).length * 5);
  expect(frames.filter((path) => !existsSync(join(output, path)))).toEqual([]);
  expect(index).toContain("Invito &lt;b&gt;");
  expect(index).toContain("Mails of Müller &amp; Söhne");
  expect(index).not.toContain("<b>\n");

  expect((await mail(environment, "preview", "--output", output)).code).toBe(EXIT.output);
  expect((await mail(environment, "preview", "--output", output, "--force")).code).toBe(EXIT.ok);
});

test("one mail in one language is printed, and an unknown name or language is refused with those that there are", async () => {
  const { out } = await mail({}, "preview", "password-reset", "--language", "fr");
  expect(out).toMatch(/^--- password-reset \(fr\): /);
  expect(out).not.toContain("{{");
  expect(out.match(/^--- /gm)).toHaveLength(1);
  for (const [argv, said] of [
    [["invitaton"], "There is no mail of the name invitaton, but of account-claimed, "],
    [["invitation", "--language", "xx"], "There is no mail of the language xx, but of de, en, es, fr"],
    [[], "Name a mail, or a folder for all with --output"],
  ] as const) {
    const { code, error } = await mail({}, "preview", ...argv);
    expect([code, error]).toEqual([EXIT.usage, expect.stringContaining(said)]);
  }
});

/** Answers the password with it, in each form. */
async function echoingSmtp() {
  const said = ["220 hi", "250-hi\r\n250 AUTH PLAIN"];
  const server = createServer((socket) => {
    socket.write(`${said[0]}\r\n`);
    socket.on("data", (data) => {
      const [word = "", , given = ""] = data.toString().trim().split(" ");
      if (word === "EHLO") socket.write(`${said[1]}\r\n`);
      else {
        const plain = Buffer.from(given, "base64").toString().split("\0").at(-1) ?? "";
        socket.write(`535 5.7.8 no: ${given} ${plain} ${Buffer.from(plain).toString("base64")} \x1b[2J\r\n`);
      }
    });
    socket.on("error", () => undefined);
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return { port: (server.address() as { port: number }).port, close: () => server.close() };
}

test("a test mail is sent as the service would, and the server's answer is printed", async () => {
  const smtp = await startTestSmtp();
  const environment = {
    SMTP_URL: `smtp://127.0.0.1:${smtp.port}`,
    MAIL_FROM: "Shop <no-reply@shop.example>",
    BRAND_NAME: "Shop",
  };
  try {
    for (const recipient of ["anna@example.com", "ånna@example.com"]) {
      const sent = await mail(environment, "test", "--to", recipient);
      expect([sent.code, sent.error]).toEqual([EXIT.ok, ""]);
      expect(sent.out).toContain(
        `127.0.0.1 has taken the mail from no-reply@shop.example to ${recipient}.\nThe mail server's answer: 250 taken`,
      );
    }
    expect(smtp.mails.map(({ to }) => to)).toEqual([["anna@example.com"], ["ånna@example.com"]]);
    expect(smtp.mails[0]?.raw).toContain("Subject: Test mail of Shop");
    smtp.refuseRecipients({ code: 550, text: "5.1.1 nobody of this name" });
    const refused = await mail(environment, "test", "--to", "anna@example.com");
    expect(refused.code).toBe(EXIT.failed);
    expect(refused.error).toContain("was not sent by 127.0.0.1: the address does not exist");
    expect(refused.error).toContain("The mail server's answer: 550 5.1.1 nobody of this name");
  } finally {
    await smtp.close();
  }
  const gone = await mail(environment, "test", "--to", "anna@example.com");
  expect([gone.code, gone.error]).toEqual([EXIT.failed, expect.stringContaining("ECONNREFUSED")]);
  expect((await mail({}, "test", "--to", "anna@example.com")).error).toContain("SMTP_URL: is required");
  expect((await mail(environment, "test", "--to", "anna")).code).toBe(EXIT.usage);
});

test("the password is not printed, whatever the mail server answers", async () => {
  const smtp = await echoingSmtp();
  put("password", "treasure-of-the-shop");
  const environment = {
    SMTP_URL: `smtp://shop@127.0.0.1:${smtp.port}`,
    SMTP_PASSWORD_FILE: join(folder, "password"),
    MAIL_FROM: "no-reply@shop.example",
  };
  for (const json of [[], ["--json"]]) {
    const { code, out, error } = await mail(environment, "test", "--to", "anna@example.com", ...json);
    expect([code, out]).toEqual([EXIT.failed, ""]);
    expect(error).toContain("the mail server refused the user or the password");
    expect(error).toContain("535 5.7.8 no: [password] [password] [password]");
    expect(error).not.toMatch(/treasure|dHJlYXN1cmUt|\p{Cc}\[/u);
  }
  smtp.close();
});
