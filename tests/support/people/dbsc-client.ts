import { exportJWK, generateKeyPair, SignJWT } from "jose";
import type { Answer, ApiClient } from "./api-client.ts";

const REGISTRATION = /^\(ES256\);path="([^"]+)";challenge="([^"]+)"$/;
const CHALLENGE = /^"([^"]+)";id="([^"]+)"$/;
const BOUND = "__Host-gatehouse-bound";

/** The part of a browser that speaks Device Bound Session Credentials. Cookies are kept as a browser does, but for their age. */
export async function dbscClient(api: ApiClient, origin: string) {
  const { privateKey, publicKey } = await generateKeyPair("ES256", { extractable: true });
  const jwk = await exportJWK(publicKey);
  const jar = new Map<string, string>();
  let session = { id: "", url: "" };

  const cookie = () => [...jar].map((pair) => pair.join("=")).join("; ");
  const keep = (answer: Answer) => {
    for (const line of answer.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === "") jar.delete(name);
      else jar.set(name, value);
    }
    return answer;
  };
  const call = async (path: string, headers: Record<string, string>, body?: unknown) =>
    keep(await api.post(path, body, { headers: { ...headers, cookie: cookie() } }));
  const page = { "gatehouse-client": "browser", origin };

  return {
    jar,
    key: { privateKey, jwk },
    get session() {
      return session;
    },
    /** @param header to be signed in place of the usual one. */
    sign: (jti: string, header: object = {}) =>
      new SignJWT({ jti }).setProtectedHeader({ alg: "ES256", typ: "dbsc+jwt", ...header }).sign(privateKey),
    async logIn({ email, password }: { email: string; password: string }) {
      const answer = await call("/auth/login", page, { email, password });
      if (answer.status !== 200) throw new Error(`login: ${answer.status}`);
      const [, path = "", challenge = ""] =
        REGISTRATION.exec(answer.headers.get("secure-session-registration") ?? "") ?? [];
      return { answer, path, challenge };
    },
    async register(path: string, challenge: string) {
      const proof = await this.sign(challenge, { jwk });
      const answer = await call(path, { "secure-session-response": `"${proof}"` });
      if (answer.status === 200)
        session = { id: answer.body.session_identifier, url: answer.body.refresh_url };
      return answer;
    },
    /** One request of a DBSC refresh. */
    prove: (proof = "", id = session.id) =>
      call(session.url, {
        "sec-secure-session-id": `"${id}"`,
        ...(proof !== "" && { "secure-session-response": `"${proof}"` }),
      }),
    async askForChallenge() {
      const answer = await this.prove();
      const [, challenge = "", id] =
        CHALLENGE.exec(answer.headers.get("secure-session-challenge") ?? "") ?? [];
      return { answer, challenge, id };
    },
    /** The cookie is missing, or too old. */
    forgetProof: () => jar.delete(BOUND),
    /** What a page's call does in such a browser. */
    async refresh() {
      if (session.id !== "" && !jar.has(BOUND)) {
        const { challenge } = await this.askForChallenge();
        if (challenge !== "") await this.prove(await this.sign(challenge));
      }
      return this.refreshAsPage();
    },
    /** Without the browser's help, as a thief of the cookies. */
    refreshAsPage: () => call("/auth/refresh", page),
  };
}

export type DbscClient = Awaited<ReturnType<typeof dbscClient>>;
