"""What a simulated store is like. All durations are in seconds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """One configuration: network, server, processes, load. The costs are those of `docs/scale.md`."""

    # The network and the server.
    rtt: float = 0.5e-3
    """A round trip between a process and PostgreSQL."""
    sync: float = 0.5e-3
    """One sync of the write-ahead log; with a synchronous standby also the way to it and its sync."""
    server_cores: int = 16
    message: float = 50e-6
    """CPU of the server for a message with one or several statements."""
    row_group: float = 75e-6
    """CPU of the server for what one write changes: five rows, and their conditions."""
    storage: float = 0.0
    """How long the server waits for pages of its storage because of one write: nothing if its memory holds all that is written to."""
    spread: float = 0.2
    """Round trips, syncs and evaluations vary evenly by this share around their means."""

    # Processes.
    processes: int = 4
    process_cores: int = 4
    evaluation: float = 50e-6
    """CPU of the process for one evaluation of a write, or for a read."""
    misses: float = 0.0
    """The share of reads, and of first evaluations of writes, that need a round trip because the cache lacks something."""
    group_limit: int = 1000
    """The most writes of one group."""

    # The protocol.
    trips: int = 1
    """Round trips while the lock is held by a group that is not stale: 1 if the client decides about conditions, 0 if the server does."""
    catch_up: int = 2
    """Further round trips while the lock is held by a stale group: the states of the collections, then the conditions again."""
    warms: bool = False
    """Each write has the server read the pages that it will need before it is submitted, so that nobody waits for storage under the lock."""
    keeps_lock: bool = True
    """A stale group keeps the lock from the message that has shown it to be stale. If not, it queues for the lock again."""
    follows: bool = True
    """Each process reads the journal whenever it is notified, not only before reads and in stale groups."""
    stripes: int = 1
    """How many head rows there are. A collection belongs to one of them."""

    # The load.
    collections: int = 64
    hot: float = 0.0
    """The share of operations on one hot collection. The others are spread evenly."""
    wide: float = 0.0
    """The share of writes that belong to two collections."""
    writes: float = 1.0
    """The share of writes among all operations."""
    clients: int = 16
    """Clients of each process, each of which sends its next operation when it has the answer (closed loop)."""
    think: float = 0.0
    """How long a client waits before its next operation, at the mean (exponentially distributed)."""
    rate: float = 0.0
    """Operations per second of the whole store that arrive whether or not others are answered (open loop); 0 for a closed loop."""

    # The run.
    seed: int = 1
    warm_up: float = 0.5
    seconds: float = 4.0

    def __post_init__(self) -> None:
        for name in ("rtt", "sync", "message", "row_group", "storage", "evaluation", "think", "rate", "warm_up"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")
        for name in ("server_cores", "processes", "process_cores", "group_limit", "stripes", "collections"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        for name in ("spread", "misses", "hot", "wide", "writes"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be between 0 and 1")
        if self.trips not in (0, 1):
            raise ValueError("trips must be 0 or 1")
        if self.catch_up < 0:
            raise ValueError("catch_up must not be negative")
        if self.seconds <= 0:
            raise ValueError("seconds must be more than 0")
        if not self.rate and self.clients < 1:
            raise ValueError("clients must be at least 1, unless rate is given")
