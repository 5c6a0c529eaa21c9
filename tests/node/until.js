// Waiting for asynchronous results, such as those of replication.

import assert from "node:assert/strict";

/** Waits up to ten seconds until `check` returns true. */
export const until = async (what, check) => {
  for (let tries = 0; tries < 500; tries++) {
    if (await check()) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.fail(`timed out waiting for ${what}`);
};
