"""The interface between workloads and systems.

A `Target` manages the lifecycle of one system: start, describe, replicate, kill, stop. A `Client` is one connection and runs
the operations. `Target.connector` returns a picklable function that makes a client, so that client processes can use it.

An operation that the system does not support raises `Unsupported` with the reason. The report shows it; it is not a failure.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.data import Key, Query, Row, Table

RELAXED = "relaxed"
SYNCED = "synced"


class NotGiven(Exception):
    """The system is not available to this run: there is no address or no program."""


class Unsupported(Exception):
    """The system, or the bench's client for it, does not support the operation."""


class Client(ABC):
    """One connection. Workloads name the tables. Each operation is one round trip unless its description says otherwise."""

    # The query language of `native`; None if the client has only the operations below.
    dialect: str | None = None

    @abstractmethod
    def create(self, table: Table) -> None:
        """Creates an empty table, and drops an existing one of that name."""

    @abstractmethod
    def drop(self, table: Table) -> None:
        """Drops the table, and a database that was created only for it."""

    @abstractmethod
    def create_index(self, table: Table, *fields: str) -> None:
        """Creates an index on the fields in this order, and returns when it is complete."""

    @abstractmethod
    def insert_one(self, table: Table, row: Row) -> None:
        """Inserts one document in one call."""

    @abstractmethod
    def insert_many(self, table: Table, rows: list[Row]) -> None:
        """Inserts documents in one command."""

    @abstractmethod
    def update_field(self, table: Table, key: Key, field: str, value: object) -> None:
        """Sets one field of the document with an id. It takes two round trips if the system has no update in place."""

    @abstractmethod
    def delete_one(self, table: Table, key: Key) -> None:
        """Deletes the document with an id. It takes two round trips if the system requires the revision."""

    @abstractmethod
    def delete_many(self, table: Table, query: Query) -> int:
        """Deletes all matching documents in as few round trips as possible, and returns their number."""

    @abstractmethod
    def find_by_id(self, table: Table, key: Key) -> dict | None:
        """The document with an id, without the id."""

    @abstractmethod
    def count(self, table: Table, query: Query) -> int:
        """The number of matching documents, counted by the server."""

    @abstractmethod
    def find(self, table: Table, query: Query) -> Iterable[object]:
        """The matching documents with the query's fields, order and limit. Each is decoded when the iteration reaches it."""

    @abstractmethod
    def read_range(self, table: Table, start: Key, limit: int) -> int:
        """Reads and decodes up to `limit` documents in id order, starting at an id, and returns their number."""

    @abstractmethod
    def maintain(self, table: Table) -> str:
        """Runs the system's storage maintenance, and returns a description of it."""

    @abstractmethod
    def table_bytes(self, table: Table) -> int | None:
        """The size of the table and its indexes as the system reports it; None if it does not."""

    def native(self, table: Table, statements: dict[str, object]) -> list:
        """The decoded rows of the statement for this client's dialect; a workload has one statement for each dialect."""
        raise Unsupported("has no query language in this bench")

    @abstractmethod
    def close(self) -> None:
        """Ends the connection."""


class Target(ABC):
    """One system. A subclass defines its name, its kind, and the meaning of each durability mode."""

    name: str
    kind: str = "server"  # or "in-process" (a library, shown as a lower bound) or "null" (measures the client's own cost)
    baseline: str | None = None  # the null target for the same client
    durability: dict[str, str] = {}  # a missing mode is unsupported
    # Command-line options of this system (strings, or None) and their descriptions; `some_uri` becomes --some-uri.
    options: dict[str, str] = {}

    pid: int | None = None
    data: Path | None = None
    ready_seconds: float | None = None
    # Set before `start` if a replica will follow: some systems must then write a log from the start, and should not do so otherwise.
    replicated: bool = False

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes whose CPU time and memory count, with their descendants; none for a library or a server elsewhere."""
        return (self.pid,) if self.pid else ()

    @classmethod
    @abstractmethod
    def configured(cls, options) -> "Target":
        """A target configured by the command-line options."""

    @abstractmethod
    def start(self, directory: Path) -> None:
        """Starts the system or connects to it. Its files are below the empty directory. Raises NotGiven if the system is not available."""

    @abstractmethod
    def stop(self) -> None:
        """Stops the processes of `start` and `start_replica`. It may be called twice, and after a failed start."""

    @abstractmethod
    def connector(self, durability: str) -> Callable[[], Client]:
        """A picklable function that connects with the given durability."""

    @abstractmethod
    def describe(self) -> dict:
        """Version and settings of the running system."""

    def kill(self) -> None:
        """Kills the server like `kill -9`. `restart` can start it again."""
        raise Unsupported("is not a server that the bench started")

    def restart(self) -> None:
        """Starts a killed server on its data, and returns when it accepts requests. Sets `pid` and `ready_seconds`."""
        raise Unsupported("is not a server that the bench started")

    def start_replica(self, directory: Path, tables: list[Table]) -> None:
        """Starts a second instance, with files below the empty directory, as an asynchronous replica of this one.

        `tables` already exist, and exist on the replica when this returns. Their contents may still be missing there.
        """
        raise Unsupported("the bench starts no replica of it")

    def replica_connector(self) -> Callable[[], Client]:
        """Like `connector`, but for reads from the replica."""
        raise Unsupported("the bench starts no replica of it")

    def await_replica(self, limit: float = 600.0) -> None:
        """Returns when the replica has every write that this instance has acknowledged. Raises an error after `limit` seconds."""
        raise Unsupported("the bench starts no replica of it")
