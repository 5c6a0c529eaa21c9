"""Tokyo Tyrant: the exact bytes of its protocol, and its clients' operations on Tokyo Cabinet's databases."""

import random
import socket
import threading
from dataclasses import replace

import pytest

from bench.targets import TARGETS, NotGiven, debian, tokyo_library
from bench.targets.base import RELAXED, SYNCED, Unsupported
from bench.targets.tyrant import listens
from bench.targets.tyrant_protocol import TyrantConnection, TyrantError
from bench.tests.systems import options
from bench.tests.test_operations import KEYS, QUERIES, TABLE, Life, compare
from bench.tests.tyrant_stand_in import StandIn

# A call, the request that it must send, the answer, and the call's result.
CONVERSATION = (
    (("put", b"k", b"vv"), b"\xc8\x10\0\0\0\x01\0\0\0\x02kvv", b"\0", None),
    (("put_new", b"k", b"vv"), b"\xc8\x11\0\0\0\x01\0\0\0\x02kvv", b"\1", TyrantError),
    (("out", b"key"), b"\xc8\x20\0\0\0\x03key", b"\0", True),
    (("out", b"key"), b"\xc8\x20\0\0\0\x03key", b"\1", False),
    (("get", b"k"), b"\xc8\x30\0\0\0\x01k", b"\0\0\0\0\x03abc", b"abc"),
    (("get", b"k"), b"\xc8\x30\0\0\0\x01k", b"\1", None),
    (
        ("get_many", [b"a", b"bc"]),
        b"\xc8\x31\0\0\0\x02\0\0\0\x01a\0\0\0\x02bc",
        b"\0\0\0\0\x01\0\0\0\x02\0\0\0\x01bcX",
        [(b"bc", b"X")],
    ),
    (("prefix_keys", b"p", 7), b"\xc8\x58\0\0\0\x01\0\0\0\x07p", b"\0\0\0\0\x01\0\0\0\x02p1", [b"p1"]),
    (("prefix_keys", b"p"), b"\xc8\x58\0\0\0\x01\xff\xff\xff\xffp", b"\0\0\0\0\0", []),
    (("sync",), b"\xc8\x70", b"\0", None),
    (("optimize",), b"\xc8\x71\0\0\0\0", b"\0", None),
    (("size",), b"\xc8\x81", b"\0\0\0\0\0\0\1\0\0", 1 << 16),
    (("status",), b"\xc8\x88", b"\0\0\0\0\x0eversion\t1\na\tb\n", {"version": "1", "a": "b"}),
    (
        ("misc", "search", [b"addcond\0n\x009\x005", b"count"], True),
        b"\xc8\x90\0\0\0\x06\0\0\0\x01\0\0\0\x02search\0\0\0\x0daddcond\0n\x009\x005\0\0\0\x05count",
        b"\0\0\0\0\x01\0\0\0\x0242",
        [b"42"],
    ),
    (("misc", "out", [b"k"]), b"\xc8\x90\0\0\0\x03\0\0\0\0\0\0\0\x01out\0\0\0\x01k", b"\1\0\0\0\0", None),
)


def test_tyrant_requests_match_byte_for_byte():
    listening = socket.create_server(("127.0.0.1", 0))
    received = []

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            for _, request, answer, _ in CONVERSATION:
                received.append(connection.recv(len(request), socket.MSG_WAITALL))
                connection.sendall(answer)

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    connection = TyrantConnection(*listening.getsockname())
    for (name, *arguments), request, _, expected in CONVERSATION:
        if expected is TyrantError:
            with pytest.raises(TyrantError):
                getattr(connection, name)(*arguments)
        else:
            assert getattr(connection, name)(*arguments) == expected, name
        assert received[-1] == request, name
    server.join(5)
    with pytest.raises(OSError):
        connection.get(b"k")
    connection.close()
    listening.close()


@pytest.fixture(params=["tch", "tcb", "tct"])
def server(request, tmp_path):
    try:
        tokyo_library.load()
    except OSError:
        try:
            debian.install("libtokyocabinet9")
        except NotGiven as absence:
            pytest.skip(str(absence))
    stand_in = StandIn(tmp_path / f"casket.{request.param}")
    table = request.param == "tct"
    target = TARGETS["tyrant-table" if table else "tyrant"].configured(
        options(**{"tyrant_table_address" if table else "tyrant_address": stand_in.address})
    )
    target.start(tmp_path)
    yield target
    target.stop()
    target.stop()
    stand_in.stop()


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.__name__)
def test_random_operations_on_tyrant_match_the_model(server, key):
    client = server.connector(SYNCED)()
    neighbour = replace(TABLE, name="neighbour", key=key)
    client.create(neighbour)
    client.insert_many(neighbour, [(one, {"n": 5, "name": "B"}) for one in KEYS[key][:20]])
    life = Life(client, replace(TABLE, key=key), random.Random(11))
    life.run(100)
    for fields in (("n",), ("name", "made at"), ("share",)):
        life.attempt(client.create_index, life.table, *fields)
    life.run(60)
    for query in QUERIES:
        life.attempt(compare, client, life.table, life.model, query)
    life.attempt(life.read_on, KEYS[key][20])
    assert ("read_on" in life.missing) == (server.describe()["version"] != "1.1.41, B+ tree")
    assert client.maintain(life.table) and client.table_bytes(life.table) > 0
    client.drop(life.table)
    assert client.find_by_id(life.table, KEYS[key][20]) is None
    assert client.find_by_id(neighbour, KEYS[key][3]) == {"n": 5, "name": "B"}
    client.close()


def test_tyrant_writes_to_absent_documents_raise(server):
    client = server.connector(RELAXED)()
    client.create(TABLE)
    client.insert_one(TABLE, (b"x", {"n": 1}))
    for work in (
        lambda: client.insert_one(TABLE, (b"x", {"n": 2})),
        lambda: client.update_field(TABLE, b"y", "n", 2),
        lambda: client.delete_one(TABLE, b"y"),
    ):
        with pytest.raises((TyrantError, LookupError)):
            work()
    assert client.find_by_id(TABLE, b"x") == {"n": 1}
    client.close()


def test_a_server_with_another_database_kind_is_refused(server):
    wrong = "tyrant" if server.name == "tyrant-table" else "tyrant-table"
    address = server.connector(RELAXED).args[0]
    target = TARGETS[wrong].configured(options(tyrant_address=address, tyrant_table_address=address))
    with pytest.raises(ValueError, match="a database of type"):
        target.start(None)
    target.stop()


def test_tyrant_reports_unsupported_queries(server):
    if server.name == "tyrant-table":
        pytest.skip("has queries")
    client = server.connector(RELAXED)()
    asked = (lambda: client.count(TABLE, QUERIES[1]), lambda: list(client.find(TABLE, QUERIES[1])), lambda: client.create_index(TABLE, "n"))
    for ask in asked:
        with pytest.raises(Unsupported):
            ask()
    client.close()


def test_tyrant_addresses_are_parsed():
    assert listens("server:1979") == ("server", 1979) and listens("server") == ("server", 1978)
    target = TARGETS["tyrant"].configured(options())
    with pytest.raises(NotGiven, match="no --tyrant-address"):
        target.start(None)
