import type { Command } from "../command.ts";
import { GLOBAL_OPTIONS } from "../global-options.ts";
import { oneOf } from "./one-of.ts";

const INSTALL = `  bash: gatehouse completion bash > /etc/bash_completion.d/gatehouse
  zsh:  gatehouse completion zsh > a file _gatehouse in a folder of $fpath
  fish: gatehouse completion fish > ~/.config/fish/completions/gatehouse.fish`;

export function completionCommand(commands: () => readonly Command[]): Command {
  return {
    name: "completion",
    summary: "Print a completion script, for bash, zsh or fish",
    details: INSTALL,
    positionals: ["shell"],
    options: {},
    async run({ positionals }) {
      const [shell] = positionals;
      const script = oneOf("<shell>", SCRIPTS, shell)(commands());
      return { text: script, json: { shell, script } };
    },
  };
}

const SCRIPTS = new Map<string, (commands: readonly Command[]) => string>([
  ["bash", bashScript],
  ["zsh", zshScript],
  ["fish", fishScript],
]);

/** Possible next words: `list` follows `keys`. */
function followers(commands: readonly Command[]): Map<string, Set<string>> {
  const next = new Map<string, Set<string>>();
  for (const { name } of commands) {
    const words = name.split(" ");
    for (const [index, word] of words.entries()) {
      const before = words.slice(0, index).join(" ");
      next.set(before, (next.get(before) ?? new Set()).add(word));
    }
  }
  return next;
}

const optionsOf = (command: Command) =>
  Object.keys({ ...command.options, ...GLOBAL_OPTIONS }).map((name) => `--${name}`);

function bashCases(commands: readonly Command[]): string[] {
  return [
    ...[...followers(commands)].map(([words, next]) => `    "${words}") choices="${[...next].join(" ")}" ;;`),
    ...commands.map((command) => `    "${command.name}") choices="${optionsOf(command).join(" ")}" ;;`),
  ];
}

function bashScript(commands: readonly Command[]): string {
  return `# bash completion of gatehouse
_gatehouse() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD - 1]}" choices="" line="" word
  case "$previous" in
    --*-file | --home) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $word == -* ]] && continue
    case "\${line:+$line }$word" in
      ${[...new Set([...followers(commands).keys(), ...commands.map(({ name }) => name)])]
        .filter((words) => words !== "")
        .map((words) => `"${words}"`)
        .join(" | ")}) line="\${line:+$line }$word" ;;
    esac
  done
  case "$line" in
${bashCases(commands).join("\n")}
  esac
  COMPREPLY=($(compgen -W "$choices" -- "$current"))
}
complete -F _gatehouse gatehouse`;
}

function zshScript(commands: readonly Command[]): string {
  return `#compdef gatehouse
autoload -U +X bashcompinit && bashcompinit
${bashScript(commands)}`;
}

function fishScript(commands: readonly Command[]): string {
  const quoted = (text: string) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const isAfter = (words: string) => `test "$(__gatehouse_path)" = ${quoted(words)}`;
  const summaries = new Map(commands.map(({ name, summary }) => [name, summary]));
  const words = [...followers(commands)].flatMap(([before, next]) =>
    [...next].map((word) => {
      const summary = summaries.get(before === "" ? word : `${before} ${word}`) ?? `gatehouse ${word} …`;
      return `complete -c gatehouse -f -n ${quoted(isAfter(before))} -a ${word} -d ${quoted(summary)}`;
    }),
  );
  const options = commands.flatMap(({ name, options: own }) =>
    Object.entries({ ...own, ...GLOBAL_OPTIONS }).map(([option, { type, description }]) => {
      const takes = type === "boolean" ? "" : " -r";
      return `complete -c gatehouse -n ${quoted(isAfter(name))} -l ${option}${takes} -d ${quoted(description)}`;
    }),
  );
  return `# fish completion of gatehouse
function __gatehouse_path
  set -l path
  for word in (commandline -opc)[2..]
    string match -q -- '-*' $word; and continue
    set -l longer (string join ' ' $path $word)
    contains -- $longer ${[...new Set([...followers(commands).keys(), ...summaries.keys()])]
      .filter((name) => name !== "")
      .map(quoted)
      .join(" ")}; and set path $longer
  end
  string join ' ' $path
end
${[...words, ...options].join("\n")}`;
}
