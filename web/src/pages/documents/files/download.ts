// Files that the page writes.

/** Where an export goes: a file that is written as it arrives, or a download at the end. */
export interface Sink {
  write: (text: string) => Promise<void>;
  close: () => Promise<void>;
  /** Gives the file up. */
  abort: () => Promise<void>;
}

interface Picker {
  showSaveFilePicker?: (options: { suggestedName: string }) => Promise<{ createWritable: () => Promise<WritableStream & { write: (text: string) => Promise<void> }> }>;
}

/** The texts that are joined before they become part of a file in memory. */
const PART_CHARACTERS = 4_000_000;

/** Opens a file. It must be called by a click, because browsers ask where the file is to go. Nothing if the person cancels. */
export async function openSink(name: string, type: string): Promise<Sink | undefined> {
  const pick = (window as Picker).showSaveFilePicker;
  if (!pick) return memorySink(name, type);
  try {
    const handle = await pick.call(window, { suggestedName: name });
    const file = await handle.createWritable();
    return { write: (text) => file.write(text), close: () => file.close(), abort: () => file.abort() };
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') return undefined;
    throw error;
  }
}

function memorySink(name: string, type: string): Sink {
  const parts: Blob[] = [];
  let waiting: string[] = [];
  let length = 0;
  const pack = () => {
    // The browser may keep parts of files on disk, texts never.
    parts.push(new Blob(waiting));
    waiting = [];
    length = 0;
  };
  return {
    async write(text) {
      waiting.push(text);
      length += text.length;
      if (length >= PART_CHARACTERS) pack();
    },
    async close() {
      pack();
      download(name, type, parts);
    },
    async abort() {
      parts.length = 0;
    },
  };
}

/** Hands a file to the person. */
export function download(name: string, type: string, parts: BlobPart[]): void {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const anchor = document.createElement('a');
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  // The browser reads the file after the click.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
