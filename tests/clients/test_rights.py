"""What users may do beyond single commands: pipelines, views, cursors, sessions, operations, roles, restrictions."""

import threading
import time

import pytest
from http_client import Http
from pymongo import MongoClient, UpdateOne
from pymongo.errors import BulkWriteError, OperationFailure
from server_process import ServerProcess

ROOT = {"DIWAN_ROOT_USERNAME": "ada", "DIWAN_ROOT_PASSWORD": "secret"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    process = ServerProcess(tmp_path_factory.mktemp("rights"), environment=ROOT).start()
    yield process
    process.end()


@pytest.fixture(scope="module")
def root(server):
    with MongoClient(server.uri, username="ada", password="secret") as client:
        client.shop.orders.insert_many([{"_id": n, "n": n, "customer": n % 3} for n in range(300)])
        client.stock.items.insert_many([{"_id": n} for n in range(3)])
        yield client


class Users:
    """Makes users and their clients."""

    def __init__(self, server, root):
        self.server, self.root, self.count, self.clients = server, root, 0, []

    def make(self, *roles, privileges=(), **options) -> MongoClient:
        self.count += 1
        name = f"user{self.count}"
        roles = [role if isinstance(role, dict) else {"role": role, "db": "shop"} for role in roles]
        if privileges:
            self.root.admin.command("createRole", name, privileges=list(privileges), roles=[])
            roles.append(name)
        self.root.admin.command("createUser", name, pwd="pw", roles=roles, mechanisms=["SCRAM-SHA-256"], **options)
        return self.client(name)

    def client(self, name) -> MongoClient:
        client = MongoClient(self.server.uri, username=name, password="pw")
        self.clients.append(client)
        return client


@pytest.fixture(scope="module")
def users(server, root):
    made = Users(server, root)
    yield made
    for client in made.clients:
        client.close()


def on(database, collection, *actions):
    return {"resource": {"db": database, "collection": collection}, "actions": list(actions)}


def refused(action, code=13) -> str:
    with pytest.raises(OperationFailure) as caught:
        result = action()
        if hasattr(result, "__iter__"):
            list(result)
    assert caught.value.code == code, caught.value
    return caught.value.details["errmsg"]


FOREIGN = [
    [{"$lookup": {"from": {"db": "stock", "coll": "items"}, "localField": "n", "foreignField": "_id", "as": "x"}}],
    [{"$lookup": {"from": "items", "localField": "n", "foreignField": "_id", "as": "x"}}],
    [{"$lookup": {"from": "items", "pipeline": [{"$match": {}}], "as": "x"}}],
    [{"$unionWith": "items"}],
    [{"$unionWith": {"coll": "items", "pipeline": []}}],
    [{"$facet": {"x": [{"$lookup": {"from": "items", "localField": "n", "foreignField": "_id", "as": "x"}}]}}],
    [{"$lookup": {"from": "orders", "pipeline": [{"$unionWith": "items"}], "as": "x"}}],
    [{"$unionWith": {"coll": "orders", "pipeline": [{"$lookup": {"from": "items", "pipeline": [], "as": "x"}}]}}],
    [{"$graphLookup": {"from": "items", "startWith": "$n", "connectFromField": "a", "connectToField": "b", "as": "x"}}],
]


@pytest.mark.parametrize("pipeline", FOREIGN)
def test_pipeline_needs_find_on_every_collection_it_reads(users, pipeline):
    reader = users.make(privileges=[on("shop", "orders", "find")])
    assert len(list(reader.shop.orders.aggregate([{"$limit": 2}]))) == 2
    assert "not authorized on shop to execute command" in refused(lambda: reader.shop.orders.aggregate(pipeline))
    command = {"aggregate": "orders", "pipeline": pipeline, "cursor": {}}
    refused(lambda: reader.shop.command("explain", command))


def test_out_and_merge_need_rights_on_their_target(users, root):
    reader = users.make("read", privileges=[on("shop", "copied", "insert")])
    for stage in ({"$out": "copied"}, {"$merge": "copied"}, {"$out": {"db": "stock", "coll": "copied"}}):
        refused(lambda stage=stage: reader.shop.orders.aggregate([stage]))
    reader.shop.orders.aggregate([{"$merge": {"into": "copied", "whenMatched": "keepExisting"}}])
    assert root.shop.copied.count_documents({}) == 300
    for target in ("_users", "system.roles", "system.settings"):
        refused(lambda target=target: root.shop.orders.aggregate([{"$out": {"db": "admin", "coll": target}}]))
        refused(lambda target=target: root.shop.orders.aggregate([{"$merge": {"into": {"db": "admin", "coll": target}}}]))


def test_view_is_read_with_the_right_on_the_view_alone(users, root):
    root.shop.command("create", "public", viewOn="orders", pipeline=[{"$project": {"n": 1}}])
    reader = users.make(privileges=[on("shop", "public", "find")])
    assert reader.shop.public.find_one({"_id": 1}) == {"_id": 1, "n": 1}
    refused(lambda: reader.shop.orders.find_one())
    maker = users.make(privileges=[on("shop", "mine", "createCollection", "find", "collMod")])
    refused(lambda: maker.shop.command("create", "mine", viewOn="orders", pipeline=[]))
    root.shop.command("create", "mine", viewOn="copied", pipeline=[])
    refused(lambda: maker.shop.command("collMod", "mine", viewOn="orders", pipeline=[]))


def test_upsert_needs_insert_and_update(users):
    updater = users.make(privileges=[on("shop", "upserted", "update", "find")])
    updater.shop.upserted.update_one({"_id": 1}, {"$set": {"a": 1}})
    refused(lambda: updater.shop.upserted.update_one({"_id": 1}, {"$set": {"a": 1}}, upsert=True))
    refused(lambda: updater.shop.upserted.find_one_and_update({"_id": 1}, {"$set": {"a": 1}}, upsert=True))
    refused(lambda: updater.shop.upserted.find_one_and_delete({"_id": 1}))
    with pytest.raises((OperationFailure, BulkWriteError)):
        updater.shop.upserted.bulk_write([UpdateOne({"_id": 1}, {"$set": {"a": 1}}, upsert=True)])
    operations = [{"update": 0, "filter": {"_id": 1}, "updateMods": {"$set": {"a": 1}}, "upsert": True}]
    refused(lambda: updater.admin.command("bulkWrite", 1, ops=operations, nsInfo=[{"ns": "shop.upserted"}]))


def test_registers_are_changed_by_their_own_commands_alone(root):
    admin = root.admin
    for name in ("_users", "system.roles", "system.settings"):
        refused(lambda name=name: admin[name].insert_one({"a": 1}))
        refused(lambda name=name: admin[name].update_many({}, {"$set": {"a": 1}}))
        refused(lambda name=name: admin[name].delete_many({}))
        refused(lambda name=name: admin[name].drop())
        refused(lambda name=name: admin.command("collMod", name, validator={}))
        refused(lambda name=name: admin[name].rename("other"))
        refused(lambda name=name: admin.command("renameCollection", "shop.copied", to=f"admin.{name}", dropTarget=True))
        refused(lambda name=name: admin[name].create_index("a"))
        refused(lambda name=name: admin.command("convertToCapped", name, size=4096))
    refused(lambda: root.drop_database("admin"), code=20)
    assert admin["_users"].count_documents({}) > 0


def test_readers_of_admin_do_not_read_the_registers(users):
    for role in ("readAnyDatabase", "readWriteAnyDatabase", "dbAdminAnyDatabase"):
        reader = users.make({"role": role, "db": "admin"})
        refused(lambda reader=reader: reader.admin["_users"].find_one())
        refused(lambda reader=reader: reader.admin["system.settings"].find_one())


def test_cursors_belong_to_their_user(server, users, root):
    one, other = users.make("read"), users.make("read")
    cursor = one.shop.orders.find(batch_size=2)
    next(cursor)
    refused(lambda: other.shop.command({"getMore": cursor.cursor_id, "collection": "orders"}))
    refused(lambda: other.shop.command("killCursors", "orders", cursors=[cursor.cursor_id]))
    assert sum(1 for _ in cursor) == 299


def test_operations_belong_to_their_user(users):
    one, other = users.make("read"), users.make("read")
    pipeline = [{"$unionWith": "orders"} for _ in range(3)] + [{"$lookup": {"from": "orders", "pipeline": [{"$sort": {"n": -1}}], "as": "x"}}]
    pipeline += [{"$unwind": "$x"}, {"$group": {"_id": {"$mod": ["$x.n", 7]}, "n": {"$sum": 1}}}]
    worker = threading.Thread(target=lambda: list(one.shop.orders.aggregate(pipeline)))
    worker.start()
    seen = []
    while worker.is_alive() and not seen:
        seen = one.admin.command("currentOp", **{"$ownOps": True, "ns": "shop.orders"})["inprog"]
        others = other.admin.command("currentOp", **{"$ownOps": True, "ns": "shop.orders"})["inprog"]
        assert not others
    if seen:
        assert seen[0]["effectiveUsers"][0]["user"].startswith("user")
        refused(lambda: other.admin.command("killOp", op=seen[0]["opid"]))
    worker.join()
    refused(lambda: other.admin.command("currentOp"))


def test_lists_show_what_the_user_may_see(users, root):
    nobody, reader = users.make(), users.make(privileges=[on("shop", "orders", "find")])
    assert nobody.list_database_names() == []
    assert reader.list_database_names() == ["shop"]
    refused(lambda: reader.shop.command("listCollections"))
    assert reader.shop.list_collection_names(authorizedCollections=True) == ["orders"]
    refused(lambda: reader.admin.command("listDatabases", authorizedDatabases=False))
    assert {"shop", "stock"} <= set(root.list_database_names())


def test_roles_are_given_only_by_those_who_may(users):
    administrator = users.make("userAdmin")
    administrator.shop.command("createUser", "inner", pwd="pw", roles=["readWrite"])
    refused(lambda: administrator.shop.command("createUser", "outer", pwd="pw", roles=[{"role": "root", "db": "admin"}]))
    refused(lambda: administrator.shop.command("grantRolesToUser", "inner", roles=[{"role": "read", "db": "stock"}]))
    refused(lambda: administrator.shop.command("createRole", "wide", privileges=[on("stock", "", "find")], roles=[]))
    refused(lambda: administrator.stock.command("usersInfo", 1))
    assert [user["user"] for user in administrator.shop.command("usersInfo", 1)["users"]] == ["inner"]
    administrator.shop.command("dropUser", "inner")


def test_role_that_would_inherit_itself_is_refused(root):
    admin = root.admin
    admin.command("createRole", "a", privileges=[], roles=[])
    admin.command("createRole", "b", privileges=[], roles=["a"])
    refused(lambda: admin.command("grantRolesToRole", "a", roles=["b"]), code=128)
    refused(lambda: admin.command("grantRolesToRole", "a", roles=["a"]), code=128)
    refused(lambda: admin.command("createRole", "read", privileges=[], roles=[]), code=2)
    refused(lambda: admin.command("createRole", "c", privileges=[], roles=["missing"]), code=31)
    assert admin.command("dropAllRolesFromDatabase")["n"] >= 2


def test_user_changes_only_what_is_his_own(users, root):
    own = users.make(privileges=[{"resource": {"db": "admin", "collection": ""}, "actions": ["changeOwnPassword", "changeOwnCustomData"]}])
    name = own.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"][0]["user"]
    own.admin.command("updateUser", name, customData={"a": 1})
    refused(lambda: own.admin.command("updateUser", name, roles=["root"]))
    refused(lambda: own.admin.command("updateUser", "ada", pwd="taken"))
    assert own.admin.command("usersInfo", name)["users"][0]["customData"] == {"a": 1}
    own.admin.command("updateUser", name, pwd="changed")
    shown = own.admin.command("connectionStatus", showPrivileges=True)["authInfo"]
    assert shown["authenticatedUserPrivileges"]


def test_restrictions_hold_for_the_address(users):
    elsewhere = users.make("read", authenticationRestrictions=[{"clientSource": ["10.9.8.0/24"]}])
    refused(lambda: elsewhere.shop.orders.find_one(), code=18)
    here = users.make("read", authenticationRestrictions=[{"clientSource": ["127.0.0.0/8"], "serverAddress": ["127.0.0.1"]}])
    assert here.shop.orders.find_one()


def test_user_roles_variable_holds_the_roles(users):
    reader = users.make("read")
    document = next(iter(reader.shop.orders.aggregate([{"$limit": 1}, {"$project": {"roles": "$$USER_ROLES"}}])))
    assert document["roles"] == [{"_id": "shop.read", "role": "read", "db": "shop"}]


def test_capped_conversion_and_out_keep_the_security_object(server, root):
    http = Http(server.url)
    http.session.auth = ("ada", "secret")
    root.shop.guarded.insert_one({"_id": 1})
    security = {"members": {"names": ["somebody"], "roles": []}, "admins": {"names": [], "roles": []}}
    assert http.put("shop%2Fguarded/_security", json=security).status_code == 200
    root.shop.orders.aggregate([{"$limit": 3}, {"$out": "guarded"}])
    assert http.get("shop%2Fguarded/_security").json() == security
    root.shop.command("convertToCapped", "guarded", size=100_000)
    assert http.get("shop%2Fguarded/_security").json() == security


def test_two_administrators_do_not_remove_each_other(root, server):
    for name in ("left", "right"):
        root.admin.command("createUser", name, pwd="pw", roles=["root"], mechanisms=["SCRAM-SHA-256"])
    clients = [MongoClient(server.uri, username=name, password="pw") for name in ("left", "right")]
    for client in clients:
        client.admin.command("ping")
        client.shop.orders.find_one()
    root.admin.command("createUser", "zed", pwd="pw", roles=["root"], mechanisms=["SCRAM-SHA-256"])
    outcomes = []

    def drop(client, name):
        try:
            client.admin.command("dropUser", name)
            outcomes.append("done")
        except OperationFailure as error:
            outcomes.append(error.code)

    threads = [threading.Thread(target=drop, args=pair) for pair in zip(clients, ("right", "left"), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "done" in outcomes and set(outcomes) <= {"done", 13, 11}
    for client in clients:
        client.close()
    time.sleep(0.01)
    names = {user["user"] for user in root.admin.command("usersInfo", 1)["users"]}
    assert "ada" in names
    for name in names & {"left", "right", "zed"}:
        root.admin.command("dropUser", name)
