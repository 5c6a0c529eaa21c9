"""The registry of systems. A new system is a module beside this file and a row here."""

from bench.targets.base import Client, NotGiven, Target
from bench.targets.berkeley import BerkeleyDB
from bench.targets.couchbase import Couchbase
from bench.targets.couchdb import CouchDB
from bench.targets.diwan import Diwan, DiwanHttp
from bench.targets.diwan_postgres import DiwanPostgres, TwoOverPostgres
from bench.targets.ferretdb import FerretDB
from bench.targets.mariadb import MariaDB, MariaDBJson
from bench.targets.mongodb import MongoDB, MongoDBLike
from bench.targets.mysql import MySQL, MySQLJson
from bench.targets.null import NullHttp, NullMongo, NullPostgres
from bench.targets.null_redis import NullRedis
from bench.targets.null_sql import NullMySQL, NullMySQLJson, NullPostgresRelational
from bench.targets.postgres import Postgres, PostgresRelational
from bench.targets.redis_server import Redis
from bench.targets.sqlite import SQLite
from bench.targets.sqlserver import SqlServer
from bench.targets.tokyo import TokyoHash, TokyoTable, TokyoTree
from bench.targets.tyrant import Tyrant, TyrantTable

_ALL: tuple[type[Target], ...] = (
    *(Diwan, DiwanHttp, DiwanPostgres, TwoOverPostgres),
    *(MongoDB, MongoDBLike, FerretDB, CouchDB, Couchbase),
    *(Postgres, PostgresRelational),
    *(MariaDB, MariaDBJson, MySQL, MySQLJson, SqlServer),
    *(Redis, Tyrant, TyrantTable),
    *(SQLite, TokyoHash, TokyoTree, TokyoTable, BerkeleyDB),
    *(NullMongo, NullHttp, NullPostgres, NullPostgresRelational, NullMySQL, NullMySQLJson, NullRedis),
)
TARGETS: dict[str, type[Target]] = {target.name: target for target in _ALL}

__all__ = ["TARGETS", "Client", "NotGiven", "Target"]
