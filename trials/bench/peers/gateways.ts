import { readFileSync, writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import { freePort } from "#tests/support/system/free-port.ts";
import { findProgram, type GatewayContext, type GatewayPeer } from "./peer.ts";
import { type Program, startPrograms } from "./processes.ts";

/** Gateways, each with one thread where it can be told so, because Gatehouse's gateway is one process. */
export const GATEWAYS: readonly GatewayPeer[] = [
  gateway({
    name: "@fastify/http-proxy",
    does: "nothing",
    checksTokens: false,
    needs: [],
    programs: ({ upstreamPort }, port) => [
      {
        command: process.execPath,
        args: [join(import.meta.dirname, "http-proxy", "main.ts"), String(port), String(upstreamPort)],
        listensAt: { port },
      },
    ],
  }),
  haproxy("HAProxy", "nothing", false, "bare.cfg"),
  haproxy(
    "HAProxy jwt_verify",
    "signature (ES256) each time, exp, iss, aud, role, identity header, log",
    true,
    "verify.cfg",
  ),
];

interface Gateway extends Pick<GatewayPeer, "name" | "does" | "checksTokens"> {
  /** Programs that `setup.sh` installs. */
  needs: readonly string[];
  /** The last of them listens on `port`. */
  programs(context: GatewayContext, port: number): Program[];
}

function gateway({ needs, programs, ...shown }: Gateway): GatewayPeer {
  return {
    ...shown,
    missing() {
      const absent = needs.filter((name) => findProgram(name) === undefined);
      if (absent.length === 0) return undefined;
      return `${absent.join(" and ")} not installed: run trials/bench/peers/setup.sh ${absent.join(" ")}`;
    },
    async start(context) {
      const port = await freePort();
      const running = await startPrograms(context.folder, programs(context, port));
      return { ...running, url: `http://127.0.0.1:${port}` };
    },
  };
}

function haproxy(name: string, does: string, checksTokens: boolean, file: string): GatewayPeer {
  return gateway({
    name,
    does,
    checksTokens,
    needs: ["haproxy"],
    programs: (context, port) => [
      {
        command: program("haproxy"),
        args: ["-db", "-f", configuration(`haproxy/${file}`, context, port)],
        listensAt: { port },
      },
    ],
  });
}

function program(name: string): string {
  const path = findProgram(name);
  if (path === undefined) throw new Error(`${name} is not installed`);
  return path;
}

/** Writes a configuration with every `{{name}}` replaced into the folder of the peer. @returns its path. */
function configuration(file: string, context: GatewayContext, port: number): string {
  const values = new Map<string, string>(
    Object.entries({ ...context, port, user: userInfo().username }).map(([name, value]) => [
      name,
      String(value),
    ]),
  );
  const text = readFileSync(join(import.meta.dirname, file), "utf8").replaceAll(
    /\{\{(\w+)\}\}/g,
    (_, name) => {
      const value = values.get(name);
      if (value === undefined) throw new Error(`${file} names {{${name}}}, which nothing sets`);
      return value;
    },
  );
  const written = join(context.folder, file.replaceAll("/", "-"));
  writeFileSync(written, text);
  return written;
}
