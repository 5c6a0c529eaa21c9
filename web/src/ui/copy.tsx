// Copies texts.

import { done, failed } from '../state/notices.ts';

/** Puts a text onto the clipboard. Browsers offer that on secure addresses only; elsewhere the text is selected and copied. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand('copy');
  area.remove();
  if (!isCopied) throw new Error('The browser does not allow this page to copy.');
}

/** A code with a button that copies it. `label` says what it is. */
export function Code({ label, text }: { label: string; text: string }) {
  return (
    <div class="code">
      <pre role="region" aria-label={label} tabIndex={0}>
        {text}
      </pre>
      <button type="button" aria-label={`Copy: ${label}`} onClick={() => copyText(text).then(() => done('Copied.'), failed)}>
        Copy
      </button>
    </div>
  );
}
