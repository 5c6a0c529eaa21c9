// All pages. A page's code is loaded when it is first shown.

import type { ComponentType } from 'preact';

/** What a page of a database is given. `rest` are the segments of the address after the page's name. */
export interface DatabasePageProps {
  db: string;
  rest: readonly string[];
}

interface PageEntry<Props> {
  /** The segment of the address. */
  readonly name: string;
  readonly label: string;
  /** The action of MongoDB's privileges without which the page is not offered. */
  readonly action?: string;
  readonly load: () => Promise<ComponentType<Props>>;
}

export interface DatabasePage extends PageEntry<DatabasePageProps> {
  /** Whether the page is one of the tabs, or reached by links only. */
  readonly isTab: boolean;
  /** Whether the page also works on MongoDB's views, which HTTP does not show. */
  readonly worksOnViews?: boolean;
}

export type ServerPage = PageEntry<{ rest: readonly string[] }>;

/** Pages under `#/db/NAME/…`, in the order of the tabs. */
export const databasePages: readonly DatabasePage[] = [
  { name: 'documents', label: 'Documents', isTab: true, action: 'find', load: async () => (await import('./documents/list.tsx')).DocumentList },
  { name: 'doc', label: 'Document', isTab: false, action: 'find', load: async () => (await import('./documents/document.tsx')).DocumentPage },
  { name: 'query', label: 'Query', isTab: true, action: 'find', worksOnViews: true, load: async () => (await import('./query/query.tsx')).QueryPage },
  { name: 'schema', label: 'Schema', isTab: true, action: 'find', worksOnViews: true, load: async () => (await import('./query/schema.tsx')).SchemaPage },
  { name: 'indexes', label: 'Indexes', isTab: true, action: 'listIndexes', load: async () => (await import('./query/indexes.tsx')).IndexesPage },
  { name: 'design', label: 'Views and design', isTab: true, action: 'find', load: async () => (await import('./design/design.tsx')).DesignPage },
  { name: 'changes', label: 'Changes', isTab: true, action: 'find', load: async () => (await import('./changes/changes.tsx')).ChangesPage },
  { name: 'conflicts', label: 'Conflicts', isTab: true, action: 'find', load: async () => (await import('./revisions/conflicts.tsx')).ConflictsPage },
  { name: 'revisions', label: 'Revisions', isTab: false, action: 'find', load: async () => (await import('./revisions/revisions.tsx')).RevisionsPage },
  { name: 'settings', label: 'Settings', isTab: true, load: async () => (await import('./database/settings.tsx')).DatabaseSettings },
];

/** Pages under `#/server/…`, in the order of the list. */
export const serverPages: readonly ServerPage[] = [
  { name: 'overview', label: 'Overview', load: async () => (await import('./server/overview.tsx')).OverviewPage },
  { name: 'operations', label: 'Operations', load: async () => (await import('./server/operations.tsx')).OperationsPage },
  { name: 'slow', label: 'Slow queries', action: 'serverStatus', load: async () => (await import('./server/slow.tsx')).SlowPage },
  { name: 'replication', label: 'Replication', action: 'setParameter', load: async () => (await import('./replication/replication.tsx')).ReplicationPage },
  { name: 'users', label: 'Users and roles', load: async () => (await import('./server/users.tsx')).UsersPage },
  { name: 'settings', label: 'Settings', action: 'setParameter', load: async () => (await import('./server/settings.tsx')).SettingsPage },
  { name: 'audit', label: 'Audit', action: 'setParameter', load: async () => (await import('./server/audit.tsx')).AuditPage },
  { name: 'connect', label: 'Connect', load: async () => (await import('./start/connect.tsx')).ConnectPage },
];

export const startPage = async () => (await import('./start/start.tsx')).StartPage;
export const newDatabasePage = async () => (await import('./database/new.tsx')).NewDatabasePage;
