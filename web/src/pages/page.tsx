// The page of the address.

import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { databases, shownName } from '../state/databases.ts';
import { failed } from '../state/notices.ts';
import { link, place } from '../state/router.ts';
import { may } from '../state/session.ts';
import { Empty, Tabs } from '../ui/basics.tsx';
import { databasePages, newDatabasePage, serverPages, startPage, type DatabasePage } from './registry.ts';

export function Page() {
  const [area, name = '', ...rest] = place.value.segments;
  if (area === undefined) return <Lazy key="start" load={startPage} props={{}} />;
  if (area === 'new') return <Lazy key="new" load={newDatabasePage} props={{}} />;
  if (area === 'db' && name !== '') return <InDatabase db={name} rest={rest} />;
  const page = area === 'server' ? serverPages.find((page) => page.name === name) : undefined;
  if (!page) {
    return (
      <Empty title="There is no such page">
        <a href="#/">Go to the beginning</a>
      </Empty>
    );
  }
  return (
    <>
      <Title text={page.label} />
      <Lazy key={page.name} load={page.load} props={{ rest }} />
    </>
  );
}

function InDatabase({ db, rest }: { db: string; rest: readonly string[] }) {
  const [name = 'documents', ...more] = rest;
  const isView = databases.value?.find((database) => database.name === db)?.isView ?? false;
  const offered = (page: DatabasePage) => (page.action === undefined || may(page.action, db)) && (!isView || page.worksOnViews === true);
  const page = databasePages.find((page) => page.name === name);
  return (
    <>
      <Title text={shownName(db)} />
      <Tabs
        label="Parts of the database"
        tabs={databasePages
          .filter((page) => page.isTab && offered(page))
          .map((page) => ({ label: page.label, href: link(['db', db, page.name]), current: page.name === name || (page.name === 'documents' && name === 'doc') || (page.name === 'conflicts' && name === 'revisions') }))}
      />
      {page && offered(page) ? (
        <Lazy key={`${db} ${page.name}`} load={page.load} props={{ db, rest: more }} />
      ) : (
        <Empty title={page ? 'You may not use this page' : 'There is no such page'}>{page && <p>It needs the right “{page.action}” on {db}.</p>}</Empty>
      )}
    </>
  );
}

/** A page's heading, which is also the title of the browser's tab. */
function Title({ text }: { text: string }) {
  useEffect(() => {
    document.title = `${text} · Diwan`;
    return () => {
      document.title = 'Diwan';
    };
  }, [text]);
  return (
    <div class="page-head">
      <h1>{text}</h1>
    </div>
  );
}

interface LazyProps<Props> {
  load: () => Promise<ComponentType<Props>>;
  props: Props;
}

/** Loads a page's code, then shows the page. */
function Lazy<Props extends object>({ load, props }: LazyProps<Props>) {
  const [component, setComponent] = useState<{ Shown: ComponentType<Props> }>();
  useEffect(() => {
    load().then((Shown) => setComponent({ Shown }), failed);
  }, []);
  if (!component) return <p class="loading">Loading…</p>;
  return <component.Shown {...props} />;
}
