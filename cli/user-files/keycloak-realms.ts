import { createReadStream } from "node:fs";
import { pipeline } from "node:stream";
import { finished } from "node:stream/promises";
import { pick } from "stream-json/filters/pick.js";
import { FileProblem, jsonBracket } from "./read-records.ts";

interface Realm {
  /** The path of its users in the file. */
  users: string;
  name: string;
  hasUsers: boolean;
}

/** Where the users of the one realm that is meant are. @throws {FileProblem}; errors of the file system and of JSON. */
export async function findUsersOfRealm(path: string, wanted: string | undefined): Promise<string> {
  const isList = (await jsonBracket(path)) === "[";
  if (!isList && wanted === undefined) return "users";
  const realms = await readRealms(path, isList);
  const names = (found: readonly Realm[]) => found.map(({ name }) => name).join(", ");
  const withUsers = realms.filter(({ hasUsers }) => hasUsers);
  const meant = wanted === undefined ? withUsers : realms.filter(({ name }) => name === wanted);
  const [realm, ...others] = meant;
  if (others.length > 0)
    throw new FileProblem(`has several realms with users: choose one by --realm: ${names(meant)}`);
  if (realm !== undefined) return realm.users;
  throw wanted === undefined
    ? new FileProblem(NO_USERS_OF_REALM)
    : new FileProblem(`has no realm ${wanted}, but: ${names(realms)}`);
}

export const NO_USERS_OF_REALM =
  "has no users. A partial export of the admin console leaves them out: use kc.sh export --users realm_file";

/** Reads the whole file, because users can come before the name of their realm. */
async function readRealms(path: string, isList: boolean): Promise<Realm[]> {
  const realms = new Map<number, Realm>();
  let isUserList = false;
  function visit(stack: unknown[], token: object): boolean {
    const [index, member, element] = isList ? stack : [0, ...stack];
    if (typeof index !== "number" || member === undefined) return false;
    const users = isList ? `${index}.users` : "users";
    const realm = realms.get(index) ?? { users, name: "", hasUsers: false };
    if (member === "realm" && element === undefined) realm.name = "value" in token ? String(token.value) : "";
    if (member === "users" && element !== undefined) realm.hasUsers = true;
    if (member === "username" || member === "email") isUserList = true;
    realms.set(index, realm);
    return false;
  }
  const nothing = pipeline(
    createReadStream(path),
    pick.withParserAsStream({ filter: visit, packValues: true, streamValues: false }),
    () => undefined,
  );
  nothing.resume();
  await finished(nothing);
  if (isUserList) {
    throw new FileProblem(
      "is a list of users of the admin API, which has no passwords: use kc.sh export --users realm_file",
    );
  }
  return [...realms.values()];
}
