import { textsBelow, useLanguage } from "../ui/text.ts";
import { useKnownText, useText } from "./text.ts";

type Texts = Readonly<Record<string, string>>;

/** By what a name begins with. `roles:assign` is about people; what the access file adds is of the APIs. */
export function groupsOf(names: readonly string[]): { group: string; names: string[] }[] {
  return Object.keys(textsBelow<Texts>("permissionGroups"))
    .map((group) => ({ group, names: names.filter((name) => groupOf(name) === group) }))
    .filter((found) => found.names.length > 0);
}

function groupOf(name: string): string | undefined {
  if (!Object.hasOwn(textsBelow<Texts>("permissionTexts"), name)) return "apis";
  const [first] = name.split(":");
  return first === "roles" ? "users" : first;
}

export function GroupTitle({ group }: { group: string }) {
  return useKnownText()("permissionGroups", group);
}

/** What a permission allows, and why one gives it with care. Nothing is known of those of the operator's own routes. */
export function Meaning({ name }: { name: string }) {
  useLanguage();
  const text = textsBelow<Texts>("permissionTexts")[name];
  return (
    <>
      {text !== undefined && <p>{text}</p>}
      <Danger name={name} />
    </>
  );
}

/** @param name of a permission, or `*`. */
export function Danger({ name }: { name: string }) {
  const t = useText();
  const danger = textsBelow<Texts>("permissionDangers")[name];
  if (danger === undefined) return null;
  return (
    <p className="danger-of small">
      <strong>{t("roles.danger")}</strong> {danger}
    </p>
  );
}

export function PermissionList({ names }: { names: readonly string[] }) {
  return groupsOf(names).map(({ group, names: held }) => (
    <section key={group}>
      <h3>
        <GroupTitle group={group} />
      </h3>
      <ul className="permissions">
        {held.map((name) => (
          <li key={name}>
            <code>{name}</code>
            <Meaning name={name} />
          </li>
        ))}
      </ul>
    </section>
  ));
}
