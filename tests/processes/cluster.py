"""Several Diwan processes over one PostgreSQL, and what can go wrong: processes that are killed or stopped, a server that crashes,
connections that are cut.
"""

import random
import shutil
import signal
import socket
import tempfile
import threading
import time
import uuid
from pathlib import Path

from postgres_server import PostgresServer
from pymongo import MongoClient
from server_process import ServerProcess


class Proxy:
    """A TCP proxy in front of PostgreSQL, whose connections can be cut."""

    def __init__(self, port: int):
        self.target = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.pairs: set[tuple[socket.socket, socket.socket]] = set()
        self.lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target), 5)
            except OSError:
                client.close()
                continue
            pair = (client, server)
            with self.lock:
                self.pairs.add(pair)
            for source, sink in (pair, pair[::-1]):
                threading.Thread(target=self._pump, args=(source, sink, pair), daemon=True).start()

    def _pump(self, source, sink, pair):
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
        except OSError:
            pass
        self._close(pair)

    def _close(self, pair):
        with self.lock:
            self.pairs.discard(pair)
        for end in pair:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()

    def cut(self):
        """Cuts all connections."""
        with self.lock:
            pairs = list(self.pairs)
        for pair in pairs:
            self._close(pair)

    def end(self):
        self.listener.close()
        self.cut()


class Cluster:
    """Processes that serve the same documents."""

    def __init__(self, directory: Path, count: int = 3, has_standby: bool = False):
        # Not below the directory of the tests, which other users may not enter.
        self.place = Path(tempfile.mkdtemp(prefix="diwan-processes-"))
        # With a standby a write is acknowledged when both have it.
        settings = {"max_connections": "300"} | ({"synchronous_standby_names": "*"} if has_standby else {})
        self.postgres = PostgresServer(self.place, settings).start()
        self.standby = None
        if has_standby:
            place = self.place / "standby"
            place.mkdir(mode=0o755)
            self.standby = PostgresServer(place, {"max_connections": "300"}).copy(self.postgres).start()
        schema = f"diwan_{uuid.uuid4().hex}"
        self.proxies = [Proxy(self.postgres.port) for _ in range(count)]
        self.processes = []
        for number, proxy in enumerate(self.proxies):
            own = directory / f"process-{number}"
            own.mkdir()
            process = ServerProcess(own, arguments=("--topology", "mongos"))
            process.postgres, process.schema = self.uri(proxy.port), schema
            self.processes.append(process)
        self.schema = schema
        threads = [threading.Thread(target=process.start) for process in self.processes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def uri(self, port: int) -> str:
        ports = [port, self.standby.port] if self.standby else [port]
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"postgres://{self.postgres.user}@{hosts}/postgres"

    @property
    def store(self) -> str:
        """The URI of the store, past the proxies."""
        return f"{self.uri(self.postgres.port)}?schema={self.schema}"

    def client(self, **options) -> MongoClient:
        """A client that knows all processes."""
        hosts = [f"127.0.0.1:{process.port}" for process in self.processes]
        return MongoClient(hosts, serverSelectionTimeoutMS=30_000, **options)

    def single(self, number: int, **options) -> MongoClient:
        """A client of one process."""
        return MongoClient(self.processes[number].uri, **options)

    def end(self):
        for process in self.processes:
            if process.process is not None:
                process.stop()
        for proxy in self.proxies:
            proxy.end()
        for server in filter(None, (self.postgres, self.standby)):
            server.stop()
        shutil.rmtree(self.place, ignore_errors=True)
        for process in self.processes:
            process.check_log()

    def kill_process(self):
        """Kills a process and starts it again."""
        process = random.choice(self.processes)
        process.kill()
        time.sleep(random.uniform(0, 1))
        process.start()

    def stop_process(self):
        """Stops a process for longer than PostgreSQL waits for a silent committer, or for a moment."""
        process = random.choice(self.processes)
        process.process.send_signal(signal.SIGSTOP)
        time.sleep(random.choice([0.3, 1, 12]))
        process.process.send_signal(signal.SIGCONT)

    def crash_postgres(self):
        self.postgres.restart("immediate")

    def cut_connections(self):
        random.choice(self.proxies).cut()

    def fail_over(self):
        """The primary dies, and some time later the standby takes its place."""
        self.postgres.kill()
        time.sleep(random.uniform(0, 2))
        self.standby.promote()

    def disturb(self):
        """One thing goes wrong."""
        weights = {self.kill_process: 4, self.cut_connections: 4, self.crash_postgres: 3, self.stop_process: 1}
        kind = random.choices(list(weights), list(weights.values()))[0]
        kind()
        return kind.__name__
