import { useContext, useId } from "react";
import { GatehouseError } from "#clients/browser/gateway-calls.ts";
import { useAccount, useMay, useUser } from "../../session/session.ts";
import { EmailField, Field } from "../../ui/field.tsx";
import { FieldProblems } from "../../ui/form.tsx";
import { GroupTitle, groupsOf, Meaning } from "../permissions.tsx";
import { useText } from "../text.ts";
import { useFindByAddress } from "../users/find-by-address.ts";

/** Nobody gives a client a permission that they do not hold; what it has may stay. Several entries, `permissions`. */
export function PermissionFields({ held = [] }: { held?: readonly string[] }) {
  const own = useAccount()?.permissions ?? [];
  const all = [...new Set([...own, ...held])];
  const { problems, forget } = useContext(FieldProblems);
  const problem = problems.permissions?.();
  const problemId = useId();
  return (
    <>
      {groupsOf(all).map(({ group, names }) => (
        <fieldset
          key={group}
          className="permissions"
          onInput={() => forget("permissions")}
          {...(problem !== undefined && { "aria-describedby": problemId })}
        >
          <legend>
            <GroupTitle group={group} />
          </legend>
          {names.map((name) => (
            <PermissionCheck key={name} name={name} isHeld={held.includes(name)} />
          ))}
        </fieldset>
      ))}
      {problem !== undefined && (
        <p className="wrong" role="alert" id={problemId}>
          {problem}
        </p>
      )}
    </>
  );
}

function PermissionCheck({ name, isHeld }: { name: string; isHeld: boolean }) {
  const meaningId = useId();
  return (
    <div>
      <label className="check">
        <input
          type="checkbox"
          name="permissions"
          value={name}
          defaultChecked={isHeld}
          aria-describedby={meaningId}
        />
        <code>{name}</code>
      </label>
      <div id={meaningId}>
        <Meaning name={name} />
      </div>
    </div>
  );
}

/** @throws {GatehouseError} `validation_failed` at the field. */
export function chosenPermissions(form: HTMLFormElement): string[] {
  const chosen = new FormData(form).getAll("permissions").map(String);
  if (chosen.length === 0) {
    throw new GatehouseError(400, { code: "validation_failed", details: [{ field: "permissions" }] });
  }
  return chosen;
}

export function NameField(props: { hint?: string; defaultValue?: string }) {
  const t = useText();
  return (
    <Field name="name" label={t("clients.name")} required maxLength={100} autoComplete="off" {...props} />
  );
}

/** Who answers for a client, by address. */
export function OwnerField({ email }: { email?: string }) {
  const t = useText();
  const user = useUser();
  const mayChoose = useMay()("users:read");
  return (
    <EmailField
      name="owner"
      label={t("clientFields.owner")}
      hint={t(mayChoose ? "clientFields.ownerHint" : "clientFields.ownerIsYou")}
      defaultValue={email ?? user.email}
      readOnly={!mayChoose}
      autoComplete="off"
    />
  );
}

/** The id of the active user with this address. @returns rejects with `validation_failed` at `owner` if there is none. */
export function useOwnerId(): (email: string) => Promise<string> {
  const find = useFindByAddress();
  const user = useUser();
  return async (typed) => {
    if (typed.trim().toLowerCase() === user.email.toLowerCase()) return user.id;
    const found = await find(typed, "active");
    if (found === undefined)
      throw new GatehouseError(400, { code: "validation_failed", details: [{ field: "owner" }] });
    return found.id;
  };
}
