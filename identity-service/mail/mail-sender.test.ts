import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createTransport } from "nodemailer";
import type { SMTPServerOptions } from "smtp-server";
import { afterEach, expect, test } from "vitest";
import { createAuthority, issueCertificate } from "#deploy/certificate-pair.ts";
import { Secret } from "#kit/config/config.ts";
import { freePort } from "#tests/support/system/free-port.ts";
import { startTestSmtp, type TestSmtp } from "../testing/test-smtp.ts";
import { createMailSender, LOGO_URL, type MailSenderOptions } from "./mail-sender.ts";
import { createUtf8Transport } from "./utf8-transport.ts";

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

const MAIL = {
  id: "019a0000-0000-7000-8000-000000000001",
  recipient: "anna@example.com",
  subject: "Grüße",
  text: "as text",
  html: "<p>as HTML</p>",
};
const never = new AbortController().signal;

async function serve(options?: SMTPServerOptions): Promise<TestSmtp> {
  const smtp = await startTestSmtp(options);
  endings.push(() => smtp.close());
  return smtp;
}

function senderTo(port: number, options: Partial<MailSenderOptions> = {}) {
  const sender = createMailSender({
    server: { host: "127.0.0.1", port, isTlsFromStart: false, user: undefined },
    from: { name: 'Gate "house", Inc.', address: "no-reply@gatehouse.example" },
    ...options,
  });
  endings.push(() => sender.close());
  return sender;
}

/** A certificate for 127.0.0.1 and where its authority is. */
async function tlsFor(identity: string) {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-mail-tls-"));
  endings.push(() => rmSync(folder, { recursive: true }));
  const authority = await createAuthority(new Date());
  const pair = await issueCertificate(authority, identity, new Date());
  const caFile = join(folder, "ca.pem");
  writeFileSync(caFile, authority.certificate);
  return { caFile, server: { cert: pair.certificate, key: pair.key } };
}

test("a mail arrives as text and HTML with the right sender and recipient, marked as generated", async () => {
  const smtp = await serve();
  await senderTo(smtp.port).send(MAIL, never);
  expect(smtp.mails).toMatchObject([
    {
      from: "no-reply@gatehouse.example",
      to: ["anna@example.com"],
      messageId: "<019a0000-0000-7000-8000-000000000001@gatehouse.example>",
    },
  ]);
  const raw = smtp.mails[0]?.raw ?? "";
  expect(raw).toContain('From: "Gate \\"house\\", Inc." <no-reply@gatehouse.example>');
  expect(raw).toContain("Subject: =?UTF-8?Q?Gr=C3=BC=C3=9Fe?=");
  expect(raw).toContain("Auto-Submitted: auto-generated");
  expect(raw).toMatch(/multipart\/alternative[\s\S]*as text[\s\S]*<p>as HTML<\/p>/);
  expect(raw.toLowerCase()).not.toContain("nodemailer");
});

test("the operator's logo goes along with the mails that show it, in the mail itself", async () => {
  const smtp = await serve();
  const logo = Buffer.from("\x89PNG an image!\xff", "latin1");
  const sender = senderTo(smtp.port, { logo });
  await sender.send({ ...MAIL, html: `<img src="${LOGO_URL}" alt="">Shop` }, never);
  await sender.send(MAIL, never);
  const [shown = "", plain] = smtp.mails.map(({ raw }) => raw);
  expect(shown).toMatch(
    /multipart\/related[\s\S]*src="cid:logo@gatehouse"[\s\S]*Content-ID: <logo@gatehouse>/i,
  );
  expect(shown).toContain("Content-Disposition: inline; filename=logo.png");
  expect(shown).toContain(logo.toString("base64"));
  expect(plain).not.toContain("logo");
});

test("an address is one address, whatever it looks like", async () => {
  const smtp = await serve();
  for (const recipient of ["a+b@example.com", "o'brien@example.com"]) {
    await senderTo(smtp.port).send({ ...MAIL, recipient }, never);
  }
  expect(smtp.mails.map((mail) => mail.to)).toEqual([["a+b@example.com"], ["o'brien@example.com"]]);
});

test("a line break in a subject makes no header", async () => {
  const smtp = await serve();
  await senderTo(smtp.port).send({ ...MAIL, subject: "one\r\nBcc: eve@evil.example" }, never);
  expect(smtp.mails[0]?.to).toEqual(["anna@example.com"]);
  expect(smtp.mails[0]?.raw).not.toMatch(/^Bcc:/m);
});

test("mails share at most five connections", async () => {
  let most = 0;
  let open = 0;
  const smtp = await serve({
    onConnect(_session, callback) {
      open += 1;
      most = Math.max(most, open);
      callback();
    },
    onClose() {
      open -= 1;
    },
  });
  const sender = senderTo(smtp.port);
  await Promise.all(Array.from({ length: 40 }, () => sender.send(MAIL, never)));
  expect(smtp.mails).toHaveLength(40);
  expect(most).toBeLessThanOrEqual(5);
});

test("a refusal is reported with the server's codes, without its text, which repeats the address", async () => {
  const smtp = await serve();
  const sender = senderTo(smtp.port);
  const unknown = "the address does not exist";
  const utf8 = expect.stringContaining("SMTPUTF8");
  for (const [code, text, reason, finality] of [
    [550, "5.1.1 <anna@example.com> unknown", "EENVELOPE 550 5.1.1", unknown],
    [550, "5.1.10 <anna@example.com> null MX", "EENVELOPE 550 5.1.10", unknown],
    [553, "5.6.7 <anna@example.com> SMTPUTF8 needed", "EENVELOPE 553 5.6.7", utf8],
    [550, "5.6.9 <anna@example.com> no UTF-8", "EENVELOPE 550 5.6.9", utf8],
    [550, "5.6.8 <anna@example.com> no UTF-8 in the answer", "EENVELOPE 550 5.6.8", undefined],
    [550, "5.1.8 <no-reply@gatehouse.example> sender's domain unknown", "EENVELOPE 550 5.1.8", undefined],
    [554, "5.7.1 <anna@example.com> relay denied", "EENVELOPE 554 5.7.1", undefined],
    [550, "anna@example.com: no", "EENVELOPE 550", undefined],
    [451, "4.1.1 <anna@example.com> later", "EENVELOPE 451", undefined],
  ] as const) {
    smtp.refuseRecipients({ code, text });
    const refused = { name: "MailNotSent", message: reason, reason, finality };
    await expect(sender.send(MAIL, never)).rejects.toMatchObject(refused);
  }
});

test("an unreachable server fails at once", async () => {
  const refused = { reason: "ECONNREFUSED", finality: undefined };
  await expect(senderTo(await freePort()).send(MAIL, never)).rejects.toMatchObject(refused);
});

test("the signal aborts a send to a silent server, and a send that waits for a connection", async () => {
  const sockets: Socket[] = [];
  const silent = createServer((socket) => {
    socket.resume().write("220 silent from here on\r\n");
    sockets.push(socket);
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => silent.once("listening", resolve));
  endings.push(() => {
    for (const socket of sockets) socket.destroy();
    silent.close();
  });
  const sender = senderTo((silent.address() as { port: number }).port);
  const leaving = new AbortController();
  const sent = Promise.allSettled(Array.from({ length: 8 }, () => sender.send(MAIL, leaving.signal)));
  await expect.poll(() => sockets.length).toBe(5);
  leaving.abort();
  const results = await sent;
  expect(results.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => "rejected"));
});

test("a connection that ends after the mail was handed over is a failure, and the mail is not sent again from here", async () => {
  const smtp = await serve();
  smtp.onMail = async () => {
    smtp.cut();
    await new Promise(() => undefined);
  };
  const sender = senderTo(smtp.port);
  await expect(sender.send(MAIL, never)).rejects.toMatchObject({ name: "MailNotSent" });
  smtp.onMail = async () => undefined;
  // What the sender had put back into its queue would go out before this one.
  await sender.send({ ...MAIL, recipient: "bert@example.com" }, never);
  expect(smtp.mails.map(({ to }) => to)).toEqual([["anna@example.com"], ["bert@example.com"]]);
});

test("STARTTLS with authentication: the password goes to a server that our CA has vouched for", async () => {
  const { caFile, server } = await tlsFor("relay");
  const logins: unknown[] = [];
  const smtp = await serve({
    ...server,
    disabledCommands: [],
    onAuth(auth, session, callback) {
      logins.push([auth.username, auth.password, session.secure]);
      callback(null, { user: auth.username });
    },
  });
  const sender = senderTo(smtp.port, {
    server: { host: "localhost", port: smtp.port, isTlsFromStart: false, user: "gatehouse" },
    password: new Secret("a password"),
    requireTls: true,
    caFile,
  });
  await sender.send(MAIL, never);
  expect(logins).toEqual([["gatehouse", "a password", true]]);
  expect(smtp.mails).toHaveLength(1);
});

test("a wrong password is a failure that names no password", async () => {
  const { caFile, server } = await tlsFor("relay");
  const smtp = await serve({
    ...server,
    secure: true,
    disabledCommands: [],
    onAuth: (auth, _session, callback) => callback(new Error(`wrong: ${auth.password}`)),
  });
  const sender = senderTo(smtp.port, {
    server: { host: "127.0.0.1", port: smtp.port, isTlsFromStart: true, user: "gatehouse" },
    password: new Secret("a password"),
    caFile,
  });
  await expect(sender.send(MAIL, never)).rejects.toMatchObject({ message: "EAUTH 535", reason: "EAUTH 535" });
});

test("TLS that is required and not offered, or offered by a stranger: no mail, no password", async () => {
  const { caFile } = await tlsFor("relay");
  const plain = await serve();
  await expect(senderTo(plain.port, { requireTls: true }).send(MAIL, never)).rejects.toMatchObject({
    name: "MailNotSent",
  });

  const stranger = await tlsFor("stranger");
  for (const isTlsFromStart of [false, true]) {
    const smtp = await serve({
      ...stranger.server,
      secure: isTlsFromStart,
      disabledCommands: [],
      authOptional: true,
    });
    const server = { host: "localhost", port: smtp.port, isTlsFromStart, user: undefined };
    const refused = senderTo(smtp.port, { server, requireTls: true, caFile }).send(MAIL, never);
    await expect(refused).rejects.toMatchObject({
      name: "MailNotSent",
      message: expect.stringMatching(/certificate/),
    });
    expect(smtp.mails).toEqual([]);
  }
  expect(plain.mails).toEqual([]);
});

test("on this machine STARTTLS is not asked for, so that any local relay will do", async () => {
  const stranger = await tlsFor("stranger");
  const smtp = await serve({ ...stranger.server, disabledCommands: ["AUTH"] });
  await senderTo(smtp.port).send(MAIL, never);
  expect(smtp.mails).toHaveLength(1);
});

const JÜRGEN = { ...MAIL, recipient: "jürgen@example.com" };
const utf8Needed = {
  name: "MailNotSent",
  reason: "no SMTPUTF8",
  finality: expect.stringContaining("SMTP_UTF8"),
};

/** Counts the mails that a client begins, with whatever recipient. */
async function counting(options: SMTPServerOptions = {}) {
  const begun: string[] = [];
  const smtp = await serve({
    onMailFrom({ address, args }, _session, callback) {
      begun.push(`${address} ${"SMTPUTF8" in (args || {})}`);
      callback();
    },
    ...options,
  });
  return { smtp, begun };
}

test("an address with letters beyond ASCII before its @ goes to a server that offers SMTPUTF8, and is marked so", async () => {
  const { smtp, begun } = await counting();
  await senderTo(smtp.port).send(JÜRGEN, never);
  expect(smtp.mails).toMatchObject([{ to: ["jürgen@example.com"] }]);
  expect(smtp.mails[0]?.raw).toMatch(/^To: jürgen@example.com\r$/m);
  expect(begun).toEqual(["no-reply@gatehouse.example true"]);
});

test.each([
  "jürgen@example.com",
  "田中@example.com",
  "иван@example.com",
  "josé.o'neil+a@example.com",
  "jürgen@bücher.example",
])("%s never goes to a server without SMTPUTF8, over a connection in use neither", async (recipient) => {
  const { smtp, begun } = await counting({ hideSMTPUTF8: true });
  const sender = senderTo(smtp.port);
  await sender.send(MAIL, never);
  const sent = sender.send({ ...MAIL, recipient }, never);
  await expect(sent).rejects.toMatchObject(utf8Needed);
  await sender.send(MAIL, never);
  expect(begun).toEqual(["no-reply@gatehouse.example false", "no-reply@gatehouse.example false"]);
  expect(smtp.mails.map(({ to }) => to)).toEqual([["anna@example.com"], ["anna@example.com"]]);
});

test("a sender's address with letters beyond ASCII before its @ never goes to a server without SMTPUTF8 either", async () => {
  const { smtp, begun } = await counting({ hideSMTPUTF8: true });
  const sender = senderTo(smtp.port, { from: { name: "", address: "grüße@gatehouse.example" } });
  await expect(sender.send(MAIL, never)).rejects.toMatchObject(utf8Needed);
  expect(begun).toEqual([]);
  smtp.offerUtf8(true);
  await sender.send(MAIL, never);
  expect(begun).toEqual(["grüße@gatehouse.example true"]);
});

test("what a server offered once counts no more when it does not offer it now, and the other way round", async () => {
  const { smtp, begun } = await counting();
  const sender = senderTo(smtp.port);
  await sender.send(JÜRGEN, never);
  smtp.offerUtf8(false);
  await expect(sender.send(JÜRGEN, never)).rejects.toMatchObject(utf8Needed);
  smtp.offerUtf8(true);
  await sender.send(JÜRGEN, never);
  expect(begun).toHaveLength(2);
  expect(smtp.mails).toHaveLength(2);
});

test("a server that knows HELO only is sent no address beyond ASCII", async () => {
  const { smtp, begun } = await counting({ disabledCommands: ["EHLO", "STARTTLS", "AUTH"] });
  const sender = senderTo(smtp.port);
  await sender.send(MAIL, never);
  await expect(sender.send(JÜRGEN, never)).rejects.toMatchObject(utf8Needed);
  expect(begun).toHaveLength(1);
});

test.each([
  { plain: true, withinTls: false, mails: 0 },
  { plain: false, withinTls: true, mails: 1 },
])(
  "with STARTTLS the answer within TLS counts: SMTPUTF8 $plain, then $withinTls",
  async ({ plain, withinTls, mails }) => {
    const { caFile, server } = await tlsFor("relay");
    const logins: string[] = [];
    const { smtp, begun } = await counting({
      ...server,
      hideSMTPUTF8: !plain,
      disabledCommands: [],
      onAuth(auth, _session, callback) {
        logins.push(auth.username ?? "");
        callback(null, { user: auth.username });
      },
      onSecure(_socket, _session, callback) {
        smtp.offerUtf8(withinTls);
        callback();
      },
    });
    const sender = senderTo(smtp.port, {
      server: { host: "localhost", port: smtp.port, isTlsFromStart: false, user: "gatehouse" },
      password: new Secret("a password"),
      requireTls: true,
      caFile,
    });
    const sent = sender.send(JÜRGEN, never).catch((error: unknown) => error);
    if (mails === 0) expect(await sent).toMatchObject(utf8Needed);
    else expect(await sent).toBe("250 taken");
    expect(begun).toHaveLength(mails);
    expect(smtp.mails).toHaveLength(mails);
    expect(logins).toHaveLength(mails);
  },
);

test("an international domain goes as punycode, to a server without SMTPUTF8 too", async () => {
  const { smtp } = await counting({ hideSMTPUTF8: true });
  // The test's server decodes punycode.
  let bytes = "";
  const tap = createServer((client) => {
    const server = connect(smtp.port, "127.0.0.1");
    client.on("data", (chunk) => {
      bytes += chunk.toString("latin1");
    });
    client.pipe(server).pipe(client);
    for (const socket of [client, server]) socket.on("error", () => undefined);
  }).listen(0, "127.0.0.1");
  endings.push(() => tap.close());
  await new Promise((resolve) => tap.once("listening", resolve));
  const sender = senderTo((tap.address() as { port: number }).port);
  await sender.send({ ...MAIL, recipient: "anna@bücher.example" }, never);
  expect(bytes).toContain("RCPT TO:<anna@xn--bcher-kva.example>");
  expect(bytes).toMatch(/^[\0-\x7f]*$/);
});

test("mails to addresses beyond ASCII share five connections, and what one of them meets is reported of it alone", async () => {
  let most = 0;
  let open = 0;
  const smtp = await serve({
    onConnect(_session, callback) {
      open += 1;
      most = Math.max(most, open);
      callback();
    },
    onClose() {
      open -= 1;
    },
    onRcptTo({ address }, _session, callback) {
      callback(address.startsWith("ö3") ? Object.assign(new Error("5.1.1 no"), { responseCode: 550 }) : null);
    },
  });
  const sender = senderTo(smtp.port);
  const sent = await Promise.allSettled(
    Array.from({ length: 20 }, (_, index) =>
      sender.send({ ...MAIL, recipient: `ö${index}@example.com` }, never),
    ),
  );
  const refused = sent.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
  expect(refused).toMatchObject([{ reason: "EENVELOPE 550 5.1.1", finality: "the address does not exist" }]);
  expect(smtp.mails).toHaveLength(19);
  expect(most).toBeLessThanOrEqual(5);
});

test("for addresses beyond ASCII too: an absent server and a wrong password are failures, and the signal aborts all", async () => {
  const absent = senderTo(await freePort()).send(JÜRGEN, never);
  await expect(absent).rejects.toMatchObject({ reason: "ECONNREFUSED", finality: undefined });

  const { caFile, server: pair } = await tlsFor("relay");
  const secure = await serve({
    ...pair,
    secure: true,
    disabledCommands: [],
    onAuth: (auth, _session, callback) => callback(new Error(`wrong: ${auth.password}`)),
  });
  const server = { host: "127.0.0.1", port: secure.port, isTlsFromStart: true, user: "gatehouse" };
  const wrong = senderTo(secure.port, { server, password: new Secret("a password"), caFile });
  await expect(wrong.send(JÜRGEN, never)).rejects.toMatchObject({ message: "EAUTH 535" });

  const sockets: Socket[] = [];
  const silent = createServer((socket) => {
    socket.resume().write("220 silent from here on\r\n");
    sockets.push(socket);
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => silent.once("listening", resolve));
  endings.push(() => {
    for (const socket of sockets) socket.destroy();
    silent.close();
  });
  const { port } = silent.address() as { port: number };
  // No deadline ends these connections.
  const utf8 = createTransport(createUtf8Transport({ port, maxConnections: 5, socketTimeout: 600_000 }));
  const leaving = new AbortController();
  const mail = { from: "gatehouse@example.com", to: JÜRGEN.recipient, signal: leaving.signal };
  const sent = Promise.allSettled(Array.from({ length: 8 }, () => utf8.sendMail(mail)));
  await expect.poll(() => sockets.length).toBe(5);
  leaving.abort();
  expect((await sent).map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => "rejected"));
  await expect.poll(() => sockets.filter(({ readableEnded }) => readableEnded).length).toBe(5);
  expect(sockets).toHaveLength(5);
});

test("a connection that the server ends is a failure of a mail to an address beyond ASCII, and is not repeated here", async () => {
  const smtp = await serve();
  smtp.onMail = async () => {
    smtp.cut();
    await new Promise(() => undefined);
  };
  await expect(senderTo(smtp.port).send(JÜRGEN, never)).rejects.toMatchObject({
    name: "MailNotSent",
    finality: undefined,
  });
  expect(smtp.mails).toHaveLength(1);
});
