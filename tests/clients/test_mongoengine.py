"""mongoengine: documents as classes."""

import datetime

import mongoengine
import pytest
from mongoengine import fields
from mongoengine.context_managers import query_counter


class Author(mongoengine.Document):
    name = fields.StringField(required=True, unique=True)
    born = fields.DateTimeField()
    meta = {"db_alias": "diwan"}


class Comment(mongoengine.EmbeddedDocument):
    text = fields.StringField()
    stars = fields.IntField(min_value=0, max_value=5)


class Post(mongoengine.Document):
    title = fields.StringField(required=True)
    author = fields.ReferenceField(Author, reverse_delete_rule=mongoengine.CASCADE)
    tags = fields.ListField(fields.StringField())
    comments = fields.EmbeddedDocumentListField(Comment)
    price = fields.Decimal128Field()
    views = fields.LongField(default=0)
    meta = {"db_alias": "diwan", "indexes": ["tags", ("author", "-views")], "ordering": ["title"], "allow_inheritance": True}


class Video(Post):
    seconds = fields.IntField()


@pytest.fixture
def engine(server, db):
    mongoengine.connect(db.name, alias="diwan", host=server.uri, uuidRepresentation="standard")
    yield
    mongoengine.disconnect("diwan")


def test_documents_references_and_inheritance(engine):
    author = Author(name="Hafez", born=datetime.datetime(1325, 1, 1)).save()
    with pytest.raises(mongoengine.NotUniqueError):
        Author(name="Hafez").save()
    Post(title="b", author=author, tags=["x", "y"], comments=[Comment(text="ok", stars=4)], price="1.50").save()
    Video(title="a", author=author, tags=["y"], seconds=30).save()
    assert [type(post) for post in Post.objects] == [Video, Post]
    assert Post.objects(tags="x").get().author.name == "Hafez"
    assert Post.objects(comments__stars__gte=4, title__istartswith="B").count() == 1
    assert Post.objects(title="b").update_one(inc__views=3, push__tags="z", set__comments__0__text="new") == 1
    post = Post.objects.get(title="b")
    assert (post.views, post.tags, post.comments[0].text, str(post.price)) == (3, ["x", "y", "z"], "new", "1.50")
    post.comments.create(text="more", stars=1)
    post.save()
    assert len(Post.objects.get(id=post.id).comments) == 2
    assert Post.objects(tags="y").modify(set__title="c", new=True).title == "c"
    assert set(Post.objects.distinct("tags")) == {"x", "y", "z"}
    assert Post.objects.sum("views") == 3 and Video.objects.average("seconds") == 30
    assert list(Post.objects.aggregate([{"$group": {"_id": "$_cls", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}])) == [
        {"_id": "Post", "n": 1},
        {"_id": "Post.Video", "n": 1},
    ]
    author.delete()
    assert Post.objects.count() == 0


def test_indexes_are_created(engine, db):
    Post.ensure_indexes()
    keys = [tuple(dict(index["key"]).items()) for index in db.post.list_indexes()]
    assert (("_cls", 1), ("tags", 1)) in keys
    assert (("_cls", 1), ("author", 1), ("views", -1)) in keys


def test_upserts_and_bulk_inserts(engine):
    assert Author.objects(name="Rumi").upsert_one(set__born=datetime.datetime(1207, 9, 30)).name == "Rumi"
    Author.objects.insert([Author(name=f"a{i}") for i in range(50)])
    assert Author.objects.count() == 51
    assert Author.objects.order_by("-name").skip(1).limit(1).first().name == "a8"
    assert Author.objects(name__in=["a1", "a2"]).delete() == 2
    assert Author.objects.only("name").explain() is not None


def test_queries_are_counted_by_the_profiler(engine):
    Author.objects.insert([Author(name=f"a{i}") for i in range(3)])
    with query_counter(alias="diwan") as counted:
        assert counted == 0
        list(Author.objects(name="a1"))
        Author.objects.count()
        assert counted == 2
        Author(name="b").save()
        assert counted == 3
    with query_counter(alias="diwan") as counted:
        list(Author.objects.batch_size(3))
        assert counted == 2, "a find and a getMore"
