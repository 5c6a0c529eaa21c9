// Change streams of the driver.

import assert from 'node:assert/strict';
import { until } from './until.js';

/** A change stream that has begun: it shows every change from now on. */
export const watch = async (target, pipeline = [], options = {}) => {
  const stream = target.watch(pipeline, { maxAwaitTimeMS: 20, ...options });
  assert.equal(await stream.tryNext(), null);
  return stream;
};

/** Waits for `count` events and returns all that have come. */
export const take = async (stream, count) => {
  const events = [];
  await until(`${count} events`, async () => {
    for (let event; (event = await stream.tryNext()); ) events.push(event);
    return events.length >= count;
  });
  return events;
};
