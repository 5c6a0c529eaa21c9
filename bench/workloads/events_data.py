"""Generates events like those of Bluesky's Jetstream, the same in every run. Any range can be generated without the events before it.

The kinds of records, their shares, the shares of creations, updates and deletions, and the numbers of distinct users are those of
the first million events of JSONBench's data, according to its published answers. Users' activity falls with a power of their rank, so
a few users are very active and most are not. The structure follows the network's schemas: links to other documents by DID, CID and record key,
lists of richtext facets, embedded images and web pages, replies, and fields that only some records have.

The events always cover one day, whatever their number. The first million events of the published data cover a quarter of an hour, and a
query by hour of the day would find a single hour.
"""

import random
from base64 import b32encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2b
from itertools import accumulate

MIDNIGHT = datetime(2024, 11, 21, tzinfo=UTC)
MIDNIGHT_US = int(MIDNIGHT.timestamp()) * 1_000_000
DAY_US = 86_400 * 1_000_000
SEED = "bluesky"
BLOCK = 1_000  # events drawn from one stream of random numbers

POST, REPOST, LIKE = "app.bsky.feed.post", "app.bsky.feed.repost", "app.bsky.feed.like"


@dataclass(frozen=True)
class Collection:
    """One kind of record: its number in a million events, how many of them are creations, the number of users, and the skew."""

    name: str
    events: int
    creates: int
    users: int
    skew: float  # the exponent that gives this number of users out of twice as many
    changed: bool  # whether events that are not creations are updates (or deletions)


COLLECTIONS = (
    Collection(LIKE, 448_944, 444_523, 117_671, 1.007, changed=False),
    Collection("app.bsky.graph.follow", 360_374, 337_978, 64_023, 1.124, changed=False),
    Collection(POST, 90_816, 86_812, 50_489, 0.561, changed=False),
    Collection(REPOST, 58_540, 56_993, 26_584, 0.736, changed=False),
    Collection("app.bsky.graph.block", 14_040, 13_838, 5_785, 0.801, changed=False),
    Collection("app.bsky.actor.profile", 11_762, 5_337, 5_336, 0.01, changed=True),
    Collection("app.bsky.graph.listitem", 8_103, 7_568, 1_078, 1.21, changed=False),
    Collection("app.bsky.graph.listblock", 895, 860, 449, 0.657, changed=False),
    Collection("app.bsky.graph.starterpack", 405, 104, 101, 0.01, changed=True),
    Collection("app.bsky.graph.list", 356, 259, 218, 0.01, changed=True),
    Collection("app.bsky.feed.threadgate", 255, 228, 196, 0.01, changed=True),
    Collection("app.bsky.feed.postgate", 104, 101, 82, 0.01, changed=True),
    Collection("app.bsky.feed.generator", 74, 10, 9, 0.01, changed=True),
    Collection("app.bsky.labeler.service", 4, 0, 4, 0.01, changed=True),
)
# The rest of a million events concerns accounts and their names.
_SHARES = list(accumulate(collection.events for collection in COLLECTIONS))
MILLION = 1_000_000
MOST_LETTERS = 300  # of a post

LANGUAGES = (["en"], ["ja"], ["pt"], ["es"], ["de"], ["fr"], ["ko"], ["en", "es"])
LANGUAGE_WEIGHTS = (62, 14, 9, 5, 3, 2, 2, 3)
_SORTABLE = "234567abcdefghijklmnopqrstuvwxyz"


def did(user: int) -> str:
    """A user's identifier."""
    return "did:plc:" + b32encode(blake2b(user.to_bytes(8, "big"), digest_size=15).digest()).decode().lower()


def moment(time_us: int) -> str:
    """A time in the format of records, to the millisecond."""
    return (MIDNIGHT + timedelta(microseconds=time_us - MIDNIGHT_US)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def sortable(number: int) -> str:
    """A number as 13 letters that sort like numbers, for record keys and revisions."""
    return "".join(_SORTABLE[number >> shift & 31] for shift in range(60, -1, -5))


class Letters:
    """Words, some of them frequent, and pieces of a random text, which are cheaper than drawing each letter."""

    def __init__(self) -> None:
        draw = random.Random(SEED)
        self._text = draw.randbytes(1 << 20).translate(_SORTABLE.encode() * 8).decode()
        syllables = [consonant + vowel for consonant in "bcdfghjklmnprstvwyz" for vowel in ("a", "e", "i", "o", "u", "ai", "ou")]
        self._words = ["".join(draw.choices(syllables, k=draw.choice((1, 1, 2, 2, 2, 3)))) for _ in range(5_000)]
        self._weights = list(accumulate(1 / (rank + 3) for rank in range(len(self._words))))

    def words(self, draw: random.Random, count: int) -> str:
        """`count` words, truncated to the length limit of a post."""
        return " ".join(draw.choices(self._words, cum_weights=self._weights, k=count))[:MOST_LETTERS]

    def piece(self, draw: random.Random, length: int) -> str:
        """`length` random letters."""
        start = int(draw.random() * (len(self._text) - length))
        return self._text[start : start + length]


class Events:
    """A sequence of events. `at` generates any range of it."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._step = DAY_US / count
        self._letters = Letters()
        self._inverses = {collection.name: self._inverse(collection, count / MILLION) for collection in COLLECTIONS}
        self._makers = {LIKE: self._reference, REPOST: self._reference, POST: self._post, "app.bsky.actor.profile": self._profile}
        subjects = ("app.bsky.graph.follow", "app.bsky.graph.block")
        self._makers.update({name: self._subject for name in subjects})

    @staticmethod
    def _inverse(collection: Collection, scale: float) -> Callable[[float], int]:
        """Maps a number of [0, 1) to a user's rank. Activity falls as (rank + offset) ** -skew."""
        users = max(2.0, 2 * collection.users * scale)
        offset, rest = users / 1_000, 1 - collection.skew
        low = offset**rest
        width = (users + offset) ** rest - low
        return lambda uniform: int((low + uniform * width) ** (1 / rest) - offset)

    def at(self, start: int, end: int) -> Iterator[dict]:
        """The events from number `start` up to `end`."""
        for block in range(start // BLOCK, -(-end // BLOCK)):
            draw = random.Random(f"{SEED} {self.count} {block}")
            for number in range(block * BLOCK, min((block + 1) * BLOCK, end)):
                event = self._event(draw, number)
                if number >= start:
                    yield event

    def _user(self, draw: random.Random, collection: str) -> str:
        return did(self._inverses[collection](draw.random()))

    def _event(self, draw: random.Random, number: int) -> dict:
        time_us = MIDNIGHT_US + int((number + draw.random()) * self._step)
        chosen = draw.random() * MILLION
        for collection, bound in zip(COLLECTIONS, _SHARES):
            if chosen < bound:
                return self._commit(draw, collection, time_us)
        return self._told(draw, time_us, number)

    def _commit(self, draw: random.Random, collection: Collection, time_us: int) -> dict:
        operation = "create"
        if draw.random() * collection.events >= collection.creates:
            operation = "update" if collection.changed else "delete"
        age = int(draw.random() * 2_000_000)  # the time between the creation of a record and its event, in microseconds
        commit = {
            "rev": sortable(time_us << 10 | draw.getrandbits(10)),
            "operation": operation,
            "collection": collection.name,
            "rkey": "self" if collection.name == "app.bsky.actor.profile" else sortable((time_us - age) << 10),
        }
        if operation != "delete":
            record = {"$type": collection.name, "createdAt": moment(time_us - age)}
            record.update(self._makers.get(collection.name, self._listing)(draw))
            commit["record"] = record
            commit["cid"] = self._cid(draw)
        return {"did": self._user(draw, collection.name), "time_us": time_us, "kind": "commit", "commit": commit}

    def _told(self, draw: random.Random, time_us: int, number: int) -> dict:
        user = self._user(draw, LIKE)
        common = {"did": user, "seq": 3_900_000_000 + number, "time": moment(time_us)}
        if draw.random() < 0.5:
            return {"did": user, "time_us": time_us, "kind": "account", "account": {"active": draw.random() < 0.98, **common}}
        return {"did": user, "time_us": time_us, "kind": "identity", "identity": {**common, "handle": f"{self._letters.words(draw, 1)}.bsky.social"}}

    def _cid(self, draw: random.Random) -> str:
        return "bafyrei" + self._letters.piece(draw, 52)

    def _address(self, draw: random.Random, collection: str) -> str:
        earlier = MIDNIGHT_US - int(draw.expovariate(1 / DAY_US))
        return f"at://{self._user(draw, LIKE)}/{collection}/{sortable(earlier << 10)}"

    def _link(self, draw: random.Random) -> dict:
        return {"cid": self._cid(draw), "uri": self._address(draw, POST)}

    def _reference(self, draw: random.Random) -> dict:
        return {"subject": self._link(draw)}

    def _subject(self, draw: random.Random) -> dict:
        return {"subject": self._user(draw, LIKE)}

    def _listing(self, draw: random.Random) -> dict:
        return {"list": self._address(draw, "app.bsky.graph.list"), "subject": self._user(draw, LIKE), "name": self._letters.words(draw, 3)}

    def _blob(self, draw: random.Random) -> dict:
        size = int(draw.lognormvariate(12.5, 0.8))
        return {"$type": "blob", "ref": {"$link": "bafkrei" + self._letters.piece(draw, 52)}, "mimeType": "image/jpeg", "size": size}

    def _profile(self, draw: random.Random) -> dict:
        profile = {"displayName": self._letters.words(draw, 2)}
        if draw.random() < 0.8:
            profile["avatar"] = self._blob(draw)
        if draw.random() < 0.5:
            profile["banner"] = self._blob(draw)
        if draw.random() < 0.7:
            profile["description"] = self._letters.words(draw, 1 + int(draw.expovariate(1 / 15)))
        return profile

    def _post(self, draw: random.Random) -> dict:
        text = self._letters.words(draw, 1 + int(draw.expovariate(1 / 14)))
        post: dict = {"langs": list(draw.choices(LANGUAGES, LANGUAGE_WEIGHTS)[0]), "text": text}
        if draw.random() < 0.45:
            parent = self._link(draw)
            post["reply"] = {"parent": parent, "root": parent if draw.random() < 0.6 else self._link(draw)}
        if draw.random() < 0.15:
            post["facets"] = [self._facet(draw, len(text)) for _ in range(1 + int(draw.expovariate(1.0)))]
        chosen = draw.random()
        for bound, embed in ((0.2, self._images), (0.3, self._page), (0.36, self._quote)):
            if chosen < bound:
                post["embed"] = embed(draw)
                break
        return post

    def _facet(self, draw: random.Random, length: int) -> dict:
        kind, maker = draw.choice(
            (
                ("tag", lambda: {"tag": self._letters.words(draw, 1)}),
                ("mention", lambda: {"did": self._user(draw, LIKE)}),
                ("link", lambda: {"uri": f"https://{self._letters.words(draw, 1)}.example/{self._letters.piece(draw, 20)}"}),
            )
        )
        start = int(draw.random() * length)
        feature = {"$type": f"app.bsky.richtext.facet#{kind}", **maker()}
        return {"features": [feature], "index": {"byteStart": start, "byteEnd": min(length, start + 12)}}

    def _images(self, draw: random.Random) -> dict:
        image = partial(self._image, draw)
        return {"$type": "app.bsky.embed.images", "images": [image() for _ in range(draw.choice((1, 1, 1, 2, 3, 4)))]}

    def _image(self, draw: random.Random) -> dict:
        alternative = self._letters.words(draw, 10) if draw.random() < 0.3 else ""
        ratio = {"width": draw.choice((1000, 1536, 2000)), "height": draw.choice((750, 1000, 2000))}
        return {"alt": alternative, "aspectRatio": ratio, "image": self._blob(draw)}

    def _page(self, draw: random.Random) -> dict:
        address = f"https://{self._letters.words(draw, 1)}.example/{self._letters.piece(draw, 24)}"
        external = {"uri": address, "title": self._letters.words(draw, 8), "description": self._letters.words(draw, 25), "thumb": self._blob(draw)}
        return {"$type": "app.bsky.embed.external", "external": external}

    def _quote(self, draw: random.Random) -> dict:
        return {"$type": "app.bsky.embed.record", "record": self._link(draw)}
