// The editor itself. Only `editor.tsx` imports this file, so that pages without an editor do not load it.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionContext, type CompletionResult } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { javascript } from '@codemirror/lang-javascript';
import { json } from '@codemirror/lang-json';
import { bracketMatching, foldGutter, foldKeymap, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from '@codemirror/language';
import { linter, lintGutter, lintKeymap, setDiagnostics } from '@codemirror/lint';
import { highlightSelectionMatches, searchKeymap } from '@codemirror/search';
import { Compartment, EditorState } from '@codemirror/state';
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { LINE_PIXELS, type EditorProps } from './editor.tsx';

/** A problem at a place of the text, in characters from its beginning. */
export interface Problem {
  from: number;
  to: number;
  message: string;
}

/** Finds completions at a place. */
export type Completions = (context: CompletionContext) => CompletionResult | null | Promise<CompletionResult | null>;

export interface EditorHandle {
  setText: (text: string) => void;
  setReadOnly: (readOnly: boolean) => void;
  setProblems: (problems: readonly Problem[]) => void;
  destroy: () => void;
}

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--code-name)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--code-string)' },
  { tag: tags.regexp, color: 'var(--code-string)' },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: 'var(--code-number)' },
  { tag: [tags.keyword, tags.operatorKeyword], color: 'var(--code-keyword)' },
  { tag: [tags.function(tags.variableName), tags.typeName], color: 'var(--code-function)' },
  { tag: tags.comment, color: 'var(--text-soft)', fontStyle: 'italic' },
  { tag: tags.invalid, color: 'var(--danger)' },
]);

const theme = EditorView.theme({
  '&': { color: 'var(--text)', backgroundColor: 'var(--field)', fontSize: '13px', border: '1px solid var(--line-strong)', borderRadius: '6px', height: '100%' },
  '&.cm-focused': { outline: '2px solid var(--focus)', outlineOffset: '-1px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.5' },
  '.cm-content': { caretColor: 'var(--text)', padding: '6px 0' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { backgroundColor: 'transparent', color: 'var(--text-soft)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--hover)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': { backgroundColor: 'var(--selected)' },
  '.cm-tooltip': { backgroundColor: 'var(--panel)', color: 'var(--text)', border: '1px solid var(--line-strong)', borderRadius: '6px' },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--accent)', color: 'var(--on-accent)' },
  '.cm-panels': { backgroundColor: 'var(--panel)', color: 'var(--text)' },
  '.cm-foldPlaceholder': { backgroundColor: 'var(--hover)', color: 'var(--text-soft)', border: 'none' },
  '.cm-matchingBracket, &.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--selected)' },
});

/** Creates an editor in a shadow tree of `host`. `props` returns what the component was last rendered with. */
export function createEditor(host: HTMLElement, props: () => EditorProps): EditorHandle {
  const first = props();
  const shadow = host.shadowRoot ?? host.attachShadow({ mode: 'open' });
  const readOnly = new Compartment();
  const fixed = (value: boolean) => [EditorState.readOnly.of(value), EditorView.editable.of(!value)];
  const shown = (view: EditorView, problems: readonly Problem[]) =>
    problems.map(({ from, to, message }) => {
      const length = view.state.doc.length;
      return { from: Math.min(from, length), to: Math.min(Math.max(to, from), length), severity: 'error' as const, message };
    });
  // The linter replaces all problems a moment after a change, so it must know those of the page.
  let told: readonly Problem[] = first.problems ?? [];
  const findProblems = (view: EditorView) => shown(view, [...(props().check?.(view.state.doc.toString()) ?? []), ...told]);
  const view = new EditorView({
    parent: shadow,
    root: shadow,
    state: EditorState.create({
      doc: first.value,
      extensions: [
        lineNumbers(),
        foldGutter(),
        history(),
        drawSelection(),
        indentUnit.of('  '),
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        highlightActiveLine(),
        highlightSelectionMatches(),
        syntaxHighlighting(colours),
        theme,
        EditorView.lineWrapping,
        EditorView.theme({ '.cm-content, .cm-gutter': { minHeight: `${(first.lines ?? 4) * LINE_PIXELS}px` } }),
        EditorView.contentAttributes.of({ 'aria-label': first.label }),
        first.language === 'json' ? json() : javascript(),
        lintGutter(),
        autocompletion({ override: first.complete ? [(context) => props().complete?.(context) ?? null] : undefined }),
        linter(findProblems, { delay: 300 }),
        readOnly.of(fixed(first.readOnly ?? false)),
        keymap.of([
          {
            key: 'Mod-Enter',
            run: () => {
              props().onRun?.();
              return props().onRun !== undefined;
            },
          },
          ...closeBracketsKeymap,
          ...defaultKeymap,
          ...searchKeymap,
          ...historyKeymap,
          ...foldKeymap,
          ...completionKeymap,
          ...lintKeymap,
        ]),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged) return;
          told = [];
          props().onChange?.(update.state.doc.toString());
        }),
      ],
    }),
  });
  return {
    setText(text) {
      if (text === view.state.doc.toString()) return;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
      view.dispatch(setDiagnostics(view.state, findProblems(view)));
    },
    setReadOnly(value) {
      view.dispatch({ effects: readOnly.reconfigure(fixed(value)) });
    },
    setProblems(problems) {
      told = problems;
      view.dispatch(setDiagnostics(view.state, findProblems(view)));
    },
    destroy() {
      view.destroy();
    },
  };
}
