import { type ReactNode, useEffect, useRef } from "react";
import { Dialog, Heading } from "react-aria-components/Dialog";
import { Modal, ModalOverlay } from "react-aria-components/Modal";
import { Button } from "./button.tsx";
import { textOf, useLanguage } from "./text.ts";

/** A question that must be answered or cancelled before anything else. A click beside it does neither. */
export function Sheet({
  title,
  isOpen = true,
  mustAnswer = false,
  isOpaque = false,
  onClose,
  children,
}: {
  title: string;
  isOpen?: boolean;
  /** Escape does not close it: what it shows would be lost. */
  mustAnswer?: boolean;
  /** Nothing else is shown. */
  isOpaque?: boolean;
  onClose: () => void;
  children: (close: () => void) => ReactNode;
}) {
  return (
    <ModalOverlay
      className={isOpaque ? "veil opaque" : "veil"}
      isOpen={isOpen}
      isKeyboardDismissDisabled={mustAnswer}
      onOpenChange={(open) => !open && onClose()}
    >
      <Modal className="sheet">
        <Dialog>
          {({ close }) => (
            <>
              <Heading slot="title" level={2}>
                {title}
              </Heading>
              {children(close)}
              <FirstField />
            </>
          )}
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

/** Has the focus when the dialog opens, unless another field asks for it. Without fields: the first button. */
function FirstField() {
  const after = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    const dialog = after.current?.closest("[role=dialog]");
    if (dialog?.contains(document.activeElement)) return;
    const first = (kinds: string) => dialog?.querySelector<HTMLElement>(kinds);
    (first("input:not([tabindex='-1']), select, textarea") ?? first("button"))?.focus();
  }, []);
  return <span ref={after} hidden />;
}

/** Stands after the button of a sheet's form. */
export function Cancel({ onClick }: { onClick: () => void }) {
  useLanguage();
  return (
    <Button kind="quiet" onClick={onClick}>
      {textOf("form.cancel")}
    </Button>
  );
}
