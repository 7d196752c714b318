import type { ReactNode } from "react";
import { Dialog, Heading } from "react-aria-components/Dialog";
import { Modal, ModalOverlay } from "react-aria-components/Modal";

/** A question that must be answered or cancelled before anything else. */
export function Sheet({
  title,
  isOpen = true,
  onClose,
  children,
}: {
  title: string;
  isOpen?: boolean;
  onClose: () => void;
  children: (close: () => void) => ReactNode;
}) {
  return (
    <ModalOverlay className="veil" isOpen={isOpen} isDismissable onOpenChange={(open) => !open && onClose()}>
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
