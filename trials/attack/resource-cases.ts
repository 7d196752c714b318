import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { logIn, newAccount, PASSWORD } from "./account.ts";
import { type AttackCase, call, freshAddress, must, type Target } from "./target.ts";

/** More than the 12,000 logins a minute that all networks together may try, also while they come back at 200 a second. */
const FLOOD_CALLS = 20_000;
/** Each of them costs an entry of the audit log. */
const GARBAGE_REFRESHES = 6_000;
const FLOOD_SOCKETS_AT_ONCE = 30;
/** Of one network; each has 300 logins a minute. */
const CALLS_OF_A_SOCKET = 100;
const FLOOD_MS = 60_000;
const UPLOADS = 300;

/** Sends calls behind one another from a network of its own. Resolves once all are answered, or the other side closes. */
function sendBurst(target: Target, request: string): Promise<void> {
  const { hostname: host, port } = target.url;
  return new Promise((resolve) => {
    const socket = connect({ port: Number(port), host, localAddress: freshAddress(), family: 4 });
    let answers = 0;
    socket.setTimeout(FLOOD_MS, () => socket.destroy());
    socket.on("error", () => {});
    socket.on("close", () => resolve());
    socket.on("data", (chunk) => {
      answers += chunk.toString("latin1").split("HTTP/1.1 ").length - 1;
      if (answers >= CALLS_OF_A_SOCKET) socket.destroy();
    });
    socket.write(request.repeat(CALLS_OF_A_SOCKET));
  });
}

/** Calls from as many networks as it takes, each with a hundred, thirty networks at a time. */
async function flood(target: Target, count: number, path: string, body: object): Promise<void> {
  const text = JSON.stringify(body);
  const request =
    `POST ${path} HTTP/1.1\r\nHost: ${target.url.host}\r\nContent-Type: application/json\r\n` +
    `Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
  let bursts = count / CALLS_OF_A_SOCKET;
  const sender = async () => {
    while (bursts > 0) {
      bursts -= 1;
      await sendBurst(target, request);
    }
  };
  await Promise.all(Array.from({ length: FLOOD_SOCKETS_AT_ONCE }, sender));
}

/** A POST whose body comes a few bytes a second. */
function slowUpload(target: Target, token: string, from: string): Socket {
  const socket = connect({
    port: Number(target.url.port),
    host: target.url.hostname,
    localAddress: from,
    family: 4,
  });
  socket.on("error", () => {});
  socket.write(
    `POST /payments HTTP/1.1\r\nHost: ${target.url.host}\r\nAuthorization: Bearer ${token}\r\n` +
      "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
  );
  const chunk = `${(1_100).toString(16)}\r\n${" ".repeat(1_100)}\r\n`;
  const timer = setInterval(() => socket.writable && socket.write(chunk), 1_000);
  socket.on("close", () => clearInterval(timer));
  return socket;
}

async function closesWithin(socket: Socket, limitMs: number): Promise<boolean> {
  socket.resume();
  const closed = new Promise<boolean>((resolve) => socket.once("close", () => resolve(true)));
  return Promise.race([closed, sleep(limitMs, false)]);
}

export const RESOURCE_CASES: readonly AttackCase[] = [
  {
    name: "resources: a flood of logins from hundreds of networks leaves others their login and their refresh",
    run: async (target) => {
      const { email, from, ...account } = await newAccount(target);
      const body = { email: "nobody", password: "x" };
      await flood(target, FLOOD_CALLS, "/auth/login", body);
      const goesOn = flood(target, FLOOD_CALLS / 4, "/auth/login", body);
      try {
        for (let count = 0, { refreshToken } = account; count < 5; count += 1) {
          const login = await logIn(target, email, PASSWORD, from);
          must(login.status === 200, `login: ${login.status}`);
          const refreshed = await call(target, "POST", "/auth/refresh", { body: { refreshToken }, from });
          must(refreshed.status === 200, `refresh: ${refreshed.status}`);
          refreshToken = refreshed.body.data.refreshToken;
        }
      } finally {
        await goesOn;
      }
    },
  },
  {
    name: "resources: a flood of garbage refresh tokens leaves others their refresh and their logout",
    run: async (target) => {
      const { refreshToken, from } = await newAccount(target);
      const body = { refreshToken: "e30.e30.e30" };
      await flood(target, GARBAGE_REFRESHES, "/auth/refresh", body);
      const goesOn = flood(target, GARBAGE_REFRESHES / 2, "/auth/refresh", body);
      try {
        const refreshed = await call(target, "POST", "/auth/refresh", { body: { refreshToken }, from });
        must(refreshed.status === 200, `refresh: ${refreshed.status}`);
        const token = refreshed.body.data.accessToken as string;
        const out = await call(target, "POST", "/auth/logout", { token, from });
        must(out.status === 200, `logout: ${out.status}`);
      } finally {
        await goesOn;
      }
    },
  },
  {
    name: "resources: a hundred refreshes of one session at once have one answer, and leave others their refresh and their login",
    run: async (target) => {
      const [busy, { email, from, ...other }] = [await newAccount(target), await newAccount(target)];
      const refresh = (refreshToken: string, at: string) =>
        call(target, "POST", "/auth/refresh", { body: { refreshToken }, from: at });
      const all = Promise.all(Array.from({ length: 100 }, () => refresh(busy.refreshToken, busy.from)));
      for (let count = 0, { refreshToken } = other; count < 5; count += 1) {
        const { status, body } = await refresh(refreshToken, from);
        must(status === 200, `the other one's refresh: ${status}`);
        refreshToken = body.data.refreshToken;
      }
      const login = await logIn(target, email, PASSWORD, from);
      must(login.status === 200, `the other one's login: ${login.status}`);
      const answers = await all;
      const right = answers.filter(({ status }) => status === 200);
      const pairs = new Set(right.map(({ body }) => body.data.refreshToken));
      must(right.length === 100 && pairs.size === 1, `${right.length} answered, ${pairs.size} successors`);
    },
  },
  {
    name: "resources: one user's slow uploads leave others the upstream",
    run: async (target) => {
      const attacker = await newAccount(target);
      const victim = await newAccount(target);
      const sockets = Array.from({ length: UPLOADS }, () =>
        slowUpload(target, attacker.accessToken, attacker.from),
      );
      try {
        for (let round = 0; round < 5; round += 1) {
          await sleep(1_000);
          const { accessToken: token, from } = victim;
          const { status } = await call(target, "GET", "/payments", { token, from });
          must(status === 200, `the other user's GET: ${status}`);
        }
        const open = sockets.filter(({ closed, destroyed }) => !closed && !destroyed).length;
        must(open <= 64, `${open} uploads of one user are open`);
      } finally {
        for (const socket of sockets) socket.destroy();
      }
    },
  },
  {
    name: "resources: a call that is under way ends with its session",
    run: async (target) => {
      const { accessToken: token, from } = await newAccount(target);
      const upload = slowUpload(target, token, from);
      try {
        must(!(await closesWithin(upload, 1_000)), "the upload ended before its session");
        const out = await call(target, "POST", "/auth/logout", { token, from });
        must(out.status === 200, `logout: ${out.status}`);
        must(await closesWithin(upload, 3_000), "it is open 3 s after the logout");
      } finally {
        upload.destroy();
      }
    },
  },
  {
    name: "resources: slow headers are cut off after seconds, a slow body of an own path too",
    run: async (target) => {
      const options = { port: Number(target.url.port), host: target.url.hostname };
      const headers = connect(options);
      headers.on("error", () => {});
      headers.write(`GET /auth/providers HTTP/1.1\r\nHost: ${target.url.host}\r\nX-Slow: `);
      const drip = setInterval(() => headers.writable && headers.write("a"), 500);
      const body = connect(options);
      body.on("error", () => {});
      body.write(
        `POST /auth/login HTTP/1.1\r\nHost: ${target.url.host}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{`,
      );
      const trickle = setInterval(() => body.writable && body.write(" "), 500);
      try {
        must(await closesWithin(headers, 8_000), "slow headers are still open after 8 s");
        must(await closesWithin(body, 15_000), "a slow body is still open after 15 s");
      } finally {
        clearInterval(drip);
        clearInterval(trickle);
        headers.destroy();
        body.destroy();
      }
    },
  },
];
