"""The interface between workloads and systems.

A `Target` is one system's life: start, tell about itself, be replicated, be killed, stop. A `Client` is one connection to it and does
the operations. `Target.connector` returns a picklable function that makes a client, so that client processes can be started with it.

What a system does not offer raises `Unsupported` with the reason; the report shows that, it is not a failure.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.data import Key, Query, Row, Table

RELAXED = "relaxed"
SYNCED = "synced"


class NotGiven(Exception):
    """The system was not made available to this run: no address, no program."""


class Unsupported(Exception):
    """The system, or this bench's way to reach it, does not offer the operation."""


class Client(ABC):
    """One connection. Tables are named by the workload; each operation is one round trip unless said otherwise."""

    # The language that `native` takes here; none where there is only the operations below.
    dialect: str | None = None

    @abstractmethod
    def create(self, table: Table) -> None:
        """Makes an empty table, after dropping an older one of that name."""

    @abstractmethod
    def drop(self, table: Table) -> None:
        """Drops the table, and the database that was made for it alone."""

    @abstractmethod
    def create_index(self, table: Table, *fields: str) -> None:
        """Makes an index on the fields in this order, and returns when it is complete."""

    @abstractmethod
    def insert_one(self, table: Table, row: Row) -> None:
        """Inserts one document in one call."""

    @abstractmethod
    def insert_many(self, table: Table, rows: list[Row]) -> None:
        """Inserts documents in one command."""

    @abstractmethod
    def update_field(self, table: Table, key: Key, field: str, value: object) -> None:
        """Sets one field of the document of an id; in two round trips where the system has no update in place."""

    @abstractmethod
    def delete_one(self, table: Table, key: Key) -> None:
        """Deletes the document of an id; in two round trips where the system wants to be told its revision."""

    @abstractmethod
    def delete_many(self, table: Table, query: Query) -> int:
        """Deletes all documents that match, and returns how many; in as few round trips as the system offers."""

    @abstractmethod
    def find_by_id(self, table: Table, key: Key) -> dict | None:
        """The document of an id, without the id."""

    @abstractmethod
    def count(self, table: Table, query: Query) -> int:
        """How many documents match; the server counts."""

    @abstractmethod
    def find(self, table: Table, query: Query) -> Iterable[object]:
        """The matching documents, each decoded as it is reached, with the query's fields, order and limit."""

    @abstractmethod
    def read_range(self, table: Table, start: Key, limit: int) -> int:
        """Reads `limit` documents in the order of their ids from an id on, decodes them and returns how many there were."""

    @abstractmethod
    def maintain(self, table: Table) -> str:
        """Runs what the system offers to bring storage to rest; returns what was done."""

    @abstractmethod
    def table_bytes(self, table: Table) -> int | None:
        """What the system itself says the table and its indexes take; none if it cannot tell."""

    def native(self, table: Table, statements: dict[str, object]) -> list:
        """The rows that the statement of this client's dialect returns, decoded; a workload writes one for each dialect."""
        raise Unsupported("has no queries of its own here")

    @abstractmethod
    def close(self) -> None:
        """Ends the connection."""


class Target(ABC):
    """One system. A subclass states its name, its kind, and what each durability mode means there."""

    name: str
    kind: str = "server"  # or "in-process" (a library: the floor, a class of its own) or "null" (the client's own cost)
    baseline: str | None = None  # the null target that costs the same client
    durability: dict[str, str] = {}  # without a mode: data sets of that durability say so
    # Options of the command line that only this system has (a text, or none), and what each is for: `some_uri` becomes --some-uri.
    options: dict[str, str] = {}

    pid: int | None = None
    data: Path | None = None
    ready_seconds: float | None = None
    # Set before `start` where a replica will follow: some systems must log for it from the beginning, and should not otherwise.
    replicated: bool = False

    @classmethod
    @abstractmethod
    def configured(cls, options) -> "Target":
        """The target as the command line's options want it."""

    @abstractmethod
    def start(self, directory: Path) -> None:
        """Starts or connects; files go below the empty directory. Raises NotGiven when the system is not there."""

    @abstractmethod
    def stop(self) -> None:
        """Ends what `start` and `start_replica` began; may be called twice, and after a failed start."""

    @abstractmethod
    def connector(self, durability: str) -> Callable[[], Client]:
        """A picklable function that connects with the given durability."""

    @abstractmethod
    def describe(self) -> dict:
        """Version and settings of the running system."""

    def kill(self) -> None:
        """Ends the server as `kill -9` does; it can be started again with `restart`."""
        raise Unsupported("is not a server that the bench started")

    def restart(self) -> None:
        """Starts a server again on the data that it had, and returns when it serves; sets `pid` and `ready_seconds`."""
        raise Unsupported("is not a server that the bench started")

    def start_replica(self, directory: Path, tables: list[Table]) -> None:
        """Starts a second instance below the empty directory that follows this one asynchronously.

        `tables` exist already, and do on the replica when this returns; it may still be catching up on what is in them.
        """
        raise Unsupported("the bench starts no replica of it")

    def replica_connector(self) -> Callable[[], Client]:
        """Like `connector`, to the replica, for reading."""
        raise Unsupported("the bench starts no replica of it")

    def await_replica(self, limit: float = 600.0) -> None:
        """Returns when the replica holds every write that this instance has acknowledged; an error after `limit` seconds."""
        raise Unsupported("the bench starts no replica of it")
