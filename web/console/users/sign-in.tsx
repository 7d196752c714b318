import type { UserDetails } from "#clients/api/generated/gatehouse.ts";
import { Fact, Panel } from "../panel.tsx";
import { Table } from "../table.tsx";
import { useText } from "../text.ts";
import { When } from "../when.tsx";

/** How the person gets in. */
export function SignIn({ details }: { details: UserDetails }) {
  const t = useText();
  const { totpSince, passkeys, recoveryCodesLeft, providers, trustedDevices } = details;
  return (
    <Panel title={t("signIn.title")}>
      <dl className="details wide">
        <Fact name={t("signIn.totp")}>
          {totpSince === null ? t("signIn.off") : <When time={totpSince} />}
        </Fact>
        <Fact name={t("signIn.codes")}>{recoveryCodesLeft}</Fact>
        <Fact name={t("signIn.devices")}>{trustedDevices}</Fact>
        <Fact name={t("signIn.providers")}>
          {providers.length === 0
            ? t("signIn.none")
            : providers.map(({ provider, linkedAt }) => (
                <span key={provider} className="line">
                  {provider} <span className="muted small">{t("signIn.since")} </span>
                  <When time={linkedAt} />
                </span>
              ))}
        </Fact>
      </dl>
      <h3>{t("signIn.passkeys")}</h3>
      <Table
        name={t("signIn.passkeys")}
        rows={passkeys}
        keyOf={({ id }) => id}
        empty={t("signIn.noPasskeys")}
        columns={[
          { head: t("signIn.name"), kind: "main", cell: ({ name }) => <span>{name}</span> },
          { head: t("signIn.added"), kind: "number", cell: ({ createdAt }) => <When time={createdAt} /> },
          {
            head: t("signIn.used"),
            kind: "number",
            cell: ({ lastUsedAt }) => (lastUsedAt === null ? t("list.never") : <When time={lastUsedAt} />),
          },
        ]}
      />
    </Panel>
  );
}
