"""Continuous replication with CouchDB's protocol: starts pulls in a follower and waits until it has caught up."""

import time

import couchdb
from couchdb.http import HTTPError

POLL_SECONDS = 0.002


def number_of(sequence: object) -> int:
    """The number at the start of a sequence."""
    return int(str(sequence or 0).partition("-")[0])


class Following:
    """The replications of one follower. They run in the follower; replicas of other systems also pull."""

    def __init__(self, source: str, follower: str) -> None:
        self._source = couchdb.Server(source)
        self._follower = couchdb.Server(follower)
        self._databases: dict[str, str] = {}  # by the replication's id

    def follow(self, database: str, target: str | None = None) -> None:
        """Starts to pull a database. `target` is where the follower writes; the default is the database's address."""
        written = target or self._follower.resource(database).url
        started = self._follower.replicate(self._source.resource(database).url, written, create_target=True, continuous=True)
        self._databases[started["_local_id"]] = database

    def wait(self, limit: float) -> None:
        """Returns when the follower has everything that the source contains now, according to the sequences that the follower reports."""
        behind = {
            job: number_of(self._source.resource(database).get_json()[2]["update_seq"]) for job, database in self._databases.items()
        }
        end = time.monotonic() + limit
        while True:
            for task in self._follower.tasks():
                job = task.get("replication_id")
                if job in behind and number_of(task.get("through_seq")) >= behind[job]:
                    del behind[job]
            if not behind:
                return
            if time.monotonic() > end:
                lacking = ", ".join(self._databases[job] for job in behind)
                raise TimeoutError(f"the replica is still behind after {limit:.0f} s: {lacking}")
            time.sleep(POLL_SECONDS)

    def end(self) -> None:
        """Stops the replications; the follower continues to run."""
        for job in self._databases:
            try:
                self._follower.resource.post_json("_replicate", body={"cancel": True, "replication_id": job})
            except HTTPError:
                continue  # the replication has already ended
        self._databases.clear()
