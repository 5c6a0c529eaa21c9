// Asks before the page is left while something is unsaved.

import { useEffect, useRef } from 'preact/hooks';
import { confirm } from '../ui/dialog.tsx';
import { guard } from './router.ts';

/**
 * While `unsaved` is true, a link asks whether what was typed may be lost. The returned function ends that at once: call it
 * before going on to another page after a save.
 */
export function useUnsaved(unsaved: boolean, what: string): () => void {
  const release = useRef(() => {});
  useEffect(() => {
    if (!unsaved) return;
    const end = guard(() => {
      // The router takes the address back, so the way on is kept here.
      const target = location.hash;
      confirm({ title: 'Leave without saving?', text: `${what} has changes that are not saved.`, action: 'Leave and lose them', dangerous: true }).then((agreed) => {
        if (!agreed) return;
        end();
        location.hash = target;
      });
      return false;
    });
    release.current = end;
    return end;
  }, [unsaved, what]);
  return () => release.current();
}
