import { Button } from "react-aria-components/Button";
import { ComboBox } from "react-aria-components/ComboBox";
import { Header } from "react-aria-components/Header";
import { Input } from "react-aria-components/Input";
import { Label } from "react-aria-components/Label";
import { ListBox, ListBoxItem, ListBoxSection } from "react-aria-components/ListBox";
import { Popover } from "react-aria-components/Popover";
import { Below, useField } from "../../ui/field.tsx";
import { textOf, textsBelow } from "../../ui/text.ts";

/** Names and words of a group in the present language. */
type Actions = Readonly<Record<string, string>>;
const groupsOfActions = () => Object.entries(textsBelow<Record<string, Actions>>("actions"));
const allActions = (): Actions => Object.assign({}, ...groupsOfActions().map(([, actions]) => actions));

/** What an action means. Nothing is known of those of the operator's own routes. */
export const wordsOfAction = (name: string): string | undefined => allActions()[name];

/** Every word that was typed is in the name or the words of the action. */
const isFound = (name: string, typed: string, words = "") =>
  typed
    .toLowerCase()
    .split(/\s+/)
    .every((part) => `${name} ${words}`.toLowerCase().includes(part));

/**
 * What to search for: a name as it is; else the action whose words were entered, the group, such as `auth.`, or the first
 * that the list offers. Nothing is known of the operator's own routes: without a dot it is one of their groups.
 */
export function nameOfAction(entered: string): string {
  const known = Object.entries(allActions());
  const typed = entered.toLowerCase();
  const [name] = known.find(([, words]) => words.toLowerCase() === typed) ?? [];
  if (name !== undefined || entered.includes(".")) return name ?? entered;
  const group = `${typed}.`;
  if (known.some(([action]) => action.startsWith(group))) return group;
  return known.find(([action, words]) => isFound(action, typed, words))?.[0] ?? group;
}

/** Known actions are found by their names and words; the operator's own routes have others, so any text may stand here. */
export function ActionField({ label, defaultValue = "" }: { label: string; defaultValue?: string }) {
  const { id: fieldId, described } = useField("action", undefined);
  const { id: _ownId, ...inputProps } = described;
  const all = allActions();
  return (
    <ComboBox
      className="field"
      name="action"
      allowsCustomValue
      defaultInputValue={defaultValue}
      defaultFilter={(name, typed) => isFound(name, typed, all[name])}
    >
      <Label>{label}</Label>
      <div className="picker">
        <Input
          {...inputProps}
          spellCheck={false}
          autoCapitalize="none"
          autoComplete="off"
          placeholder="auth.login"
        />
        <Button>
          <span aria-hidden="true">▾</span>
        </Button>
      </div>
      <Below id={fieldId} name="action" hint={undefined} />
      <Popover className="options">
        <ListBox>
          {groupsOfActions().map(([group, actions]) => (
            <ListBoxSection key={group} id={group}>
              <Header>{textOf(`actionGroups.${group}`)}</Header>
              {Object.entries(actions).map(([name, words]) => (
                <ListBoxItem key={name} id={name} textValue={name}>
                  <span>{words}</span> <code>{name}</code>
                </ListBoxItem>
              ))}
            </ListBoxSection>
          ))}
        </ListBox>
      </Popover>
    </ComboBox>
  );
}
