import { useQueryClient } from "@tanstack/react-query";
import type { Role } from "#clients/api/generated/gatehouse.ts";
import { useMay, useSession } from "../../session/session.ts";
import { EmailField, Field, SelectField } from "../../ui/field.tsx";
import { Act, useDone } from "../act.tsx";
import { useText } from "../text.ts";

/** Makes an account whose owner sets the password. */
export function Invite({ roles }: { roles: readonly Role[] }) {
  const t = useText();
  const { call } = useSession();
  const queries = useQueryClient();
  const done = useDone();
  const may = useMay();
  const assignable = roles.filter((role) => role.assignable);
  if (!may("users:help")) return null;
  return (
    <Act
      name={t("invite.name")}
      effect={t("invite.effect")}
      submit={t("invite.submit")}
      act={async ({ email = "", firstName = "", lastName = "", role = "", reason }) => {
        const body = { email, firstName, lastName, reason, ...(role !== "" && { role }) };
        await call("POST /admin/users", { body });
        done("invite.done", { email });
        await queries.invalidateQueries({ queryKey: ["users", "list"] });
      }}
    >
      <EmailField label={t("person.email")} autoComplete="off" />
      <NameFields />
      {may("roles:assign") && (
        <SelectField
          name="role"
          label={t("users.role")}
          options={[["", t("invite.usualRole")], ...assignable.map(({ name }) => [name, name] as const)]}
        />
      )}
    </Act>
  );
}

export function NameFields({ firstName, lastName }: { firstName?: string; lastName?: string }) {
  const t = useText();
  const of = { maxLength: 100, autoComplete: "off" };
  return (
    <>
      <Field name="firstName" label={t("person.firstName")} defaultValue={firstName} required {...of} />
      <Field name="lastName" label={t("person.lastName")} defaultValue={lastName} {...of} />
    </>
  );
}
