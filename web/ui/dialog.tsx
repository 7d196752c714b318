import type { ReactNode } from "react";
import { Dialog, Heading } from "react-aria-components/Dialog";
import { Modal, ModalOverlay } from "react-aria-components/Modal";
import { Button } from "./button.tsx";
import { textOf, useLanguage } from "./text.ts";

/** A question that must be answered or cancelled before anything else. */
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
  /** Neither Escape nor a click beside it closes it: what it shows would be lost. */
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
      isDismissable={!mustAnswer}
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
            </>
          )}
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
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
