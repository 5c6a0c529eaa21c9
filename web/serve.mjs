// Serves the page from its source while it is written: `node serve.mjs [port]`. It builds again at each load of the page,
// and hands every other request to the server at DIWAN (http://127.0.0.1:5984).
import { createServer, request } from 'node:http';
import { compile } from './build.mjs';

const target = new URL(process.env.DIWAN ?? 'http://127.0.0.1:5984');
const port = Number(process.argv[2] ?? 5980);
const TYPES = { html: 'text/html; charset=utf-8', js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml' };
// The same policy as the server's.
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; font-src 'self'; connect-src 'self'; frame-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";
let files = new Map();

createServer(async (incoming, outgoing) => {
  const path = new URL(incoming.url, 'http://page').pathname;
  if (path.startsWith('/_utils/')) {
    const name = path.slice('/_utils/'.length) || 'index.html';
    try {
      if (name === 'index.html') files = await compile();
    } catch (error) {
      outgoing.writeHead(500).end(String(error));
      return;
    }
    const file = files.get(name);
    const type = TYPES[name.split('.').pop()] ?? 'application/octet-stream';
    outgoing.writeHead(file ? 200 : 404, { 'content-type': type, 'content-security-policy': POLICY, 'x-content-type-options': 'nosniff' });
    outgoing.end(file);
    return;
  }
  const options = { host: target.hostname, port: target.port, method: incoming.method, path: incoming.url, headers: incoming.headers };
  const onward = request(options, (answer) => {
    outgoing.writeHead(answer.statusCode, answer.headers);
    outgoing.flushHeaders();
    answer.pipe(outgoing);
  });
  onward.on('error', () => outgoing.destroy());
  outgoing.on('close', () => onward.destroy());
  incoming.pipe(onward);
}).listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${port}/_utils/`));
