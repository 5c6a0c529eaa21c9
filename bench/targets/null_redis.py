"""A server with Redis' protocol that stores nothing. It measures the cost of redis-py."""

import sys
from collections.abc import Callable
from functools import partial

from bench.nullserver import serve
from bench.targets.base import Client
from bench.targets.null import Null
from bench.targets.redis_client import RedisAdapter


def _map(*parts: bytes) -> bytes:
    return b"%%%d\r\n" % (len(parts) // 2) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class RedisProtocol:
    """Answers HGETALL with one person, HSET as if all its fields were new, and other commands with 1 or with an empty result."""

    PERSON = _map(*(b"name", b"abcdefghij", b"salary", b"20000", b"age", b"40", b"telephone", b"0123456789"))
    ANSWERS = {
        b"HELLO": b"%2\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n$5\r\nproto\r\n:3\r\n",
        b"HGETALL": PERSON,
        b"DEL": b":1\r\n",
        b"SCAN": b"*2\r\n$1\r\n0\r\n*0\r\n",
    }

    def __init__(self, _port: int) -> None:
        pass

    def answer(self, buffer: bytearray) -> bytes:
        """Removes complete commands from the front of the buffer; returns the replies."""
        replies = []
        start = 0
        while (command := self._command(buffer, start)) is not None:
            name, parts, start = command
            replies.append(b":%d\r\n" % ((parts - 2) // 2) if name == b"HSET" else self.ANSWERS.get(name, b"+OK\r\n"))
        del buffer[:start]
        return b"".join(replies)

    @staticmethod
    def _command(buffer: bytearray, start: int) -> tuple[bytes, int, int] | None:
        """The name, the number of parts and the end of the complete command at this position."""
        end = buffer.find(b"\r\n", start)
        if end < 0:
            return None
        parts, at, name = int(buffer[start + 1 : end]), end + 2, b""
        for _ in range(parts):
            end = buffer.find(b"\r\n", at)
            if end < 0:
                return None
            length = int(buffer[at + 1 : end])
            at = end + 4 + length
            if at > len(buffer):
                return None
            name = name or bytes(buffer[end + 2 : end + 2 + length]).upper()
        return name, parts, at


class _Adapter(RedisAdapter):
    def _is_only_field(self, name: bytes) -> bool:
        return False  # this server reports every field as new; further checks in the client would falsify the cost of an update


class NullRedis(Null):
    """The cost of redis-py, including the conversion of documents to texts."""

    name = "null-redis"
    module = "bench.targets.null_redis"
    protocol = "redis"

    def connector(self, durability: str) -> Callable[[], Client]:
        return partial(_Adapter, self.port, durability)


def main() -> None:
    """Started as `null_redis PROTOCOL PORT`."""
    serve(RedisProtocol, int(sys.argv[2]))
