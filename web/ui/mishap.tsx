import { Component, type ReactNode } from "react";
import { Button } from "./button.tsx";
import { Notice } from "./notice.tsx";
import { textOf } from "./text.ts";

/** Instead of a page whose code has failed. */
export class Mishap extends Component<{ children: ReactNode }, { hasFailed: boolean }> {
  override state = { hasFailed: false };

  static getDerivedStateFromError() {
    return { hasFailed: true };
  }

  override render() {
    if (!this.state.hasFailed) return this.props.children;
    return (
      <main className="alone stack">
        <Notice isBad>{textOf("states.crashed")}</Notice>
        <Button kind="quiet" onClick={() => location.reload()}>
          {textOf("states.reload")}
        </Button>
      </main>
    );
  }
}
