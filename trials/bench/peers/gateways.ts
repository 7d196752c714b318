import { readFileSync, writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import { freePort } from "#tests/support/system/free-port.ts";
import { findPeer, type GatewayContext, type GatewayPeer } from "./peer.ts";
import { type Program, startPrograms } from "./processes.ts";

/** As many as the JWT cache in envoy.yaml. */
const REMEMBERED_TOKENS = 65_536;

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
  haproxy("HAProxy jwt_verify", checks("each time"), true, "verify.cfg"),
  gateway({
    name: "Envoy jwt_authn",
    does: checks("once"),
    checksTokens: true,
    needs: ["envoy"],
    programs: (context, port) => [
      {
        command: program("envoy"),
        args: [
          ...["--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warn"],
          ...["-c", configuration("envoy/envoy.yaml", context, port)],
        ],
        listensAt: { port },
      },
    ],
  }),
  nginx("nginx, verifier that remembers", "once", REMEMBERED_TOKENS),
  nginx("nginx, verifier", "each time", 0),
  gateway({
    name: "Caddy, verifier that remembers",
    does: checks("once"),
    checksTokens: true,
    needs: ["caddy", "verifier"],
    programs: (context, port) => [
      verifier(context, REMEMBERED_TOKENS),
      {
        command: program("caddy"),
        args: ["run", "--adapter", "caddyfile", "--config", configuration("caddy/Caddyfile", context, port)],
        listensAt: { port },
        env: { GOMAXPROCS: "1", XDG_DATA_HOME: context.folder, XDG_CONFIG_HOME: context.folder },
      },
    ],
  }),
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
      const absent = needs.filter((name) => findPeer(name) === undefined);
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

function nginx(name: string, howOften: HowOften, remembered: number): GatewayPeer {
  return gateway({
    name,
    does: checks(howOften),
    checksTokens: true,
    needs: ["nginx", "verifier"],
    programs: (context, port) => [
      verifier(context, remembered),
      {
        command: program("nginx"),
        args: ["-p", context.folder, "-c", configuration("nginx/nginx.conf", context, port)],
        listensAt: { port },
      },
    ],
  });
}

/** What nginx and Caddy ask about every request. */
function verifier(context: GatewayContext, remembered: number): Program {
  const { folder, pemFile, issuer, audience, role } = context;
  const socket = join(folder, "verifier.sock");
  const options = { socket, pem: pemFile, issuer, audience, role, remember: remembered };
  return {
    command: program("verifier"),
    args: Object.entries(options).map(([name, value]) => `-${name}=${value}`),
    listensAt: { path: socket },
    env: { GOMAXPROCS: "1" },
  };
}

type HowOften = "once" | "each time";

function checks(howOften: HowOften): string {
  return `signature (ES256) ${howOften}, exp, iss, aud, role, identity header, log`;
}

function program(name: string): string {
  const path = findPeer(name);
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
