const FORM = /^(postgres(?:ql)?:\/\/(?:[^@/?#]*@)?)([^@/?#]*)((?:[/?#].*)?)$/;
const MAX_HOSTS = 8;

/**
 * One URL for each host of `postgres://role@host:port,host:port/database`, libpq's form for several servers.
 * @returns undefined if it cannot be read, names no host among several, or more than eight.
 */
export function databaseHosts(text: string): [URL, ...URL[]] | undefined {
  const [, before, hosts, after] = FORM.exec(text) ?? [];
  if (hosts === undefined) return undefined;
  const texts = hosts.split(",");
  const urls = texts.flatMap((host) => URL.parse(`${before}${host}${after}`) ?? []);
  const areNamed = texts.length === 1 || urls.every(({ hostname }) => hostname !== "");
  const [first, ...others] = urls;
  if (first === undefined || urls.length !== texts.length || urls.length > MAX_HOSTS || !areNamed)
    return undefined;
  return [first, ...others];
}
