"""A given server: the bench uses it by its address, neither starts nor stops it, and touches only the databases that it creates there."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import process
from bench.targets.base import RELAXED, Client, NotGiven, Target


class Given(Target):
    """A subclass defines the option with the address, the client class, and how to get host and port from the address."""

    option: str
    purpose = "the address of a running server"
    further: dict[str, str] = {}  # more options, with their descriptions
    adapter: type

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.options = {cls.option: cls.purpose, **cls.further}

    def __init__(self, address: str | None) -> None:
        self._given = address
        self._address: str | None = None  # the server's address while it is in use

    @classmethod
    def configured(cls, options) -> "Given":
        return cls(getattr(options, cls.option))

    @staticmethod
    def listens(address: str) -> tuple[str, int]:
        """Host and port of an address."""
        raise NotImplementedError

    def start(self, directory: Path) -> None:
        if not self._given:
            raise NotGiven(f"no --{self.option.replace('_', '-')}")
        self._reset(self._given)
        self._address = self._given
        self.pid = process.listener(*self.listens(self._address))

    def stop(self) -> None:
        if self._address:
            self._reset(self._address)
        self._address = self.pid = None

    def _reset(self, address: str) -> None:
        client = self.adapter(address, RELAXED)
        client.reset()
        client.close()

    def connector(self, durability: str) -> Callable[[], Client]:
        return partial(self.adapter, self._address, durability)

    def describe(self) -> dict:
        client = self.adapter(self._address, RELAXED)
        try:
            return {"version": client.version(), "settings": f"as given by --{self.option.replace('_', '-')}"}
        finally:
            client.close()
