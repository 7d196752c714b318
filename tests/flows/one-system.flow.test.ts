// Flows that need no settings of their own share a system: each start takes ten seconds of CPU time.
import { removeAfterAll } from "../support/one-system.ts";
import "./one-system/account-ownership.ts";
import "./one-system/main-path.ts";
import "./one-system/mfa.ts";
import "./one-system/openapi.ts";
import "./one-system/password-change.ts";

removeAfterAll();
