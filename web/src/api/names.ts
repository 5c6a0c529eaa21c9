// Names of databases over HTTP, and the collections that they are for MongoDB's drivers.

/** A collection as MongoDB's drivers name it. */
export interface Namespace {
  readonly database: string;
  readonly collection: string;
}

const SYSTEM = ['_global_changes', '_replicator', '_users'];

/** The collection of a database: `cars` is `test.cars`, `shop/orders` is `shop.orders`. */
export function namespace(db: string): Namespace {
  const stored = db.replaceAll('$', '＄');
  if (SYSTEM.includes(db)) return { database: 'admin', collection: db };
  const slash = stored.indexOf('/');
  return slash < 0
    ? { database: 'test', collection: stored }
    : { database: stored.slice(0, slash), collection: stored.slice(slash + 1) };
}

/** The name over HTTP of a collection, or nothing for MongoDB's internal collections. */
export function httpName({ database, collection }: Namespace): string | undefined {
  if (collection.startsWith('system.')) return undefined;
  if (database === 'admin' && SYSTEM.includes(collection)) return collection;
  const plain = database === 'test' && !collection.includes('/') && !SYSTEM.includes(collection);
  return (plain ? collection : `${database}/${collection}`).replaceAll('＄', '$');
}
