import { createHash } from "node:crypto";
import { join } from "node:path";
import { run } from "./run.ts";

/** The root file systems that the image was made of. */
export const BASE_FOLDER = process.env.BASE_FOLDER ?? "";

interface Component {
  type: string;
  name: string;
  version: string;
  purl: string;
}
interface Bom {
  serialNumber?: string;
  metadata: { timestamp: string; component: { name: string } };
  components: Component[];
}

/**
 * What the image has inside: npm's packages without those for development, and Debian's of BASE_FOLDER if it is given.
 * @see CycloneDX 1.5
 */
export async function bom({ epochS, revision }: { epochS: number; revision: string }): Promise<Bom> {
  const text = await run("npm", ["sbom", "--omit=dev", "--sbom-format=cyclonedx", "--package-lock-only"]);
  const found = JSON.parse(text) as Bom;
  const components = [...found.components, ...(await debianPackages())];
  return {
    ...found,
    // Else random: two documents of one commit are the same.
    serialNumber: `urn:uuid:${uuidOf(revision)}`,
    metadata: {
      ...found.metadata,
      timestamp: new Date(epochS * 1000).toISOString(),
      // Else the name of the folder.
      component: { ...found.metadata.component, name: "gatehouse" },
    },
    components: components.sort((one, other) => (one.purl < other.purl ? -1 : 1)),
  };
}

async function debianPackages(): Promise<Component[]> {
  if (BASE_FOLDER === "") return [];
  const status = await run("tar", ["-xOf", join(BASE_FOLDER, "gatehouse-base.tar"), "./var/lib/dpkg/status"]);
  return status
    .split("\n\n")
    .map((paragraph) => {
      const fieldOf = (key: string) => new RegExp(`^${key}: (.+)$`, "m").exec(paragraph)?.[1] ?? "";
      return { name: fieldOf("Package"), version: fieldOf("Version"), architecture: fieldOf("Architecture") };
    })
    .filter(({ name }) => name !== "")
    .map(({ name, version, architecture }) => ({
      type: "library",
      name,
      version,
      purl: `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${architecture}`,
    }));
}

/** Version 8 of a UUID: of a digest. @see RFC 9562 §5.8 */
function uuidOf(text: string): string {
  const bytes = createHash("sha256").update(text).digest().subarray(0, 16);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
