// Dialogs on top of the page.

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';

interface DialogProps {
  title: string;
  /** Called when the person closes the dialog by Escape or by its button. */
  onClose: () => void;
  children: ComponentChildren;
  /** Wide dialogs hold editors and tables. */
  wide?: boolean;
}

/** A modal dialog. It is open as long as it is rendered. */
export function Dialog({ title, onClose, children, wide }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    element.current!.showModal();
  }, []);
  return (
    <dialog
      ref={element}
      class={wide ? 'dialog wide' : 'dialog'}
      aria-labelledby={heading}
      onCancel={(event) => {
        // A child, such as a file chooser, sends the same event.
        if (event.target !== element.current) return;
        event.preventDefault();
        onClose();
      }}
    >
      <header>
        <h2 id={heading}>{title}</h2>
        <button type="button" class="icon" aria-label="Close" onClick={onClose}>
          ×
        </button>
      </header>
      {children}
    </dialog>
  );
}

interface Question {
  title: string;
  text: ComponentChildren;
  /** The label of the button that agrees. */
  action: string;
  dangerous?: boolean;
  answer: (agreed: boolean) => void;
}

const question = signal<Question | undefined>(undefined);

/** Asks a question and resolves to whether the person agrees. */
export function confirm(asked: Omit<Question, 'answer'>): Promise<boolean> {
  return new Promise((resolve) => {
    question.value = {
      ...asked,
      answer: (agreed) => {
        question.value = undefined;
        resolve(agreed);
      },
    };
  });
}

/** Shows the question that `confirm` asks. The shell renders it once. */
export function Confirmation() {
  const asked = question.value;
  if (!asked) return null;
  return (
    <Dialog title={asked.title} onClose={() => asked.answer(false)}>
      <div class="dialog-body">{asked.text}</div>
      <footer>
        <button type="button" onClick={() => asked.answer(false)}>
          Cancel
        </button>
        <button type="button" class={asked.dangerous ? 'danger' : 'primary'} autofocus onClick={() => asked.answer(true)}>
          {asked.action}
        </button>
      </footer>
    </Dialog>
  );
}
