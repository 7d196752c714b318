import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { ClientCredential, ClientWithCredentials } from "#clients/api/generated/gatehouse.ts";
import { GatehouseError } from "#clients/browser/gateway-calls.ts";
import { useSession } from "../../session/session.ts";
import { AreaField, Field, SelectField } from "../../ui/field.tsx";
import { Act, useDone } from "../act.tsx";
import { OnceSheet } from "../once-sheet.tsx";
import { Panel } from "../panel.tsx";
import { Table } from "../table.tsx";
import { useKnownText, useText } from "../text.ts";

type Kind = ClientCredential["kind"];

interface Props {
  client: ClientWithCredentials;
  mayWrite: boolean;
}

export function Credentials({ client, mayWrite }: Props) {
  const t = useText();
  const known = useKnownText();
  return (
    <Panel title={t("credentials.title")} beside={mayWrite && <Add client={client} />}>
      <Table
        name={t("credentials.title")}
        rows={client.credentials}
        keyOf={({ id }) => id}
        empty={t("credentials.none")}
        columns={[
          {
            head: t("credentials.kind"),
            kind: "main",
            cell: ({ kind, name, keyId }) => (
              <>
                <span>{known("kinds", kind)}</span>
                {name !== "" && <span className="muted small">{name}</span>}
                {keyId !== null && (
                  <code className="cut" title={keyId}>
                    {keyId}
                  </code>
                )}
              </>
            ),
          },
          { head: t("signIn.added"), time: ({ createdAt }) => createdAt },
          { head: t("signIn.used"), time: ({ lastUsedAt }) => lastUsedAt, never: t("list.never") },
          ...(mayWrite
            ? [
                {
                  head: t("user.acts"),
                  kind: "acts" as const,
                  cell: (credential: ClientCredential) => <Revoke client={client} credential={credential} />,
                },
              ]
            : []),
        ]}
      />
    </Panel>
  );
}

function Revoke({ client, credential }: { client: ClientWithCredentials; credential: ClientCredential }) {
  const t = useText();
  const { call } = useSession();
  const queries = useQueryClient();
  const done = useDone();
  return (
    <Act
      name={t("credentials.revoke")}
      label={t("credentials.revokeIt", { name: credential.name || credential.keyId || credential.id })}
      effect={t("credentials.revokeEffect")}
      act={async ({ reason }) => {
        await call("DELETE /admin/clients/{id}/credentials/{credentialId}", {
          path: { id: client.id, credentialId: credential.id },
          body: { reason },
        });
        done("credentials.revoked");
        await queries.invalidateQueries({ queryKey: ["clients"] });
      }}
    />
  );
}

function Add({ client }: { client: ClientWithCredentials }) {
  const t = useText();
  const known = useKnownText();
  const { call } = useSession();
  const queries = useQueryClient();
  const [kind, setKind] = useState<Kind>("secret");
  const [shown, setShown] = useState<{ kind: Kind; secret: string }>();
  const kinds = (["public_key", "secret", "api_key"] as const).map(
    (name) => [name, known("kinds", name)] as const,
  );
  return (
    <>
      <Act
        name={t("credentials.add")}
        effect={t("credentials.addEffect")}
        act={async ({ name = "", publicKey, reason }) => {
          const common = { name: name.trim() || undefined, reason };
          const body =
            kind === "public_key"
              ? { kind, publicKey: parsedKey(publicKey), ...common }
              : { kind, ...common };
          const { secret } = await call("POST /admin/clients/{id}/credentials", {
            path: { id: client.id },
            body,
          });
          if (secret !== null) setShown({ kind, secret });
          await queries.invalidateQueries({ queryKey: ["clients"] });
        }}
      >
        <SelectField
          name="kind"
          label={t("credentials.kind")}
          hint={known("kindHints", kind)}
          options={kinds}
          value={kind}
          onChange={(event) => setKind(event.target.value as Kind)}
        />
        {kind === "public_key" && (
          <AreaField
            name="publicKey"
            label={t("credentials.publicKey")}
            hint={t("credentials.publicKeyHint")}
            required
          />
        )}
        <Field
          name="name"
          label={t("credentials.name")}
          hint={t("credentials.nameHint")}
          maxLength={100}
          autoComplete="off"
        />
      </Act>
      <OnceSheet
        isOpen={shown !== undefined}
        lead={t("credentials.onceLead")}
        facts={[
          [t("clients.id"), client.id],
          [known("kinds", shown?.kind ?? ""), shown?.secret ?? ""],
        ]}
        onClose={() => setShown(undefined)}
      />
    </>
  );
}

/** @throws {GatehouseError} `validation_failed` at the field. */
function parsedKey(text = ""): { kty: string } {
  try {
    const key: unknown = JSON.parse(text);
    if (typeof key === "object" && key !== null) return key as { kty: string };
  } catch {}
  throw new GatehouseError(400, { code: "validation_failed", details: [{ field: "publicKey" }] });
}
