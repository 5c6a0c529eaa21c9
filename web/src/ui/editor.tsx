// The text editor, which is loaded when it is first shown.

import { useEffect, useRef } from 'preact/hooks';
import type { Completions, EditorHandle, Problem } from './codemirror.ts';
import { pixelsOf } from './virtual.tsx';

export type { Completions, Problem } from './codemirror.ts';

/** The height of a line of text. */
export const LINE_PIXELS = 20;

export interface EditorProps {
  /** The text at first. Later changes of `value` replace the text only if they differ from what is there. */
  value: string;
  onChange?: (text: string) => void;
  /** Called by Ctrl+Enter or Cmd+Enter. */
  onRun?: () => void;
  language: 'json' | 'shell' | 'javascript';
  /** What screen readers call the editor. */
  label: string;
  readOnly?: boolean;
  /** Finds problems, which are shown at their places. */
  check?: (text: string) => Problem[];
  /** Problems that the page has found. They are shown until the text changes. */
  problems?: readonly Problem[];
  complete?: Completions;
  /** The height without text, in lines. */
  lines?: number;
}

/** A text editor with highlighting, completion and problems. It lies in a shadow tree, whose styles need no exception. */
export function Editor(props: EditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const handle = useRef<EditorHandle | null>(null);
  const latest = useRef(props);
  /** Texts that the person typed and the page has not given back yet as `value`. */
  const typed = useRef<string[]>([]);
  const onChange = (text: string) => {
    typed.current.push(text);
    props.onChange?.(text);
  };
  latest.current = { ...props, onChange };
  useEffect(() => {
    const place = host.current;
    if (!place) return;
    let isGone = false;
    import('./codemirror.ts').then(({ createEditor }) => {
      if (!isGone) handle.current = createEditor(place, () => latest.current);
    });
    return () => {
      isGone = true;
      handle.current?.destroy();
      handle.current = null;
    };
  }, []);
  useEffect(() => {
    // A value that comes back late must not replace what was typed since.
    const at = typed.current.lastIndexOf(props.value);
    typed.current = at < 0 ? [] : typed.current.slice(at + 1);
    if (at < 0) handle.current?.setText(props.value);
  }, [props.value]);
  useEffect(() => handle.current?.setReadOnly(props.readOnly ?? false), [props.readOnly]);
  useEffect(() => handle.current?.setProblems(props.problems ?? []), [props.problems]);
  // The place is kept while the editor is loaded, so that nothing jumps under the pointer.
  return <div class="editor" ref={host} style={{ minHeight: pixelsOf((props.lines ?? 4) * LINE_PIXELS + 14) }} />;
}
