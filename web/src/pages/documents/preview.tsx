// What an attachment contains. Nothing of it runs: HTML is shown as its source, pictures through `<img>` alone.

import { useEffect, useState } from 'preact/hooks';
import { documentPath, send } from '../../api/http.ts';
import { bytes, ErrorBox } from '../../ui/basics.tsx';
import type { Attachment } from './attachments.tsx';

/** Larger attachments are downloaded instead. */
const MOST_BYTES = 50_000_000;

/** The characters of a text that are shown. */
const MOST_TEXT = 200_000;

const PICTURES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif', 'image/svg+xml', 'image/bmp', 'image/x-icon'];
const TEXTS = /^text\/|^application\/(json|xml|javascript|x-ndjson|sql|yaml|toml|x-sh)$|\+(json|xml)$/;

type Content = { kind: 'text'; text: string; whole: boolean } | { kind: 'picture' | 'pdf'; url: string };

/** How an attachment of a type is shown. */
export function previewKind(type: string): 'text' | 'picture' | 'pdf' | undefined {
  const plain = type.split(';')[0]!.trim().toLowerCase();
  if (PICTURES.includes(plain)) return 'picture';
  if (plain === 'application/pdf') return 'pdf';
  return TEXTS.test(plain) ? 'text' : undefined;
}

interface PreviewProps {
  db: string;
  id: string;
  attachment: Attachment;
  onClose: () => void;
}

export function Preview({ db, id, attachment, onClose }: PreviewProps) {
  const { name, type, length } = attachment;
  const kind = previewKind(type);
  const [content, setContent] = useState<Content>();
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    if (!kind || length > MOST_BYTES) return;
    const aborter = new AbortController();
    let url: string | undefined;
    read(db, id, name, kind, aborter.signal).then(
      (blob) => {
        if (typeof blob === 'string') setContent({ kind: 'text', text: blob.slice(0, MOST_TEXT), whole: blob.length <= MOST_TEXT });
        else if (!aborter.signal.aborted) setContent({ kind: kind as 'picture' | 'pdf', url: (url = URL.createObjectURL(blob)) });
      },
      (caught) => !aborter.signal.aborted && setError(caught),
    );
    return () => {
      aborter.abort();
      if (url) URL.revokeObjectURL(url);
    };
  }, []);
  return (
    <section class="panel preview" aria-label={`Preview of ${name}`}>
      <div class="toolbar">
        <h2>{name}</h2>
        <span class="space" />
        <button type="button" class="icon" aria-label="Close the preview" onClick={onClose}>
          ×
        </button>
      </div>
      {error !== undefined && <ErrorBox error={error} />}
      {!kind && <p>There is no preview of {type || 'files without a type'}. Download the file to see it.</p>}
      {kind && length > MOST_BYTES && <p>The file has {bytes(length)}, which is too much for a preview. Download it.</p>}
      {content?.kind === 'text' && (
        <>
          {!content.whole && <p class="soft">The first {MOST_TEXT} characters:</p>}
          <pre class="partial" role="region" aria-label={`Text of ${name}`} tabIndex={0}>
            {content.text}
          </pre>
        </>
      )}
      {content?.kind === 'picture' && <img src={content.url} alt={name} />}
      {content?.kind === 'pdf' && (
        <p>
          <a class="button" href={content.url} target="_blank" rel="noreferrer">
            Open the PDF in a new tab
          </a>
        </p>
      )}
    </section>
  );
}

async function read(db: string, id: string, name: string, kind: 'text' | 'picture' | 'pdf', signal: AbortSignal): Promise<string | Blob> {
  const response = await send('GET', documentPath(db, id, name), { signal });
  if (kind === 'text') return response.text();
  // The type decides what the browser does with the contents, so it is one of those that run nothing.
  const data = await response.arrayBuffer();
  const type = (response.headers.get('content-type') ?? '').split(';')[0]!.trim().toLowerCase();
  if (previewKind(type) !== kind) throw new Error('The attachment has changed meanwhile. Reload the page.');
  return new Blob([data], { type });
}
