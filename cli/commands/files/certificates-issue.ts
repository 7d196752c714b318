import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { CliError } from "../../cli-error.ts";
import type { Command } from "../../command.ts";
import { readProcesses } from "../../doctor/known-system.ts";
import { EXIT } from "../../exit-code.ts";
import { localPorts } from "../../local-ports.ts";
import { UsageError } from "../../usage-error.ts";
import { replaceFile } from "../replaced-file.ts";

const VERIFIERS_LINE = /^[ \t]*(?:export[ \t]+)?VERIFIERS[ \t]*=.*$/gm;

export const certificatesIssue: Command = {
  name: "certificates issue",
  summary: "Issue a certificate for a service of yours, which verifies tokens beside the local Gatehouse",
  details:
    "`certificates issue my-shop` writes tls/my-shop.crt and tls/my-shop.key of the home of `npm start`, signed by its authority, " +
    "and adds my-shop to VERIFIERS in services/token-service.env. It prints what the service needs as NAME=value, for a " +
    "shell or for `node --env-file`. `npm start` renews the certificate when it starts. For production: docs/verify-tokens.md.",
  positionals: ["name"],
  options: { renew: { type: "boolean", description: "replace the certificate and the key that are there" } },
  async run({ positionals, flags }, backend) {
    const [name = ""] = positionals;
    const { isNameForVerifier, issueForVerifier, certificateFiles, ...local } = await localGatehouse();
    if (!isNameForVerifier(name)) {
      throw new UsageError(
        `<name> must be 1 to 63 of a-z, 0-9 and -, and none of Gatehouse's own names: not ${name}`,
        "gatehouse certificates issue --help",
      );
    }
    const home = await openedHome(backend.home, local);
    const files = certificateFiles(home.tls, name);
    if (!flags.has("renew") && (existsSync(files.certificate) || existsSync(files.key))) {
      const message = `${files.certificate} is there already: add --renew to replace it and its key`;
      throw new CliError(message, { exitCode: EXIT.output, code: "output" });
    }
    const port = localPorts(home.path)?.TOKEN_PORT;
    const until = port === undefined ? undefined : await issueForVerifier(home.tls, name, new Date());
    if (until === undefined || port === undefined) throw unusable(home.path, "Run `npm start` on it once");
    await addVerifier(join(home.services, "token-service.env"), name);
    const known = readProcesses(home.path).environments.get("token-service")?.VERIFIERS?.split(",") ?? [];
    const needsStart = !known.includes(name);
    const settings = {
      TOKEN_SERVICE_ADDRESS: `127.0.0.1:${port}`,
      TLS_CERT_FILE: files.certificate,
      TLS_KEY_FILE: files.key,
      TLS_CA_FILE: files.authority,
    };
    const text = [
      `# spiffe://gatehouse/${name}, until ${until.toISOString()}`,
      needsStart
        ? "# token-service accepts it from the next start on: npm start -- stop, then npm start"
        : "# token-service accepts it already; a service that runs uses the new files within a minute",
      ...Object.entries(settings).map(([variable, value]) => `export ${variable}=${quoted(value)}`),
    ];
    return { text: text.join("\n"), json: { name, until: until.toISOString(), needsStart, settings } };
  },
};

type Local = Awaited<ReturnType<typeof localGatehouse>>;

async function localGatehouse() {
  const modules = [import("#deploy/local/certificates.ts"), import("#deploy/local/home.ts")] as const;
  const [certificates, home] = await fromRepository(Promise.all(modules));
  return { ...certificates, ...home };
}

/** The image has neither such modules nor the library that signs. */
export async function fromRepository<M>(modules: Promise<M>): Promise<M> {
  return modules.catch((cause: unknown) => {
    const message =
      "This command needs the repository in which `npm start` runs. For production: docs/verify-tokens.md.";
    throw new CliError(message, { exitCode: EXIT.config, code: "configuration", cause });
  });
}

/** Writes to no folder that is no home, and to none of another user. */
async function openedHome(path: string, { isHome, openHome }: Pick<Local, "isHome" | "openHome">) {
  if (!isHome(path)) throw unusable(path, "Name the folder of `npm start` with --home");
  try {
    return await openHome(path);
  } catch (error) {
    throw unusable(path, error instanceof Error ? error.message : String(error));
  }
}

function unusable(path: string, what: string): CliError {
  const message = `${path} is not the home of a local Gatehouse with an authority. ${what}.`;
  return new CliError(message, { exitCode: EXIT.config, code: "configuration" });
}

/** Keeps the other lines of the file. */
async function addVerifier(path: string, name: string): Promise<void> {
  const read = async () => (existsSync(path) ? await readFile(path, "utf8") : "");
  const before = await read();
  const names = (parseEnv(before).VERIFIERS ?? "").split(",").map((each) => each.trim());
  if (names.includes(name)) return;
  const list = [...names.filter((each) => each !== ""), name].join(",");
  const line = `VERIFIERS=${list}`;
  const replaced = before.replaceAll(VERIFIERS_LINE, line);
  const after = replaced === before ? `${before.replace(/(?<!\n)$/, before && "\n")}${line}\n` : replaced;
  await replaceFile(path, { force: true }, async (file) => {
    await file.writeFile(after);
    if (parseEnv(after).VERIFIERS === list && (await read()) === before) return;
    throw new CliError(`${path} was not changed: add ${name} to VERIFIERS there`, {
      exitCode: EXIT.output,
      code: "output",
    });
  });
}

/** For shells. */
function quoted(value: string): string {
  return /^[\w./:-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
}
