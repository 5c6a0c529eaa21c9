"""A server that somebody else runs, by its address. It is neither started nor stopped here; only what the bench makes in it is touched."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import process
from bench.targets.base import RELAXED, Client, NotGiven, Target


class Given(Target):
    """A subclass states which option holds the address, who speaks to it, and where the address says it listens."""

    option: str
    adapter: type

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.options = {cls.option: f"a running {cls.name} instead of none"}

    def __init__(self, address: str | None) -> None:
        self._address = address

    @classmethod
    def configured(cls, options) -> "Given":
        return cls(getattr(options, cls.option))

    @staticmethod
    def listens(address: str) -> tuple[str, int]:
        """Host and port of an address."""
        raise NotImplementedError

    def start(self, directory: Path) -> None:
        if not self._address:
            raise NotGiven(f"no --{self.option.replace('_', '-')}")
        self._reset()
        self.pid = process.listener(*self.listens(self._address))

    def stop(self) -> None:
        if self.pid is not None:
            self._reset()
            self.pid = None

    def _reset(self) -> None:
        client = self.adapter(self._address, RELAXED)
        client.reset()
        client.close()

    def connector(self, durability: str) -> Callable[[], Client]:
        return partial(self.adapter, self._address, durability)

    def describe(self) -> dict:
        client = self.adapter(self._address, RELAXED)
        try:
            return {"version": client.version(), "settings": f"as given by {self.option.rpartition('_')[2].upper()}"}
        finally:
            client.close()
