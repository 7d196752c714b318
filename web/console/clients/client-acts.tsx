import { useQueryClient } from "@tanstack/react-query";
import type { ClientWithCredentials } from "#clients/api/generated/gatehouse.ts";
import { useSession } from "../../session/session.ts";
import { Act, useDone } from "../act.tsx";
import { useText } from "../text.ts";
import { chosenPermissions, NameField, OwnerField, PermissionFields, useOwnerId } from "./fields.tsx";

interface Props {
  client: ClientWithCredentials;
  ownerEmail: string | undefined;
  onDeleted: () => void;
}

export function ClientActs({ client, ownerEmail, onDeleted }: Props) {
  const t = useText();
  const { call } = useSession();
  const ownerIdOf = useOwnerId();
  const queries = useQueryClient();
  const done = useDone();
  const change = async (body: object) => {
    await call("PATCH /admin/clients/{id}", { path: { id: client.id }, body });
    done("changeClient.done");
    await queries.invalidateQueries({ queryKey: ["clients"] });
  };
  return (
    <>
      <div className="acts">
        <Act
          name={t("changeClient.rename")}
          effect={t("changeClient.renameEffect")}
          act={({ name = "", reason }) => change({ name: name.trim(), reason })}
        >
          <NameField defaultValue={client.name} />
        </Act>
        <Act
          name={t("changeClient.permissions")}
          effect={t("changeClient.permissionsEffect")}
          act={({ reason }, form) => change({ permissions: chosenPermissions(form), reason })}
        >
          <PermissionFields held={client.permissions} />
        </Act>
        <Act
          name={t("changeClient.owner")}
          effect={t("changeClient.ownerEffect")}
          act={async ({ owner = "", reason }) => change({ ownerId: await ownerIdOf(owner), reason })}
        >
          <OwnerField {...(ownerEmail !== undefined && { email: ownerEmail })} />
        </Act>
        {client.status === "disabled" && (
          <Act
            name={t("changeClient.enable")}
            effect={t("changeClient.enableEffect")}
            act={({ reason }) => change({ status: "active", reason })}
          />
        )}
      </div>
      <div className="acts dangers">
        {client.status === "active" && (
          <Act
            name={t("changeClient.disable")}
            kind="danger"
            effect={t("changeClient.disableEffect")}
            act={({ reason }) => change({ status: "disabled", reason })}
          />
        )}
        <Act
          name={t("deleteClient.name")}
          kind="danger"
          effect={t("deleteClient.effect")}
          typed={client.name}
          act={async ({ reason }) => {
            await call("DELETE /admin/clients/{id}", { path: { id: client.id }, body: { reason } });
            onDeleted();
            await queries.invalidateQueries({ queryKey: ["clients"] });
          }}
        />
      </div>
    </>
  );
}
