// A server of Better Auth on PostgreSQL, with Argon2id instead of its own scrypt. Runs in .installed/better-auth/.
import { createServer } from "node:http";
import { hash, verify } from "@node-rs/argon2";
import { betterAuth } from "better-auth";
import { getMigrations } from "better-auth/db/migration";
import { toNodeHandler } from "better-auth/node";
import pg from "pg";

const { port, databaseUrl, secret, users, password, argon2 } = JSON.parse(process.env.BENCH ?? "");

/** Limits are on, as in Gatehouse, but nobody reaches them. */
const UNREACHED = { window: 60, max: 100_000_000 };

const auth = betterAuth({
  baseURL: `http://127.0.0.1:${port}`,
  secret,
  database: new pg.Pool({ connectionString: databaseUrl, max: 10 }),
  emailAndPassword: {
    enabled: true,
    autoSignIn: false,
    password: {
      hash: (plain) => hash(plain, argon2),
      verify: ({ hash: kept, password: plain }) => verify(kept, plain),
    },
  },
  rateLimit: {
    enabled: true,
    ...UNREACHED,
    customRules: { "/sign-in/email": UNREACHED, "/get-session": UNREACHED },
  },
  telemetry: { enabled: false },
});

const { runMigrations } = await getMigrations(auth.options);
await runMigrations();
for (const email of users) await auth.api.signUpEmail({ body: { name: "Ada Lovelace", email, password } });
createServer(toNodeHandler(auth)).listen(port, "127.0.0.1");
