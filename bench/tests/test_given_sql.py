"""Given SQL systems: MySQL's client with a MariaDB started by the test, and the exact statements for SQL Server."""

from dataclasses import replace
from datetime import datetime

import pymssql
import pytest
from pymssql._mssql import substitute_params

from bench.data import ALL, DATE, INTEGER, NESTED, TEXT, Query, Table
from bench.targets import NotGiven
from bench.targets.base import RELAXED, SYNCED, Unsupported
from bench.targets.mysql import MySQL, MySQLJson, to_address
from bench.targets.sqlserver import SqlServer, SqlServerAdapter
from bench.targets.sqlserver import to_address as to_sqlserver
from bench.tests.systems import options, started

TABLE = Table("things", (("name", TEXT), ("n", INTEGER), ("made at", DATE), ("tags", NESTED)))
KEY = b"\1" * 12
DAY = datetime(2024, 2, 29, 12)
BINARY = "collate Latin1_General_100_BIN2"


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory):
    """A running server."""
    target = started("mariadb", tmp_path_factory.mktemp("mariadb"))
    yield target
    target.stop()


@pytest.mark.parametrize("target", [MySQL, MySQLJson])
def test_a_given_mysql_server_is_left_unchanged(mariadb, target, tmp_path):
    uri = mariadb.connector(RELAXED).args[0]
    given = target.configured(options(mysql_uri=uri))
    given.start(tmp_path)
    assert given.pid == mariadb.pid and "innodb_flush_log_at_trx_commit = 2" in given.describe()["settings"]
    client = given.connector(SYNCED)()
    for table in (TABLE, replace(TABLE, database="own")):
        client.create(table)
        client.insert_one(table, (KEY, {"name": "a", "n": 1}))
        client.update_field(table, KEY, "n", 1)  # an update to the same value counts as found
        assert client.native(table, {client.dialect: "select n from things"}) == [(1,)]
        assert client.maintain(table).endswith("OK") and client.table_bytes(table) > 0
    names = {name for (name,) in client.ask("show databases")}
    assert {"diwan_bench", "diwan_bench_own"} <= names
    with pytest.raises(Unsupported):
        client.native(TABLE, {"mongodb": []})
    given.stop()
    given.stop()
    assert {"diwan_bench", "diwan_bench_own"}.isdisjoint(name for (name,) in client.ask("show databases"))
    client.close()


def test_addresses_are_parsed():
    assert to_address("mysql://us%40er:p%2Fw@there:3307/") == {"host": "there", "port": 3307, "user": "us@er", "password": "p/w"}
    assert to_address("mariadb://there") == {"host": "there", "port": 3306}
    given = to_sqlserver("Driver={ODBC Driver 18 for SQL Server}; Server=tcp:there,1434;UID=sa; PWD=a=b;Encrypt=no")
    assert given == {"server": "there", "port": "1434", "user": "sa", "password": "a=b"}
    assert SqlServer.listens("Data Source=127.0.0.1;User Id=sa;Password=x") == ("127.0.0.1", 1433)
    for refused, parse in (("postgres://there", to_address), ("UID=sa", to_sqlserver)):
        with pytest.raises(ValueError):
            parse(refused)
    with pytest.raises(NotGiven, match="no --sqlserver"):
        SqlServer.configured(options()).start(None)


class Recorder:
    """A connection and its cursor, which records statements as they would be sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.rowcount = 1
        self.description = [("column",)]
        self.rows: list[tuple] = []

    def cursor(self) -> "Recorder":
        return self

    def execute(self, text: str, values: tuple) -> None:
        self.sent.append(substitute_params(text.encode(), values).decode() if values else text)

    def fetchone(self):
        return self.rows[0] if self.rows else None

    def fetchall(self):
        return self.rows

    def __iter__(self):
        return iter(self.rows)


@pytest.fixture
def recorder(monkeypatch):
    """The recorder that an adapter is connected to."""
    recorder = Recorder()
    monkeypatch.setattr(pymssql, "connect", lambda **arguments: recorder)
    return recorder


def test_sql_server_statements_for_tables(recorder):
    client = SqlServerAdapter("Server=there;UID=sa;PWD=x", RELAXED)
    client.create(TABLE)
    assert recorder.sent == [
        "if db_id(N'diwan_bench') is null create database [diwan_bench]",
        "alter database [diwan_bench] set delayed_durability = forced",
        "drop table if exists [diwan_bench].dbo.[things]",
        f"create table [diwan_bench].dbo.[things] (id varbinary(255) primary key, [name] nvarchar(4000) {BINARY}, [n] bigint,"
        f" [made at] datetime2(3), [tags] nvarchar(max) {BINARY})",
    ]
    recorder.sent.clear()
    own = replace(TABLE, database="own", key=str)
    client.create_index(own, "n", "made at")
    client.drop(own)
    client.drop(TABLE)
    assert recorder.sent == [
        "create index [things_n_made at] on [diwan_bench_own].dbo.[things] ([n], [made at])",
        "alter database [diwan_bench_own] set single_user with rollback immediate",
        "drop database [diwan_bench_own]",
        "drop table [diwan_bench].dbo.[things]",
    ]
    with pytest.raises(Unsupported):
        client.create_index(TABLE, "tags")


def test_sql_server_statements_for_writes(recorder):
    client = SqlServerAdapter("Server=there", SYNCED)
    document = {"name": "it's", "made at": DAY, "tags": ["a", "b"]}
    client.insert_one(TABLE, (KEY, document))
    client.insert_many(TABLE, [(KEY, document), (KEY, {"n": 2})])
    client.update_field(TABLE, KEY, "tags", "x")
    client.delete_one(TABLE, KEY)
    assert client.delete_many(TABLE, Query("old", (("below", "made at", DAY), ("any", "n", (1, 2))))) == 1
    key, day = "0x" + "01" * 12, "N'2024-02-29T12:00:00.000Z'"
    place = "[diwan_bench].dbo.[things]"
    first = r'{"k":"AQEBAQEBAQEBAQEB","0":"it' + "''" + r's","2":"2024-02-29T12:00:00.000Z","3":"[\"a\",\"b\"]"}'
    assert recorder.sent == [
        f"insert into {place} (id, [name], [n], [made at], [tags]) values ({key}, N'it''s', NULL, {day}, N'[\"a\",\"b\"]')",
        f"insert into {place} ([id], [name], [n], [made at], [tags]) select [id], [name], [n], [made at], [tags] from openjson("
        f"N'[{first}," + '{"k":"AQEBAQEBAQEBAQEB","1":2}]\') with ([id] varbinary(255) \'$."k"\', [name] nvarchar(4000) \'$."0"\','
        " [n] bigint '$.\"1\"', [made at] datetime2(3) '$.\"2\"', [tags] nvarchar(max) '$.\"3\"')",
        f"update {place} set [tags] = N'\"x\"' where id = {key}",
        f"delete from {place} where id = {key}",
        f"delete from {place} where [made at] < {day} and [n] in (1, 2)",
    ]
    recorder.rowcount = 0
    with pytest.raises(LookupError):
        client.delete_one(TABLE, KEY)
    with pytest.raises(ValueError, match="no column"):
        client.insert_one(TABLE, (KEY, {"other": 1}))


def test_sql_server_statements_for_reads(recorder):
    client = SqlServerAdapter("Server=there", SYNCED)
    recorder.rows = [("a", 3, DAY, '["b"]')]
    assert client.find_by_id(TABLE, KEY) == {"name": "a", "n": 3, "made at": DAY, "tags": ["b"]}
    assert client.read_range(TABLE, KEY, 10) == 1
    recorder.rows = [(KEY, "a", None, None, None)]
    assert list(client.find(TABLE, ALL)) == [(KEY, {"name": "a"})]
    recorder.rows = [(7,)]
    assert client.count(TABLE, Query("tagged", (("exists", "n", None), ("any", "tags", ("a", "b"))))) == 7
    list(client.find(TABLE, Query("first", (("at least", "n", 1),), fields=("n",), order="n", limit=5)))
    list(client.find(TABLE, Query("few", (("any", "nowhere", ("x",)),), limit=2)))
    place, key = "[diwan_bench].dbo.[things]", "0x" + "01" * 12
    columns = "[name], [n], [made at], [tags]"
    elements = "openjson(case when left([tags], 1) = '[' then [tags] else '[' + [tags] + ']' end)"
    assert recorder.sent == [
        f"select {columns} from {place} where id = {key}",
        f"select {columns} from {place} where id >= {key} order by id offset 0 rows fetch next 10 rows only",
        f"select id, {columns} from {place} where 1 = 1",
        f"select count(*) from {place} where [n] is not null and exists (select 1 from {elements} where value in (N'a', N'b'))",
        f"select id, [n] from {place} where [n] >= 1 order by [n] offset 0 rows fetch next 5 rows only",
        f"select id, {columns} from {place} where 1 = 0 order by (select null) offset 0 rows fetch next 2 rows only",
    ]


def test_sql_server_statements_for_maintenance(recorder):
    client = SqlServerAdapter("Server=there", SYNCED)
    recorder.rows = [("diwan_bench",), ("diwan_bench_own",), ("master",)]
    client.reset()
    client.native(TABLE, {"sqlserver": "select 1"})
    client.maintain(TABLE)
    client.table_bytes(TABLE)
    assert recorder.sent == [
        "select name from sys.databases",
        "alter database [diwan_bench] set single_user with rollback immediate",
        "drop database [diwan_bench]",
        "alter database [diwan_bench_own] set single_user with rollback immediate",
        "drop database [diwan_bench_own]",
        *("use [diwan_bench]", "select 1", "use master"),
        "alter index all on [diwan_bench].dbo.[things] rebuild",
        *("use [diwan_bench]", "checkpoint", "use master"),
        "select sum(units.total_pages) * 8192 from [diwan_bench].sys.partitions as parts"
        " join [diwan_bench].sys.allocation_units as units on units.container_id = parts.partition_id"
        " where parts.object_id = object_id(N'[diwan_bench].dbo.[things]')",
    ]
