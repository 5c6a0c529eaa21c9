"""The interface between workloads and systems.

A `Target` is one system's life: start, tell about itself, stop. A `Client` is one connection to it and does the operations.
`Target.connector` returns a picklable function that makes a client, so that client processes can be started with it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.workloads.persons_data import Query

Row = tuple[bytes, dict]  # the 12-byte id that every system gets alike, and the document

RELAXED = "relaxed"
SYNCED = "synced"


class NotGiven(Exception):
    """The system was not made available to this run: no address, no program."""


class Client(ABC):
    """One connection. Tables (collections) are named by the workload; each operation is one round trip unless said otherwise."""

    @abstractmethod
    def create(self, table: str) -> None:
        """Makes an empty table, after dropping an older one of that name."""

    @abstractmethod
    def insert_one(self, table: str, row: Row) -> None:
        """Inserts one document in one call."""

    @abstractmethod
    def insert_many(self, table: str, rows: list[Row]) -> None:
        """Inserts documents in one command."""

    @abstractmethod
    def find_by_id(self, table: str, key: bytes) -> dict | None:
        """The document of an id."""

    @abstractmethod
    def count(self, table: str, query: "Query") -> int:
        """How many documents match; the server counts."""

    @abstractmethod
    def find(self, table: str, query: "Query") -> Iterable[object]:
        """The matching documents, each decoded as it is reached."""

    @abstractmethod
    def maintain(self, table: str) -> str:
        """Runs what the system offers to bring storage to rest; returns what was done."""

    @abstractmethod
    def table_bytes(self, table: str) -> int | None:
        """What the system itself says the table and its primary index take; none if it cannot tell."""

    @abstractmethod
    def close(self) -> None:
        """Ends the connection."""


class Target(ABC):
    """One system. A subclass states its name, its kind, and what each durability mode means there."""

    name: str
    kind: str = "server"  # or "in-process" (a library: the floor, a class of its own) or "null" (the client's own cost)
    baseline: str | None = None  # the null target that costs the same client
    durability: dict[str, str] = {}

    pid: int | None = None
    data: Path | None = None
    ready_seconds: float | None = None

    @classmethod
    @abstractmethod
    def configured(cls, options) -> "Target":
        """The target as the command line's options want it."""

    @abstractmethod
    def start(self, directory: Path) -> None:
        """Starts or connects; files go below the empty directory. Raises NotGiven when the system is not there."""

    @abstractmethod
    def stop(self) -> None:
        """Ends what `start` began; may be called twice, and after a failed start."""

    @abstractmethod
    def connector(self, durability: str) -> Callable[[], Client]:
        """A picklable function that connects with the given durability."""

    @abstractmethod
    def describe(self) -> dict:
        """Version and settings of the running system."""
