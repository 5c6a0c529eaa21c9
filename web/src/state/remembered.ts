// Small values that the browser keeps, such as choices of view.

const PREFIX = 'diwan.';

/** A value under a name. A browser that keeps nothing returns `initial`. */
export function remembered<T>(name: string, initial: T): { get: () => T; set: (value: T) => void } {
  const key = PREFIX + name;
  return {
    get() {
      try {
        const text = localStorage.getItem(key);
        return text === null ? initial : (JSON.parse(text) as T);
      } catch {
        return initial;
      }
    },
    set(value) {
      try {
        localStorage.setItem(key, JSON.stringify(value));
      } catch {
        // Full or forbidden: the value holds until the page is closed.
      }
    },
  };
}

/** Forgets the values whose names begin with `beginning`. */
export function forget(beginning: string): void {
  try {
    for (const key of Object.keys(localStorage)) if (key.startsWith(PREFIX + beginning)) localStorage.removeItem(key);
  } catch {
    // A browser that keeps nothing has nothing to forget.
  }
}
