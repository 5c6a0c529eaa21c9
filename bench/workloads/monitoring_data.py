"""The reports of a server-monitoring service: for each minute and server four rows of values and a snapshot of its processes.

Field names are the shortened names of the service (`sId` server, `tA` time added, `tAG` group, `vU` used, `vF` free …). The same
rows with the original long names need about a hundred bytes more each. Values are computed from server, minute and check,
so that any process can generate any row. Process lists are generated once per server and used in turn, so they cost nothing later.
"""

import random
import struct
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache

from bench.data import DATE, INTEGER, NESTED, TEXT, Query, Row, Table

BEGAN = datetime(2009, 7, 25)
EPOCH = 1_248_480_000  # the same in seconds, because ids begin with their time
CHECKS = ("memory", "load", "disk", "network")

LONG_NAMES = {
    "sId": "serverIdentifier",
    "tA": "timeAdded",
    "tAG": "timeAddedGroup",
    "vU": "valueUsed",
    "vF": "valueFree",
    "vC": "valueCached",
    "vS": "valueSwapUsed",
    "vT": "valueSwapFree",
}
_KINDS = {"tA": DATE, "tAG": TEXT}
_FIELDS = tuple((name, _KINDS.get(name, INTEGER)) for name in LONG_NAMES)
VALUES = Table("check_values", _FIELDS)
LONG_VALUES = Table("long_values", tuple((LONG_NAMES[name], kind) for name, kind in _FIELDS))
SNAPSHOTS = Table("snapshots", (("sId", INTEGER), ("tA", DATE), ("ps", NESTED)))
INDEX = ("sId", "tAG", "tA")  # the field with equality first, then the field with range and order

PROCESSES = 40
LISTS = 16
USERS = ("root", "www-data", "mysql", "nobody", "monitor")
PROGRAMS = ("apache2", "mysqld", "php-cgi", "sshd", "cron", "postfix/qmgr", "bash", "python2.5 agent.py", "munin-node", "syslogd")


def key(server: int, minute: int, number: int) -> bytes:
    """An id of twelve bytes that begins with the time, like an ObjectId."""
    return struct.pack(">III", EPOCH + 60 * minute, server, number)


def value_row(server: int, minute: int, check: int) -> Row:
    """The result of one check of a server at a minute."""
    drawn = (server * 7_919 + minute * 104_729 + check * 1_299_709) * 2_654_435_761 % 2**32
    used = drawn % 16_000_000
    return key(server, minute, check), {
        "sId": server,
        "tA": BEGAN + timedelta(minutes=minute),
        "tAG": CHECKS[check],
        "vU": used,
        "vF": 16_000_000 - used,
        "vC": drawn >> 10,
        "vS": drawn % 4_096,
        "vT": 4_096 - drawn % 4_096,
    }


def value_rows(count: int, servers: int) -> Iterator[Row]:
    """The first `count` rows of all checks of the servers, by time."""
    for number in range(count):
        rest, check = divmod(number, len(CHECKS))
        minute, server = divmod(rest, servers)
        yield value_row(server, minute, check)


def lengthened(row: Row) -> Row:
    """A row with the long field names."""
    return row[0], {LONG_NAMES[name]: value for name, value in row[1].items()}


@lru_cache(maxsize=None)
def _process_lists(server: int) -> list[list[dict]]:
    draws = random.Random(server)
    started = [{"u": draws.choice(USERS), "p": draws.randrange(2, 32_768), "n": draws.choice(PROGRAMS)} for _ in range(PROCESSES)]
    return [[one | _usage(draws) for one in started] for _ in range(LISTS)]


def _usage(draws: random.Random) -> dict:
    return {"c": draws.randrange(1000) / 10, "m": draws.randrange(1000) / 10, "r": draws.randrange(500_000)}


def snapshot_row(server: int, minute: int) -> Row:
    """The processes of a server at a minute."""
    lists = _process_lists(server)
    return key(server, minute, len(CHECKS)), {"sId": server, "tA": BEGAN + timedelta(minutes=minute), "ps": lists[minute % LISTS]}


def range_query(server: int, check: int, first: int, last: int, limit: int) -> Query:
    """The service's query: the used and free values of one check of a server in a range of minutes, ordered by time, with a limit."""
    began, ended = (BEGAN + timedelta(minutes=minute) for minute in (first, last))
    conditions = (("equals", "sId", server), ("at least", "tA", began), ("at most", "tA", ended), ("equals", "tAG", CHECKS[check]))
    return Query("range", conditions, fields=("tA", "vU", "vF"), order="tA", limit=limit)
