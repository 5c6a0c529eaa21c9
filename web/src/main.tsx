// The page begins here.

import { render } from 'preact';
import { App } from './app.tsx';
import { loadSession } from './state/session.ts';
import { failed } from './state/notices.ts';
import './style/main.css';

render(<App />, document.getElementById('app')!);
loadSession().catch(failed);
