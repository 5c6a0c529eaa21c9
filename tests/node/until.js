// What replication brings about comes in its own time.

import assert from "node:assert/strict";

/** Waits up to ten seconds until `check` says yes. */
export const until = async (what, check) => {
  for (let tries = 0; tries < 500; tries++) {
    if (await check()) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.fail(`waited in vain for ${what}`);
};
