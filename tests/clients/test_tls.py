"""TLS on both ports: drivers, HTTP clients, X.509, renewal of certificates, replication between two servers."""

import signal
import socket
import ssl
import subprocess
import time

import pytest
import requests
import trustme
from http_client import Http
from pymongo import MongoClient
from pymongo.errors import OperationFailure, ServerSelectionTimeoutError
from server_process import ServerProcess, binary

ROOT = {"DIWAN_ROOT_USERNAME": "ada", "DIWAN_ROOT_PASSWORD": "first secret"}


class Encrypted:
    """A server with certificates of an authority of its own."""

    def __init__(self, directory, data=False):
        self.authority = trustme.CA()
        self.ca = directory / "ca.pem"
        self.authority.cert_pem.write_to_path(str(self.ca))
        self.certificate, self.key = directory / "certificate.pem", directory / "key.pem"
        self.renew()
        arguments = ("--tls-certificate", str(self.certificate), "--tls-key", str(self.key), "--tls-ca", str(self.ca))
        self.server = ServerProcess(directory, data=directory / "data" if data else None, arguments=arguments, environment=ROOT).start()
        self.url = f"https://localhost:{self.server.http_port}/"

    def renew(self):
        made = self.authority.issue_cert("localhost", "127.0.0.1")
        made.private_key_pem.write_to_path(str(self.key))
        self.certificate.write_bytes(b"".join(part.bytes() for part in made.cert_chain_pems))

    def client(self, **options) -> MongoClient:
        return MongoClient(f"mongodb://localhost:{self.server.port}/?directConnection=true", tls=True, tlsCAFile=str(self.ca), **options)

    def http(self, user=("ada", "first secret")) -> Http:
        session = requests.Session()
        session.verify = str(self.ca)
        # Otherwise a bundle that the environment names would go before the authority.
        session.trust_env = False
        session.auth = user
        return Http(self.url, session)

    def serial(self, port) -> bytes:
        return ssl.get_server_certificate(("localhost", port))


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory):
    made = Encrypted(tmp_path_factory.mktemp("encrypted"))
    yield made
    made.server.end()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256"])
def test_driver_signs_in_over_tls(encrypted, mechanism):
    with encrypted.client(username="ada", password="first secret", authMechanism=mechanism) as client:
        things = client.shop.things
        things.insert_many([{"n": n, "text": "x" * 1000} for n in range(5000)])
        assert sum(1 for _ in things.find({}, batch_size=1000)) == 5000
        assert len(things.find_one({"n": 1})["text"]) == 1000
        things.drop()


def test_documents_of_16_mb_pass_through_tls(encrypted):
    with encrypted.client(username="ada", password="first secret") as client:
        text = "x" * 15_000_000
        client.shop.large.insert_one({"_id": 1, "text": text})
        assert client.shop.large.find_one()["text"] == text
        client.shop.large.drop()


def test_clients_without_tls_or_with_another_authority_get_nothing(encrypted, tmp_path):
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    uri = f"mongodb://localhost:{encrypted.server.port}/?directConnection=true"
    for options in ({}, {"tls": True, "tlsCAFile": str(other)}):
        with MongoClient(uri, serverSelectionTimeoutMS=500, **options) as client, pytest.raises(ServerSelectionTimeoutError):
            client.admin.command("ping")
    with pytest.raises(requests.RequestException):
        requests.get(f"http://localhost:{encrypted.server.http_port}/", timeout=5)
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(encrypted.url, verify=str(other), timeout=5)


def test_certificate_signs_its_subject_in(encrypted, tmp_path):
    identity = encrypted.authority.issue_cert(
        "app@example.org", common_name="app", organization_name="Example", organization_unit_name="Shop"
    )
    pem = tmp_path / "client.pem"
    identity.private_key_and_cert_chain_pem.write_to_path(str(pem))
    subject = "CN=app,OU=Shop,O=Example"
    with encrypted.client(username="ada", password="first secret") as root:
        root["$external"].command("createUser", subject, roles=[{"role": "readWrite", "db": "shop"}])
        with encrypted.client(authMechanism="MONGODB-X509", tlsCertificateKeyFile=str(pem)) as client:
            client.shop.certified.insert_one({})
            users = client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]
            assert users == [{"user": subject, "db": "$external"}]
        with encrypted.client(authMechanism="MONGODB-X509") as client, pytest.raises(OperationFailure) as caught:
            client.shop.certified.find_one()
        assert caught.value.code == 18
        root["$external"].command("dropUser", subject)
        with encrypted.client(authMechanism="MONGODB-X509", tlsCertificateKeyFile=str(pem)) as client, pytest.raises(OperationFailure):
            client.shop.certified.find_one()


def test_certificate_of_another_authority_or_expired_is_refused(encrypted, tmp_path):
    from datetime import datetime, timedelta, timezone

    stranger, expired = tmp_path / "stranger.pem", tmp_path / "expired.pem"
    trustme.CA().issue_cert("a@b.c", common_name="app").private_key_and_cert_chain_pem.write_to_path(str(stranger))
    yesterday = datetime.now(timezone.utc) - timedelta(days=1)
    old = encrypted.authority.issue_cert("a@b.c", common_name="app", not_before=yesterday - timedelta(days=1), not_after=yesterday)
    old.private_key_and_cert_chain_pem.write_to_path(str(expired))
    for pem in (stranger, expired):
        with encrypted.client(tlsCertificateKeyFile=str(pem), serverSelectionTimeoutMS=700) as client, pytest.raises(ServerSelectionTimeoutError):
            client.admin.command("ping")


def test_session_cookie_is_secure_over_https(encrypted):
    http = encrypted.http()
    answer = http.post("_session", json={"name": "ada", "password": "first secret"})
    assert answer.status_code == 200 and "Secure" in answer.headers["Set-Cookie"]
    assert http.get("_session").json()["userCtx"]["roles"] == ["_admin"]


def test_tls_versions_are_1_2_and_1_3(encrypted):
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = ssl.create_default_context(cafile=str(encrypted.ca))
        context.minimum_version = context.maximum_version = version
        context.set_alpn_protocols(["http/1.1"])
        with socket.create_connection(("localhost", encrypted.server.http_port)) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as wrapped:
                assert wrapped.selected_alpn_protocol() == "http/1.1"


def test_renewed_certificate_is_used_after_a_signal(encrypted):
    with encrypted.client(username="ada", password="first secret") as client:
        client.admin.command("ping")
        before = encrypted.serial(encrypted.server.port)
        encrypted.renew()
        encrypted.server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 30
        while encrypted.serial(encrypted.server.port) == before and time.monotonic() < deadline:
            time.sleep(0.1)
        assert encrypted.serial(encrypted.server.port) != before
        assert encrypted.serial(encrypted.server.http_port) != before
        client.shop.things.find_one()


def test_self_signed_certificate_works(tmp_path):
    command = [binary(), "certificate", "--self-signed", "--host", "localhost", "--host", "127.0.0.1"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    again = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=60)
    assert again.returncode != 0 and "diwan-key.pem" in again.stderr
    arguments = ("--tls-certificate", "diwan-certificate.pem", "--tls-key", "diwan-key.pem")
    server = ServerProcess(tmp_path, arguments=arguments, environment=ROOT).start()
    try:
        answer = requests.get(f"https://localhost:{server.http_port}/", verify=str(tmp_path / "diwan-certificate.pem"), timeout=10)
        assert answer.json()["couchdb"] == "Welcome"
    finally:
        server.end()


def test_clients_that_never_shake_hands_hold_nobody_up(encrypted):
    silent = []
    try:
        for port in (encrypted.server.port, encrypted.server.http_port):
            for _ in range(300):
                silent.append(socket.create_connection(("localhost", port)))
        with encrypted.client(username="ada", password="first secret") as client:
            client.admin.command("ping")
        assert encrypted.http().get("").status_code == 200
        silent[0].settimeout(30)
        assert silent[0].recv(1) == b""
    finally:
        for connection in silent:
            connection.close()


def test_two_servers_replicate_with_passwords_over_tls(encrypted, tmp_path):
    other = Encrypted(tmp_path)
    try:
        source, target = encrypted.http(), other.http()
        source.put("sent")
        source.post("sent/_bulk_docs", json={"docs": [{"_id": str(n)} for n in range(50)]})
        trusted = tmp_path / "both.pem"
        trusted.write_bytes(encrypted.ca.read_bytes() + other.ca.read_bytes())
        setting = "_node/_local/_config/replicator/ssl_trusted_certificates_file"
        assert target.put(setting, json=str(trusted)).status_code == 200
        answer = target.post("_replicate", json={
            "source": {"url": encrypted.url + "sent", "auth": {"basic": {"username": "ada", "password": "first secret"}}},
            "target": "received", "create_target": True,
        })  # fmt: skip
        assert answer.status_code == 200, answer.text
        assert target.get("received").json()["doc_count"] == 50
        wrong = target.post("_replicate", json={"source": encrypted.url.replace("//", "//ada:wrong@") + "sent", "target": "received"})
        assert wrong.status_code in (401, 403, 500) and "wrong@" not in wrong.text
    finally:
        other.server.end()
