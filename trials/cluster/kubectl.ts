import { execFile } from "node:child_process";

export class KubectlFailed extends Error {
  override readonly name = "KubectlFailed";
}

const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;
export const NAMESPACE = "gatehouse";

/** Runs kubectl in the trial's context and namespace, and gives what it printed. @throws {KubectlFailed} */
export type Kubectl = (args: readonly string[], input?: string) => Promise<string>;

export function createKubectl(context: string, namespace = NAMESPACE): Kubectl {
  return (args, input) => run("kubectl", ["--context", context, "--namespace", namespace, ...args], input);
}

export function run(program: string, args: readonly string[], input?: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { maxBuffer: MAX_OUTPUT_BYTES };
    const child = execFile(program, args, options, (error, stdout, stderr) => {
      if (error === null) return resolve(stdout);
      if (error.code === "ENOENT") return reject(new KubectlFailed(`${program} was not found: install it`));
      const said = stderr.trim() || error.message;
      reject(new KubectlFailed(`${program} ${args.join(" ")}: ${said}`, { cause: error }));
    });
    // A program that ends without reading its input says why itself.
    child.stdin?.on("error", () => {});
    child.stdin?.end(input ?? "");
  });
}
