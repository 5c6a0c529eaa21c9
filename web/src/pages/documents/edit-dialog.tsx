// Edits a document without leaving the list.

import { useState } from 'preact/hooks';
import { useLoad } from '../../state/load.ts';
import { Shown } from '../../ui/basics.tsx';
import { confirm, Dialog } from '../../ui/dialog.tsx';
import { DocumentEditor } from './editor.tsx';
import { loadDocument } from './stored.ts';

interface EditDialogProps {
  db: string;
  id: string;
  /** `isChanged` says whether the document was saved. */
  onClose: (isChanged: boolean) => void;
}

export function EditDialog({ db, id, onClose }: EditDialogProps) {
  const loaded = useLoad((signal) => loadDocument(db, id, signal), [db, id]);
  const [isChanged, setChanged] = useState(false);
  const close = async () => {
    const question = { title: 'Close without saving?', text: 'The document has changes that are not saved.', action: 'Close and lose them', dangerous: true };
    if (!isChanged || (await confirm(question))) onClose(false);
  };
  return (
    <Dialog title={`Edit ${id}`} wide onClose={close}>
      <div class="dialog-body">
        <Shown of={loaded}>{(stored) => <DocumentEditor db={db} id={id} base={stored} onChanged={setChanged} onSaved={() => onClose(true)} />}</Shown>
      </div>
    </Dialog>
  );
}
