// Builds the page into `dist`, which the binary embeds: `node build.mjs`. With `--check` it compares `dist` with a fresh
// build and changes nothing.
//
// Every file is kept as gzip only, since every browser takes it. Names of assets contain a hash of their contents.
import { build } from 'esbuild';
import { gunzipSync, gzipSync } from 'node:zlib';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(fileURLToPath(import.meta.url));
const dist = join(root, 'dist');

/** The most that all files may have together, compressed. */
const LIMIT_BYTES = 400 * 1024;

/** The files of a build by their paths in `dist`, uncompressed. */
export async function compile() {
  const result = await build({
    absWorkingDir: root,
    entryPoints: { app: 'src/main.tsx' },
    outdir: 'dist/assets',
    entryNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    assetNames: '[name]-[hash]',
    bundle: true,
    splitting: true,
    format: 'esm',
    target: ['es2022'],
    minify: true,
    legalComments: 'none',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    loader: { '.svg': 'file' },
    metafile: true,
    write: false,
    logLevel: 'warning',
  });
  const made = new Map();
  for (const file of result.outputFiles) made.set(relative(dist, file.path), Buffer.from(file.contents));
  const names = [...made.keys()];
  const script = names.find((name) => /^assets\/app-[^/]*\.js$/.test(name));
  const style = names.find((name) => /^assets\/app-[^/]*\.css$/.test(name));
  const page = readFileSync(join(root, 'src/index.html'), 'utf8')
    .replace('{{script}}', script)
    .replace('{{style}}', style);
  made.set('index.html', Buffer.from(page));
  made.set('favicon.svg', readFileSync(join(root, 'src/favicon.svg')));
  return made;
}

/** The files in `dist`, uncompressed. */
function committed() {
  const found = new Map();
  for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    found.set(relative(dist, path).replace(/\.gz$/, ''), gunzipSync(readFileSync(path)));
  }
  return found;
}

/** Builds or compares, and reports the sizes. */
async function main() {
  const made = await compile();
  const packed = new Map([...made].map(([name, bytes]) => [name, gzipSync(bytes, { level: 9 })]));
  const total = [...packed.values()].reduce((sum, bytes) => sum + bytes.length, 0);
  const kb = (bytes) => `${(bytes / 1024).toFixed(1)} KB`;

  if (process.argv.includes('--check')) {
    const old = committed();
    const differing = [...new Set([...old.keys(), ...made.keys()])].filter(
      (name) => !old.has(name) || !made.has(name) || !old.get(name).equals(made.get(name)),
    );
    if (differing.length > 0) {
      console.error(`web/dist is not what web/src builds: ${differing.join(', ')}. Run \`make web\` and commit web/dist.`);
      process.exit(1);
    }
  } else {
    rmSync(dist, { recursive: true, force: true });
    for (const [name, bytes] of packed) {
      mkdirSync(dirname(join(dist, name)), { recursive: true });
      writeFileSync(join(dist, `${name}.gz`), bytes);
    }
  }
  const largest = [...packed].sort((a, b) => b[1].length - a[1].length).slice(0, 6);
  console.log(`${packed.size} files, ${kb(total)} compressed: ${largest.map(([n, b]) => `${basename(n)} ${kb(b.length)}`).join(', ')}`);
  if (total > LIMIT_BYTES) {
    console.error(`The page has ${kb(total)} compressed; the limit is ${kb(LIMIT_BYTES)}.`);
    process.exit(1);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
