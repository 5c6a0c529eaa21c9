// The field in which a MongoDB filter narrows the list.

import { useId, useState } from 'preact/hooks';

interface FilterFieldProps {
  value: string;
  /** Why the filter is none. */
  problem: string | undefined;
  onApply: (text: string | undefined) => void;
}

export function FilterField({ value, problem, onApply }: FilterFieldProps) {
  const [text, setText] = useState(value);
  const message = useId();
  return (
    <form
      class="filter-field"
      role="search"
      aria-label="Filter of the list"
      onSubmit={(event) => {
        event.preventDefault();
        onApply(text.trim() === '' ? undefined : text);
      }}
    >
      <input
        class="mono"
        aria-label="Filter"
        aria-invalid={problem !== undefined}
        aria-describedby={problem ? message : undefined}
        placeholder="Filter: { year: { $lt: 1970 } }"
        spellcheck={false}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <button>Filter</button>
      {value !== '' && (
        <button type="button" class="plain" onClick={() => onApply(undefined)}>
          Clear
        </button>
      )}
      {problem && (
        <span id={message} class="problem" role="alert">
          {problem}
        </span>
      )}
    </form>
  );
}
