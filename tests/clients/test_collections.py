"""Databases and collections: creation, options, validators, collation, capped collections, renaming, statistics."""

import pytest
from bson import Int64
from pymongo.collation import Collation
from pymongo.errors import CollectionInvalid, OperationFailure, WriteError


def test_collections_are_created_listed_and_dropped(client, db):
    db.create_collection("a")
    db.b.insert_one({})
    assert sorted(db.list_collection_names()) == ["a", "b"]
    [a] = db.list_collections(filter={"name": "a"})
    assert a["type"] == "collection" and a["info"]["readOnly"] is False and a["info"]["uuid"].subtype == 4
    assert a["idIndex"] == {"v": 2, "key": {"_id": 1}, "name": "_id_"}
    with pytest.raises(CollectionInvalid):
        db.create_collection("a")
    with pytest.raises(OperationFailure) as caught:
        db.command("create", "a", capped=True, size=4096)
    assert caught.value.code == 48
    assert db.name in client.list_database_names()
    db.a.drop()
    db.a.drop()
    assert db.list_collection_names() == ["b"]
    client.drop_database(db.name)
    assert db.name not in client.list_database_names()


def test_rename_moves_documents_and_indexes(db):
    db.a.insert_one({"_id": 1})
    db.a.create_index("x")
    db.a.rename("b")
    assert db.list_collection_names() == ["b"]
    assert db.b.find_one() == {"_id": 1} and "x_1" in db.b.index_information()
    db.c.insert_one({})
    with pytest.raises(OperationFailure) as caught:
        db.b.rename("c")
    assert caught.value.code == 48
    db.b.rename("c", dropTarget=True)
    assert db.c.find_one() == {"_id": 1}
    with pytest.raises(OperationFailure) as caught:
        db.none.rename("x")
    assert caught.value.code == 26


@pytest.mark.parametrize("name", ["", ".a", "$a", "a$b"])
def test_invalid_collection_name_is_refused(db, name):
    with pytest.raises(OperationFailure) as caught:
        db.command("create", name)
    assert caught.value.code == 73


def test_validator_refuses_documents_with_details(db):
    schema = {"bsonType": "object", "required": ["name"], "properties": {"age": {"bsonType": "int", "minimum": 0}}}
    db.create_collection("people", validator={"$jsonSchema": schema})
    db.people.insert_one({"_id": 1, "name": "Aše", "age": 3})
    with pytest.raises(WriteError) as caught:
        db.people.insert_one({"_id": 2, "age": -1})
    assert caught.value.code == 121
    assert caught.value.details["errInfo"]["failingDocumentId"] == 2
    rules = caught.value.details["errInfo"]["details"]["schemaRulesNotSatisfied"]
    assert {rule["operatorName"] for rule in rules} == {"required", "properties"}
    with pytest.raises(WriteError):
        db.people.update_one({"_id": 1}, {"$unset": {"name": ""}})
    db.people.insert_one({"_id": 3}, bypass_document_validation=True)
    db.command("collMod", "people", validator={"age": {"$lt": 200}}, validationLevel="moderate", validationAction="error")
    db.people.insert_one({"_id": 4, "age": 10})
    [options] = [c["options"] for c in db.list_collections(filter={"name": "people"})]
    assert options == {"validator": {"age": {"$lt": 200}}, "validationLevel": "moderate", "validationAction": "error"}


def test_collation_determines_equality_and_order(db):
    czech = Collation("cs", strength=1)
    db.create_collection("words", collation={"locale": "cs", "strength": 1})
    db.words.insert_many([{"_id": i, "w": w} for i, w in enumerate(["hora", "chata", "Cena", "čas", "cena"])])
    assert [d["w"].lower() for d in db.words.find().sort("w")] == ["cena", "cena", "čas", "hora", "chata"]
    assert db.words.count_documents({"w": "CENA"}) == 2
    assert db.words.count_documents({"w": "CENA"}, collation=Collation("simple")) == 0
    db.plain.insert_many([{"w": "a"}, {"w": "A"}])
    assert db.plain.count_documents({"w": "á"}, collation=czech) == 2
    assert db.plain.distinct("w", collation=czech) in (["a"], ["A"])
    db.plain.create_index("w", collation=Collation("en", strength=2), name="folded")
    plan = db.plain.find({"w": "A"}).collation(Collation("en", strength=2)).explain()["queryPlanner"]["winningPlan"]
    assert plan["inputStage"]["indexName"] == "folded"
    numbers = Collation("en", numericOrdering=True)
    db.n.insert_many([{"s": "10"}, {"s": "9"}])
    assert [d["s"] for d in db.n.find().sort("s").collation(numbers)] == ["9", "10"]


def test_capped_collection_keeps_the_newest_documents(db):
    db.create_collection("log", capped=True, size=100_000, max=5)
    db.log.insert_many({"_id": i} for i in range(12))
    assert [d["_id"] for d in db.log.find()] == [7, 8, 9, 10, 11]
    assert [d["_id"] for d in db.log.find().sort("$natural", -1)] == [11, 10, 9, 8, 7]
    assert db.log.options() == {"capped": True, "size": 100_096, "max": 5}
    assert db.command("collStats", "log")["capped"] is True


def test_statistics_commands_count_documents_and_indexes(db):
    db.c.insert_many({"s": "x" * 100} for _ in range(50))
    db.c.create_index("s")
    statistics = db.command("collStats", "c")
    assert (statistics["ns"], statistics["count"], statistics["nindexes"]) == (f"{db.name}.c", 50, 2)
    assert statistics["size"] == 50 * statistics["avgObjSize"] > 5000
    statistics = db.command("dbStats")
    assert (statistics["db"], statistics["collections"], statistics["objects"], statistics["indexes"]) == (db.name, 1, 50, 2)
    assert db.command("dataSize", f"{db.name}.c")["numObjects"] == 50
    assert db.validate_collection("c")["valid"] is True


def test_convert_to_capped_keeps_documents(db):
    db.c.insert_many({"_id": i} for i in range(10))
    db.command("convertToCapped", "c", size=100_000)
    assert db.c.options()["capped"] is True
    assert db.c.count_documents({}) == 10


def test_unknown_and_admin_only_commands_are_refused(db):
    for name, code, code_name in [("nonsense", 59, "CommandNotFound"), ("renameCollection", 13, "Unauthorized")]:
        with pytest.raises(OperationFailure) as caught:
            db.command(name, f"{db.name}.x", to=f"{db.name}.y") if code == 13 else db.command(name)
        assert (caught.value.code, caught.value.details["codeName"]) == (code, code_name)


def test_unknown_and_mistyped_arguments_are_refused(db):
    with pytest.raises(OperationFailure) as caught:
        db.command("find", "c", nonsense=1)
    assert (caught.value.code, caught.value.details["errmsg"]) == (40415, "BSON field 'find.nonsense' is an unknown field.")
    with pytest.raises(OperationFailure) as caught:
        db.command("find", "c", filter=1)
    assert caught.value.code == 14
    with pytest.raises(OperationFailure) as caught:
        db.command("find", "c", limit=Int64(-1))
    assert caught.value.code == 51024
