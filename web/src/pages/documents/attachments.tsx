// The attachments of a document.

import { useState } from 'preact/hooks';
import { call, documentPath } from '../../api/http.ts';
import { field, type ObjectNode } from '../../json/node.ts';
import { done } from '../../state/notices.ts';
import { bytes, ErrorBox, Progress } from '../../ui/basics.tsx';
import { confirm } from '../../ui/dialog.tsx';
import { Preview } from './preview.tsx';

export interface Attachment {
  readonly name: string;
  readonly type: string;
  readonly length: number;
}

/** The attachments that a document describes. */
export function attachmentsOf(described: ObjectNode | undefined): Attachment[] {
  return (described?.entries ?? []).map(([name, value]) => {
    const [type, length] = [field(value, 'content_type'), field(value, 'length')];
    return { name, type: type?.kind === 'string' ? type.value : '', length: length?.kind === 'number' ? Number(length.text) : 0 };
  });
}

interface AttachmentsProps {
  db: string;
  id: string;
  rev: string;
  attachments: readonly Attachment[];
  readOnly: boolean;
  /** Called when the document has a new revision. */
  onChanged: (rev: string) => void;
}

export function Attachments({ db, id, rev, attachments, readOnly, onChanged }: AttachmentsProps) {
  const [previewed, setPreviewed] = useState<Attachment>();
  const [uploading, setUploading] = useState<{ name: string; index: number; total: number }>();
  const [error, setError] = useState<unknown>();
  const [isOver, setOver] = useState(false);

  const upload = async (files: readonly File[]) => {
    if (uploading || files.length === 0) return;
    setError(undefined);
    let latest = rev;
    try {
      for (const [index, file] of files.entries()) {
        const exists = attachments.some(({ name }) => name === file.name);
        if (exists && !(await confirm({ title: 'Replace the attachment?', text: `The document already has “${file.name}”.`, action: 'Replace' }))) continue;
        setUploading({ name: file.name, index, total: files.length });
        const type = file.type || 'application/octet-stream';
        const answer = await call<{ rev: string }>('PUT', documentPath(db, id, file.name), { query: { rev: latest }, body: file, headers: { 'content-type': type } });
        latest = answer.rev;
      }
      if (latest !== rev) done('Uploaded.');
    } catch (caught) {
      setError(caught);
    } finally {
      setUploading(undefined);
      if (latest !== rev) onChanged(latest);
    }
  };

  const remove = async ({ name }: Attachment) => {
    if (!(await confirm({ title: 'Delete the attachment?', text: `“${name}” is removed from the document.`, action: 'Delete', dangerous: true }))) return;
    try {
      const answer = await call<{ rev: string }>('DELETE', documentPath(db, id, name), { query: { rev } });
      if (previewed?.name === name) setPreviewed(undefined);
      onChanged(answer.rev);
    } catch (caught) {
      setError(caught);
    }
  };

  return (
    <section
      class={isOver ? 'attachments drop-over' : 'attachments'}
      aria-label="Attachments"
      onDragOver={(event) => {
        if (readOnly || !event.dataTransfer?.types.includes('Files')) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        if (readOnly) return;
        event.preventDefault();
        setOver(false);
        upload([...(event.dataTransfer?.files ?? [])]);
      }}
    >
      {!readOnly && (
        <div class="toolbar">
          <label class="button upload">
            Upload files
            <input
              type="file"
              multiple
              class="visually-hidden"
              onChange={(event) => {
                upload([...(event.currentTarget.files ?? [])]);
                event.currentTarget.value = '';
              }}
            />
          </label>
          <span class="soft">or drop them here</span>
          {uploading && <Progress label={`Uploading ${uploading.name} (${uploading.index + 1} of ${uploading.total})`} />}
        </div>
      )}
      {error !== undefined && <ErrorBox error={error} />}
      {attachments.length === 0 ? (
        <p class="soft">This document has no attachments.</p>
      ) : (
        <div class="wide-table" role="region" aria-label="List of attachments" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">Type</th>
                <th scope="col" class="number">
                  Size
                </th>
                <th scope="col">Actions</th>
              </tr>
            </thead>
            <tbody>
              {attachments.map((attachment) => (
                <tr key={attachment.name}>
                  <td>{attachment.name}</td>
                  <td>{attachment.type}</td>
                  <td class="number">{bytes(attachment.length)}</td>
                  <td>
                    <div class="toolbar">
                      <button type="button" onClick={() => setPreviewed(attachment)} aria-label={`Preview ${attachment.name}`}>
                        Preview
                      </button>
                      <a class="button" href={documentPath(db, id, attachment.name)} download={attachment.name} aria-label={`Download ${attachment.name}`}>
                        Download
                      </a>
                      {!readOnly && (
                        <button type="button" onClick={() => remove(attachment)} aria-label={`Delete ${attachment.name}`}>
                          Delete
                        </button>
                      )}
                    </div>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {previewed && <Preview key={`${previewed.name} ${rev}`} db={db} id={id} attachment={previewed} onClose={() => setPreviewed(undefined)} />}
    </section>
  );
}
