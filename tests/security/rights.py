"""Every command and every route, as seven callers try them: what the table in docs/rights.md says."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import bson
from http_client import Http
from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError
from server_process import REPOSITORY, ServerProcess

DATABASE = "rights"
COLLECTION = "things"
HTTP_DATABASE = f"{DATABASE}%2F{COLLECTION}"
PASSWORD = "a long password"
ADMINISTRATOR = "ada"

# Who tries: the column's title, the name to sign in with, and the roles of that user.
CALLERS = {
    "nobody": None,
    "read": ("reader", [{"role": "read", "db": DATABASE}]),
    "readWrite": ("writer", [{"role": "readWrite", "db": DATABASE}]),
    "dbAdmin": ("keeper", [{"role": "dbAdmin", "db": DATABASE}]),
    "root": ("chief", [{"role": "root", "db": "admin"}]),
    "member": ("member", []),
    "admin": ("warden", []),
}
SECURITY = {
    "admins": {"names": ["warden"], "roles": []},
    "members": {"names": ["member"], "roles": []},
}

SESSION = bson.Binary(bytes(16), 4)
NAMESPACE = f"{DATABASE}.{COLLECTION}"

# What a command needs beside its name to be tried. The others are sent as {name: 1}, and those of the list below with
# the collection's name.
ARGUMENTS = {
    "abortTransaction": {"lsid": {"id": SESSION}, "txnNumber": bson.Int64(1), "autocommit": False},
    "aggregate": {"pipeline": [], "cursor": {}},
    "bulkWrite": {"ops": [{"insert": 0, "document": {"a": 1}}], "nsInfo": [{"ns": NAMESPACE}]},
    "cloneCollectionAsCapped": {"toCollection": "capped", "size": 4096},
    "commitTransaction": {"lsid": {"id": SESSION}, "txnNumber": bson.Int64(1), "autocommit": False},
    "convertToCapped": {"size": 4096},
    "createIndexes": {"indexes": [{"key": {"a": 1}, "name": "a_1"}]},
    "createRole": {"privileges": [], "roles": []},
    "createUser": {"pwd": PASSWORD, "roles": []},
    "delete": {"deletes": [{"q": {"none": 1}, "limit": 1}]},
    "deleteIndexes": {"index": "missing_1"},
    "distinct": {"key": "a"},
    "dropIndexes": {"index": "missing_1"},
    "filemd5": {"root": COLLECTION},
    "findAndModify": {"query": {"none": 1}, "update": {"$set": {"a": 1}}},
    "findandmodify": {"query": {"none": 1}, "update": {"$set": {"a": 1}}},
    "getMore": {"collection": COLLECTION},
    "grantPrivilegesToRole": {"privileges": [{"resource": {"db": DATABASE, "collection": ""}, "actions": ["find"]}]},
    "grantRolesToRole": {"roles": ["read"]},
    "grantRolesToUser": {"roles": ["read"]},
    "insert": {"documents": [{"a": 1}]},
    "killCursors": {"cursors": [bson.Int64(1)]},
    "renameCollection": {"to": f"{DATABASE}.renamed"},
    "revokePrivilegesFromRole": {"privileges": [{"resource": {"db": DATABASE, "collection": ""}, "actions": ["find"]}]},
    "revokeRolesFromRole": {"roles": ["read"]},
    "revokeRolesFromUser": {"roles": ["read"]},
    "saslContinue": {"conversationId": 1, "payload": b""},
    "saslStart": {"mechanism": "SCRAM-SHA-256", "payload": b"n,,n=x,r=abcdefghijklmnopqrstuvwx"},
    "setDefaultRWConcern": {"defaultWriteConcern": {"w": 1}},
    "setParameter": {"cursorTimeoutMillis": 600000},
    "update": {"updates": [{"q": {"none": 1}, "u": {"$set": {"a": 1}}}]},
    "updateRole": {"roles": []},
    "updateUser": {"customData": {"a": 1}},
}
VALUES = {
    "createRole": "passing",
    "createUser": "passing",
    "create": "passing",
    "dropRole": "passing",
    "dropUser": "passing",
    "explain": {"find": COLLECTION},
    "getLog": "global",
    "getMore": bson.Int64(1),
    "grantPrivilegesToRole": "passing",
    "grantRolesToRole": "passing",
    "grantRolesToUser": "reader",
    "renameCollection": NAMESPACE,
    "revokePrivilegesFromRole": "passing",
    "revokeRolesFromRole": "passing",
    "revokeRolesFromUser": "reader",
    "updateRole": "passing",
    "updateUser": "reader",
    "dataSize": NAMESPACE,
    "bulkWrite": 1,
    "endSessions": [],
    "refreshSessions": [],
    "killSessions": [],
    "killAllSessions": [],
    "killAllSessionsByPattern": [],
    "profile": -1,
    "filemd5": bson.ObjectId(),
}
OF_COLLECTION = (
    "aggregate cloneCollectionAsCapped collMod collStats compact convertToCapped count createIndexes delete deleteIndexes "
    "distinct drop dropIndexes find findAndModify findandmodify insert killCursors listIndexes update validate"
).split()

# Paths of routes: what the placeholders of their patterns stand for.
PLACEHOLDERS = {
    "db": HTTP_DATABASE,
    "database": DATABASE,
    "doc": "tried",
    "doc*": "tried",
    "node": "_local",
    "rest*": "rest",
    "name*": "file.txt",
    "ddoc": "look",
    "view": "all",
    "local": "note",
    "section": "tried",
    "key": "key",
}
BODIES = {
    "/_dbs_info": {"keys": []},
    "/_diwan/command/{database}": {"find": COLLECTION},
    "/_diwan/map/{db}": {"map": "function (doc) { emit(doc._id) }"},
    "/_diwan/sample": {"name": "library", "db": f"{DATABASE}/{COLLECTION}"},
    "/_replicate": {"source": f"{DATABASE}/{COLLECTION}", "target": f"{DATABASE}/copy"},
    "/_node/{node}/_config/{section}/{key}": "value",
    "/{db}/_bulk_docs": {"docs": [{"a": 1}]},
    "/{db}/_bulk_get": {"docs": [{"id": "tried"}]},
    "/{db}/_find": {"selector": {}},
    "/{db}/_explain": {"selector": {}},
    "/{db}/_index": {"index": {"fields": ["a"]}},
    "/{db}/_aggregate": {"pipeline": []},
    "/{db}/_revs_limit": 1000,
    "/{db}/_purged_infos_limit": 1000,
    "/{db}/_purge": {},
    "/{db}/_security": SECURITY,
    "/{db}/_design/{ddoc}": {"views": {"all": {"map": "function (doc) { emit(doc._id) }"}}},
}


@dataclass
class Table:
    """The outcomes: for each row the callers to whom it is allowed."""

    commands: dict[str, list[bool]] = field(default_factory=dict)
    routes: dict[str, list[bool]] = field(default_factory=dict)

    def text(self) -> str:
        """The table as docs/rights.md has it."""
        lines = [
            "# Rights: who may do what",
            "",
            "`make rights` makes this file: a test tries every command and every route as each of seven callers, on a collection `rights.things`. *read*, *readWrite*, *dbAdmin*",
            "have that role of the database `rights`; *root* has that role of `admin`; *member* and *admin* are named in the `_security` of `rights/things` alone. A mark says that",
            "the request gets past the check of rights; it may still fail for another reason. What a caller may do to his own user, cursors and sessions is allowed where the mark",
            "is missing for others'.",
            "",
        ]
        for title, rows in (("Commands", self.commands), ("Routes", self.routes)):
            lines += [f"## {title}", "| | " + " | ".join(CALLERS) + " |", "| --- |" + " --- |" * len(CALLERS)]
            lines += [f"| `{row}` | " + " | ".join("✓" if allowed else "" for allowed in marks) + " |" for row, marks in rows.items()]
            lines.append("")
        return "\n".join(lines)


class Trial:
    """A server with the seven callers."""

    def __init__(self, server: ServerProcess):
        self.server = server
        self.root = MongoClient(server.uri, username=ADMINISTRATOR, password=PASSWORD)
        self.root_http = self.http(ADMINISTRATOR)
        for caller in filter(None, CALLERS.values()):
            name, roles = caller
            self.root.admin.command("createUser", name, pwd=PASSWORD, roles=roles, mechanisms=["SCRAM-SHA-256"])
        self.clients = {title: self.client(caller) for title, caller in CALLERS.items()}
        self.https = {title: self.http(caller[0] if caller else None) for title, caller in CALLERS.items()}

    def client(self, caller) -> MongoClient:
        if caller is None:
            return MongoClient(self.server.uri)
        return MongoClient(self.server.uri, username=caller[0], password=PASSWORD)

    def http(self, name: str | None) -> Http:
        http = Http(self.server.url)
        if name is not None:
            http.session.auth = (name, PASSWORD)
        return http

    def prepare(self) -> None:
        """Makes what a row that was allowed has removed."""
        database = self.root[DATABASE]
        is_whole = self.root_http.get(f"{HTTP_DATABASE}/_security").json() == SECURITY
        if is_whole and not database.command("collStats", COLLECTION).get("capped"):
            return
        database[COLLECTION].drop()
        database["renamed"].drop()
        database[COLLECTION].insert_one({"_id": "tried"})
        assert self.root_http.put(f"{HTTP_DATABASE}/_security", json=SECURITY).status_code == 200
        body = BODIES["/{db}/_design/{ddoc}"]
        assert self.root_http.put(f"{HTTP_DATABASE}/_design/look", json=body).status_code == 201

    def commands(self) -> list[tuple[str, bool]]:
        """The names of all commands that are not missing, and whether each is one of the database `admin` alone."""
        listed = self.root.admin.command("listCommands")["commands"]
        return [(name, row["adminOnly"]) for name, row in sorted(listed.items())]

    def try_command(self, title: str, name: str, admin_only: bool) -> bool:
        value = COLLECTION if name in OF_COLLECTION else VALUES.get(name, 1)
        database = self.clients[title]["admin" if admin_only else DATABASE]
        try:
            database.command({name: value, **ARGUMENTS.get(name, {})})
        except OperationFailure as error:
            return error.code != 13
        except PyMongoError:
            return True
        finally:
            if name == "logout":
                # The driver does not know that its connection is nobody's now.
                self.clients[title].close()
                self.clients[title] = self.client(CALLERS[title])
        return True

    def try_route(self, title: str, method: str, pattern: str) -> bool:
        path = re.sub(r"\{([^}]*)\}", lambda found: PLACEHOLDERS.get(found[1], found[1].rstrip("*")), pattern)
        body = BODIES.get(pattern, {}) if method in ("POST", "PUT") else None
        headers = {"Destination": "copied"} if method == "COPY" else {}
        answer = self.https[title].request(method, path.lstrip("/"), json=body, headers=headers, allow_redirects=False)
        return answer.status_code not in (401, 403)


def routes() -> list[tuple[str, str]]:
    """The methods and patterns of the table of routes, from its source."""
    source = (REPOSITORY / "crates/couch/src/routes.rs").read_text()
    sets = {
        name: re.findall(r'"(\w+)"', methods)
        for name, methods in re.findall(r"^const (\w+): &\[&str\] = &\[([^\]]*)\];", source, re.M)
    }
    rows = []
    for methods, pattern in re.findall(r'^    (?:quick|route)\(\s*(\w+),\s*"([^"]*)"', source, re.M):
        rows += [(method, pattern) for method in sets[methods] if method not in ("HEAD", "OPTIONS")]
    assert len(rows) > 150, "the table of routes has another form"
    return rows


def measure(server: ServerProcess) -> Table:
    """Tries everything."""
    trial, table = Trial(server), Table()
    for name, admin_only in trial.commands():
        table.commands[name] = []
        for title in CALLERS:
            trial.prepare()
            table.commands[name].append(trial.try_command(title, name, admin_only))
    for method, pattern in routes():
        table.routes[f"{method} {pattern}"] = []
        for title in CALLERS:
            trial.prepare()
            table.routes[f"{method} {pattern}"].append(trial.try_route(title, method, pattern))
    return table


TABLE: Path = REPOSITORY / "docs/rights.md"
